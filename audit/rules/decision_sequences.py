"""Rules between a state and the one that it replaced, over columns: what elections and changes of ISRs may change.

`audit.rules.state_sequences` finds the pairs and compares them; `state_log.decision_histories` has the same rules over
rows, and their words.
"""

from typing import Any, Final

import numpy
import pyarrow

from audit.records.vectors import BrokerLists, Flags, Longs, begins_with, is_one_of
from audit.rules.partition_states import Groups
from audit.rules.rule import Explanation
from cluster.model.broker import NO_LEADER
from state_log.decision_histories import (
    CHANGES_LEADER,
    ELECTION_CHANGES_LEADER,
    ELECTION_KEEPS_ISR,
    ELECTION_RAISES_EPOCH,
    ELECTION_REASONS,
    ISR_CHANGE_KEEPS_LEADER,
    MESSAGES,
    REMOVAL_TAKES_ONE,
    DecidedState,
    message_of,
)
from state_log.decision_rules import ASKED_BY, REMOVALS


def violations_of_decisions(groups: Groups, before: Longs, after: Longs, by_one: Flags) -> dict[str, Flags]:
    """The pairs of groups that violate each rule, by its id; aligned with `before`, `after` and `by_one`.

    `by_one`: whether the second replaced the first, with none in between.
    """
    earlier, later = (BrokerLists(groups.firsts["isr"].take(pyarrow.array(n))) for n in (before, after))
    reason = groups.firsts["reason"].take(pyarrow.array(after))
    leader, epoch = groups.leader[after], groups.leader_epoch[after]
    was_leader, was_epoch = groups.leader[before], groups.leader_epoch[before]
    adds = ~later.are_within(earlier)
    other_leader = leader != was_leader
    loses_more = earlier.lengths > later.lengths + 1
    found = {
        ELECTION_KEEPS_ISR: (epoch > was_epoch) & (leader >= 0) & earlier.contain(leader) & adds,
        ELECTION_RAISES_EPOCH: is_one_of(reason, sorted(ELECTION_REASONS)) & (epoch == was_epoch),
        ISR_CHANGE_KEEPS_LEADER: begins_with(reason, ASKED_BY) & (other_leader | (epoch != was_epoch)),
        REMOVAL_TAKES_ONE: is_one_of(reason, sorted(REMOVALS))
        & (adds | loses_more | other_leader & (leader != NO_LEADER)),
        ELECTION_CHANGES_LEADER: is_one_of(reason, sorted(CHANGES_LEADER)) & ~other_leader & (leader != NO_LEADER),
    }
    return {rule: numpy.asarray(by_one & flags, bool) for rule, flags in found.items()}


def describe_decision(rule: str, before: dict[str, Any], after: dict[str, Any]) -> str | None:
    """Say how a state violates one of these rules; None for any other. The states: rows of WRITTEN."""
    return message_of(rule, _written(before), _written(after)) if rule in MESSAGES else None


def _written(row: dict[str, Any]) -> DecidedState:
    return DecidedState(row["leader"], row["leader_epoch"], tuple(row["isr"]), row["reason"] or "")


_ELECTION: Final = "the controller's log near the record, and the version of klamm that it ran"
EXPLAINS: Final = {
    ELECTION_KEEPS_ISR: Explanation(
        "critical",
        "An election adds no replica to the ISR.",
        "whether the added replica had all committed records: until it fetched them it could be elected without them",
        kafka="INFO",
    ),
    ELECTION_RAISES_EPOCH: Explanation(
        "critical",
        "Each election begins a leader epoch.",
        "the brokers' logs: they ignore a leader whose epoch they know already",
        kafka="INFO",
    ),
    ISR_CHANGE_KEEPS_LEADER: Explanation(
        "critical",
        "A change of the ISR that its leader asked for changes neither leader nor leader epoch.",
        "both brokers' logs: the one that led before does not hear of it",
        kafka="the log does not say who asked for an ISR",
    ),
    REMOVAL_TAKES_ONE: Explanation(
        "error",
        "When a replica leaves the ISR, the others stay, and no other leader is elected.",
        _ELECTION,
        kafka="a line about it may have a state that another controller wrote",
    ),
    ELECTION_CHANGES_LEADER: Explanation(
        "error",
        "A preferred election, and one for a controlled shutdown, elects another broker than the one that leads.",
        "who asked for the election: clients lost their leader for nothing, or a broker that stops leads on",
        kafka="the log does not say why a leader was elected",
    ),
}
