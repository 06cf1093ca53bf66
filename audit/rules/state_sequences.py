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
from audit.records.sorted_runs import NOTHING, gather, neighbours
from audit.records.vectors import BrokerLists, Flags, Keys, Longs, keys, longs, unique_pairs
from audit.rules.decision_sequences import EXPLAINS, describe_decision, violations_of_decisions
from audit.rules.partition_states import STATES_READ, WRITTEN, Groups, describe_state
from audit.rules.recreations import earlier
from audit.rules.rule import BucketBatch, Explanation, Rule
from audit.rules.subjects import Subjects
from state_log.histories import (
    CONTROLLER_EPOCH_NEVER_BACK,
    LEADER_EPOCH_BY_ONE,
    LEADER_EPOCH_NEVER_BACK,
    LEADER_FROM_ISR,
    NO_EPOCH,
    ONE_STATE_PER_PARTITION_EPOCH,
)


class _Touched(NamedTuple):
    """The (key, partition epoch) of new states, and what `records.sorted_runs.neighbours` has for them; all aligned."""

    key: Keys
    sub: Longs
    lower: Longs
    higher: Longs
    present: Flags


class _Pairs(NamedTuple):
    """Neighbours, as numbers of groups; aligned."""

    before: Longs
    after: Longs


def _check(batch: BucketBatch) -> list[AuditFinding]:
    runs, new, subjects = batch.runs(WRITTEN), batch.added(WRITTEN), batch.subjects
    if not new.num_rows:
        return []
    key, sub = unique_pairs(keys(new["key"]), longs(new["sub"]))
    lower, higher, present = neighbours(runs, key, sub)
    near_key = numpy.concatenate((key, key[lower != NOTHING], key[higher != NOTHING]))
    near_sub = numpy.concatenate((sub, lower[lower != NOTHING], higher[higher != NOTHING]))
    known = gather(runs, *unique_pairs(near_key, near_sub), WRITTEN.schema.empty_table())
    before, now = Groups(known), Groups(pyarrow.concat_tables([known, new]))
    touched = numpy.zeros(len(now.key), bool)
    touched[now.where(key, sub)] = True
    old_pairs = _pairs_before(before, _Touched(key, sub, lower, higher, present))
    old = _contradictions(before, before.where(key[present], sub[present]), subjects)
    return changes(chain(old, _of_pairs(before, old_pairs, subjects)), _found(now, touched, subjects))


def _withdraw(batch: BucketBatch) -> list[AuditFinding]:
    groups = Groups(earlier(batch, WRITTEN))
    return changes(_found(groups, numpy.ones(len(groups.key), bool), batch.subjects), ())


def _found(groups: Groups, touched: Flags, subjects: Subjects) -> Iterator[AuditFinding]:
    """Find what there is to find about the touched groups. `touched`: aligned with the groups."""
    yield from _contradictions(groups, numpy.flatnonzero(touched), subjects)
    yield from _of_pairs(groups, _pairs_now(groups, touched), subjects)


def _pairs_now(groups: Groups, touched: Flags) -> _Pairs:
    """The pairs that have one of the touched in them. `touched`: aligned with the groups."""
    same = groups.key[1:] == groups.key[:-1]
    before = numpy.flatnonzero(same & (touched[1:] | touched[:-1]))
    return _Pairs(before, before + 1)


def _pairs_before(groups: Groups, touched: _Touched) -> _Pairs:
    """The pairs that have one of the touched in them, or are parted by one."""
    key, sub, lower, higher, present = touched
    has_lower, has_higher = lower != NOTHING, higher != NOTHING
    chosen = [
        (present & has_lower, lower, sub),
        (present & has_higher, sub, higher),
        (~present & has_lower & has_higher, lower, higher),
    ]
    befores = [groups.where(key[which], low[which]) for which, low, _ in chosen]
    afters = [groups.where(key[which], high[which]) for which, _, high in chosen]
    pairs = numpy.unique(numpy.stack((numpy.concatenate(befores), numpy.concatenate(afters))), axis=1)
    return _Pairs(pairs[0], pairs[1])


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


def _of_pairs(groups: Groups, pairs: _Pairs, subjects: Subjects) -> Iterator[AuditFinding]:
    for rule, violated in _violations(groups, pairs).items():
        for before, after in zip(pairs.before[violated].tolist(), pairs.after[violated].tolist(), strict=True):
            (first, first_record), (second, second_record) = (groups.references(n)[0] for n in (before, after))
            message = describe_decision(rule, first, second) or _MESSAGES[rule].format(
                before=first,
                after=second,
                first=groups.first_controller_epoch[after],
                last=groups.last_controller_epoch[before],
            )
            subject = f"partition-epoch {groups.sub[after]}"
            records = (first_record, second_record)
            violation = RuleViolation(rule, int(groups.key[after]), subject, message, records, second["at_ms"])
            yield subjects.finding(violation)


def _violations(groups: Groups, pairs: _Pairs) -> dict[str, Flags]:
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
        **violations_of_decisions(groups, a, b, by_one),
    }


_MESSAGES: Final = {
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
