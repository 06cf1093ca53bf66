"""Rules between the states of a partition, those of `state_log.histories`.

Records of all controllers are ordered by partition epoch, not by arrival. A state is compared with its neighbours; when
one arrives between two that were neighbours, the findings about these are taken back. So the findings depend on the
records, not on the batches they came in.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

import numpy
import pyarrow

from audit.records.findings import AuditFinding, RuleViolation, changes
from audit.records.vectors import BrokerLists, Flags, Longs
from audit.rules.decision_sequences import EXPLAINS, describe_decision, violations_of_decisions
from audit.rules.neighbouring import Pairs, Touched, pairs_before, pairs_now
from audit.rules.partition_states import STATES_READ, WRITTEN, Groups, describe_state
from audit.rules.recreations import earlier
from audit.rules.rule import BucketBatch, Explanation, Rule, once
from audit.rules.subjects import Subjects
from state_log.histories import (
    CONTROLLER_EPOCH_NEVER_BACK,
    LEADER_EPOCH_BY_ONE,
    LEADER_EPOCH_NEVER_BACK,
    LEADER_FROM_ISR,
    NO_EPOCH,
    ONE_STATE_PER_PARTITION_EPOCH,
)


class NeighbouringStates(NamedTuple):
    """States that a batch touches and those beside them, as groups by partition epoch: as they stood before, and with
    the batch. `old`, `new`: the pairs of each that it touches.
    """

    before: Groups
    old: Pairs
    now: Groups
    new: Pairs
    touched: Flags
    """Aligned with `now`."""
    known: Longs
    """The groups of `before` that the batch touches."""


@once
def neighbouring_states(batch: BucketBatch) -> NeighbouringStates:
    """Find the states that controllers or leaders wrote, beside those that a batch adds."""
    touched = Touched.of(batch, WRITTEN)
    known = touched.known(batch, WRITTEN)
    before, now = Groups(known), Groups(pyarrow.concat_tables([known, batch.added(WRITTEN)]))
    is_touched = numpy.zeros(len(now.key), bool)
    is_touched[now.where(touched.key, touched.sub)] = True
    present = touched.present
    return NeighbouringStates(
        before,
        pairs_before(touched, before.where),
        now,
        pairs_now(now.key, is_touched),
        is_touched,
        before.where(touched.key[present], touched.sub[present]),
    )


def _check(batch: BucketBatch) -> list[AuditFinding]:
    if not batch.added(WRITTEN).num_rows:
        return []
    states, subjects = neighbouring_states(batch), batch.subjects
    old = _contradictions(states.before, states.known, subjects)
    return changes(
        chain(old, _of_pairs(states.before, states.old, subjects)), _found(states.now, states.touched, subjects)
    )


def _withdraw(batch: BucketBatch) -> list[AuditFinding]:
    groups = Groups(earlier(batch, WRITTEN))
    return changes(_found(groups, numpy.ones(len(groups.key), bool), batch.subjects), ())


def _found(groups: Groups, touched: Flags, subjects: Subjects) -> Iterator[AuditFinding]:
    """Find what there is to find about the touched groups. `touched`: aligned with the groups."""
    yield from _contradictions(groups, numpy.flatnonzero(touched), subjects)
    yield from _of_pairs(groups, pairs_now(groups.key, touched), subjects)


def _contradictions(groups: Groups, which: Longs, subjects: Subjects) -> Iterator[AuditFinding]:
    """The findings about those of these groups that have more than one content."""
    for group in which[groups.ends[which] - groups.starts[which] > 1].tolist():
        contents = groups.references(group)
        epoch = int(groups.sub[group])
        texts = " and as ".join(describe_state(row) for row, _ in contents)
        violation = RuleViolation(
            ONE_STATE_PER_PARTITION_EPOCH,
            int(groups.key[group]),
            f"partition-epoch {epoch}",
            f"partition epoch {epoch} was written as {texts}",
            tuple(reference for _, reference in contents),
            contents[-1][0]["at_ms"],
        )
        yield subjects.finding(violation)


def _of_pairs(groups: Groups, pairs: Pairs, subjects: Subjects) -> Iterator[AuditFinding]:
    by_one = groups.sub[pairs.after] == groups.sub[pairs.before] + 1
    found = violations(groups, pairs) | violations_of_decisions(groups, *pairs, by_one)
    for rule, violated in found.items():
        for before, after in zip(pairs.before[violated].tolist(), pairs.after[violated].tolist(), strict=True):
            (first, first_record), (second, second_record) = (groups.references(n)[0] for n in (before, after))
            message = describe_decision(rule, first, second) or MESSAGES[rule].format(
                before=first,
                after=second,
                first=groups.first_controller_epoch[after],
                last=groups.last_controller_epoch[before],
            )
            subject = f"partition-epoch {groups.sub[after]}"
            records = (first_record, second_record)
            violation = RuleViolation(rule, int(groups.key[after]), subject, message, records, second["at_ms"])
            yield subjects.finding(violation)


def violations(groups: Groups, pairs: Pairs) -> dict[str, Flags]:
    """The pairs that violate each rule, by its id; aligned with the pairs."""
    a, b = pairs
    by_one = groups.sub[b] == groups.sub[a] + 1
    earlier, later = (BrokerLists(groups.firsts["isr"].take(pyarrow.array(n))) for n in pairs)
    leader = groups.leader[b]
    starts_own_isr = (later.lengths == 1) & later.contain(leader)
    # Leaders, which write states too, are not fenced by the controller's epoch.
    wrote = groups.first_controller_epoch[b]
    return {
        LEADER_EPOCH_NEVER_BACK: groups.leader_epoch[b] < groups.leader_epoch[a],
        LEADER_EPOCH_BY_ONE: by_one & (groups.leader_epoch[b] > groups.leader_epoch[a] + 1),
        LEADER_FROM_ISR: by_one & (leader >= 0) & ~earlier.contain(leader) & ~starts_own_isr,
        CONTROLLER_EPOCH_NEVER_BACK: (wrote > NO_EPOCH) & (wrote < groups.last_controller_epoch[a]),
    }


MESSAGES: Final = {
    LEADER_EPOCH_NEVER_BACK: "leader epoch went from {before[leader_epoch]} back to {after[leader_epoch]}",
    LEADER_EPOCH_BY_ONE: "one write raised the leader epoch from {before[leader_epoch]} to {after[leader_epoch]}",
    LEADER_FROM_ISR: "leader {after[leader]} was not in the ISR {before[isr]} and does not start an ISR of its own",
    CONTROLLER_EPOCH_NEVER_BACK: (
        "controller epoch {first} wrote partition epoch {after[sub]} after controller epoch {last} had seen partition "
        "epoch {before[sub]}"
    ),
}

_CONTROLLERS: Final = (
    "both controllers' logs near the two records: one of them was not fenced, or ZooKeeper was restored"
)
RULE: Final = Rule(
    explains={
        ONE_STATE_PER_PARTITION_EPOCH: Explanation(
            "critical", "The state znode of a partition has one content at each version.", _CONTROLLERS, kafka="INFO"
        ),
        CONTROLLER_EPOCH_NEVER_BACK: Explanation(
            "critical",
            "No controller writes a state after a later controller has seen one.",
            _CONTROLLERS,
            kafka="INFO",
        ),
        LEADER_FROM_ISR: Explanation(
            "critical",
            "A new leader comes from the ISR before it, or starts an ISR of its own (unclean election).",
            "the election: its cause, and which brokers were live",
            kafka="INFO",
        ),
        LEADER_EPOCH_NEVER_BACK: Explanation(
            "error", "The leader epoch of a partition does not fall.", _CONTROLLERS, kafka="INFO"
        ),
        LEADER_EPOCH_BY_ONE: Explanation(
            "error", "One write raises the leader epoch by one at most.", _CONTROLLERS, kafka="INFO"
        ),
        **EXPLAINS,
    },
    reads=STATES_READ,
    check=_check,
    keeps=(WRITTEN,),
    withdraw=_withdraw,
)
