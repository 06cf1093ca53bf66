"""What holds from one state of a partition to the next: no leader, below min.insync.replicas, another leader or ISR.

Columns over states sorted by partition and partition epoch, the neighbours beside one another. Times are those of the
controllers that wrote the states; one that was written earlier than another before it, by another clock, follows at
once, so that no duration is negative.
"""

from functools import cached_property
from typing import Final

import numpy
import pyarrow

from audit.records.sorted_runs import SortedRun
from audit.records.vectors import ABSENT, BrokerLists, Flags, Longs, is_one_of, longs
from audit.rules.partition_states import Groups

_ASKED_EVENTS: Final = (
    "ElectLeadersReceived",
    "ReplicaLeaderElection",
    "ApiPartitionReassignment",
    "ZkPartitionReassignment",
    "ControlledShutdownReceived",
)
_ASKED_REASONS: Final = ("Reassign", "ControlledShutdown", "replica removed")
"""Elections and removals that somebody asked for, by their cause or their reason. `replica removed`: by a reassignment,
or by the deletion of the topic.
"""


class Intervals:
    """The first states of `groups`, with the leaderships that leaders have taken up.

    Each column has one value for each group, in their order: by partition, then by partition epoch. `taken`: the
    leader's record of each row's leader epoch, aligned too, but only meant where `is_taken`; None if there is none.
    """

    def __init__(self, groups: Groups, taken: pyarrow.Table) -> None:
        """Divide time into intervals. `taken`: as `audit.rules.leaderships_taken.TAKEN`, reduced."""
        self.rows, self.key, self.sub = groups.firsts, groups.key, groups.sub
        self.leader, self.leader_epoch = groups.leader, groups.leader_epoch
        self.at_ms = longs(self.rows["at_ms"])
        count = len(self.key)
        self.follows = numpy.zeros(count, bool)
        """Whether the row before is of the same partition."""
        self.follows[1:] = self.key[1:] == self.key[:-1]
        self.goes_on = numpy.zeros(count, bool)
        """Whether the row after is of the same partition."""
        self.goes_on[:-1] = self.follows[1:]
        bounds = SortedRun(taken).find(self.key, self.leader_epoch)
        self.is_taken: Flags = (bounds.first < bounds.end) & (self.leader >= 0)
        self.taken = taken.take(numpy.where(self.is_taken, bounds.first, 0)) if len(taken) else None

    @cached_property
    def steps(self) -> Longs:
        """Milliseconds from the state before, of the same partition; 0 for the first."""
        steps = numpy.zeros(len(self.key), numpy.int64)
        steps[1:] = numpy.maximum(0, self.at_ms[1:] - self.at_ms[:-1])
        return numpy.where(self.follows, numpy.minimum(steps, _LONGEST_MS), 0)

    @cached_property
    def time(self) -> Longs:
        """A clock in milliseconds by which states of one partition are apart; its zero means nothing."""
        return numpy.cumsum(self.steps)

    @cached_property
    def isr(self) -> BrokerLists:
        return BrokerLists(self.rows["isr"])

    @cached_property
    def earlier_isr(self) -> BrokerLists:
        """The ISR of the row before; the first row has its own."""
        return BrokerLists(self.rows["isr"].take(pyarrow.array(numpy.maximum(numpy.arange(len(self.key)) - 1, 0))))

    def taken_longs(self, name: str) -> Longs:
        """A column of the leader's record; ABSENT where there is none."""
        if self.taken is None:
            return numpy.full(len(self.key), ABSENT)
        return numpy.where(self.is_taken, longs(self.taken[name]), ABSENT)

    @cached_property
    def min_isr(self) -> Longs:
        """The value of `min.insync.replicas` as the leader knew it, at most the number of replicas; ABSENT: unknown."""
        known, replicas = self.taken_longs("min_insync_replicas"), BrokerLists(self.rows["replicas"])
        return numpy.where(replicas.present, numpy.minimum(known, replicas.lengths), known)

    @cached_property
    def leaderless(self) -> Flags:
        return self.leader < 0

    @cached_property
    def under_min_isr(self) -> Flags:
        few = (self.min_isr != ABSENT) & (self.isr.lengths < self.min_isr)
        return numpy.asarray(~self.leaderless & few, bool)

    @cached_property
    def elected(self) -> Flags:
        """States that begin a leader epoch with a leader; the first known one only if it is a partition's first."""
        other = numpy.ones(len(self.key), bool)
        other[1:] = self.leader_epoch[1:] != self.leader_epoch[:-1]
        return ~self.leaderless & numpy.where(self.follows, other, self.sub == 0)

    @cached_property
    def by_one(self) -> Flags:
        """Whether the state before was replaced by this one, with none in between."""
        one = numpy.zeros(len(self.key), bool)
        one[1:] = self.sub[1:] == self.sub[:-1] + 1
        return numpy.asarray(one & self.follows, bool)

    @cached_property
    def unclean(self) -> Flags:
        """Elections of a leader outside of the ISR before, which begins an ISR of its own."""
        own = (self.isr.lengths == 1) & self.isr.contain(self.leader)
        return numpy.asarray(self.elected & self.by_one & own & ~self.earlier_isr.contain(self.leader), bool)

    @cached_property
    def asked_for(self) -> Flags:
        """States that somebody asked for: they are no faults, however many."""
        return is_one_of(self.rows["cause_event"], _ASKED_EVENTS) | is_one_of(self.rows["reason"], _ASKED_REASONS)

    @cached_property
    def leader_changes(self) -> Flags:
        """Elections of another broker than the last one that led."""
        count = len(self.key)
        marks = numpy.where(~self.leaderless | ~self.follows, numpy.arange(count), 0)
        last = numpy.maximum.accumulate(marks)
        before = numpy.maximum(numpy.concatenate(([0], last[:-1])), 0)[:count]
        led_by = self.leader[before]
        other = (led_by >= 0) & (led_by != self.leader)
        return numpy.asarray(self.follows & ~self.leaderless & other & ~self.asked_for, bool)

    @cached_property
    def isr_shrinks(self) -> Flags:
        """States in which the leader stayed and lost a member of its ISR."""
        stays = numpy.zeros(len(self.key), bool)
        stays[1:] = self.leader[1:] == self.leader[:-1]
        return self.follows & stays & ~self.leaderless & ~self.earlier_isr.are_within(self.isr) & ~self.asked_for

    def first_of_same(self, flags: Flags) -> Longs:
        """The row where the unbroken series of flagged rows of a partition begins, for each row that is flagged.

        `flags` is aligned with the rows, and so is the result; elsewhere it means nothing.
        """
        count = len(self.key)
        before = numpy.zeros(count, bool)
        before[1:] = flags[:-1]
        begins = flags & ~(before & self.follows)
        return numpy.maximum.accumulate(numpy.where(begins, numpy.arange(count), 0))

    def calm(self, limit_ms: int) -> Flags:
        """Whether a calm time is before a state: longer than the limit, with a leader and enough replicas in sync.

        No rule counts what is before it together with what is after it.
        """
        before = numpy.zeros(len(self.key), bool)
        before[1:] = ~(self.leaderless | self.under_min_isr)[:-1]
        return self.follows & before & (self.steps > limit_ms)


_LONGEST_MS: Final = 100 * 366 * 86_400_000
"""The longest time that counts: times that cannot be right must not overflow 64 bits when 2 million are summed up."""
