"""Rules between a state of a partition and the one that replaced it: what elections and changes of ISRs may change.

`state_log.histories` runs them over rows; the audit has the same ones over columns (`audit.rules.decision_sequences`).
Source: Kafka PartitionLeaderElectionAlgorithms, KafkaController (processReplicaLeaderElection, processAlterPartition),
ZkReplicaStateMachine.doRemoveReplicasFromIsr; controller rules PS-20 to PS-23, IS-13.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from cluster.model.broker import NO_LEADER
from state_log.decision_rules import ASKED_BY, REMOVALS

ELECTION_KEEPS_ISR: Final = "election-adds-no-replica"
ELECTION_RAISES_EPOCH: Final = "election-raises-leader-epoch"
ISR_CHANGE_KEEPS_LEADER: Final = "isr-change-keeps-leader"
REMOVAL_TAKES_ONE: Final = "removal-takes-one-replica"
ELECTION_CHANGES_LEADER: Final = "election-changes-leader"
ELECTION_REASONS: Final = frozenset(
    {"Offline", "Preferred", "Reassign", "ControlledShutdown", "recovery", "scrub", "election"}
)
"""Reasons of elections in a partition that had a state before; `election`: in Kafka's logs, which do not say more."""
CHANGES_LEADER: Final = frozenset({"Preferred", "ControlledShutdown"})
"""Reasons of elections in partitions that another broker leads: one that shuts down, or one that is not preferred."""
MESSAGES: Final = {
    ELECTION_KEEPS_ISR: "an election made the ISR {after_isr} of {before_isr}: it added a replica",
    ELECTION_RAISES_EPOCH: "leader {leader} was elected without another leader epoch than {epoch}",
    ISR_CHANGE_KEEPS_LEADER: (
        "a change of the ISR, {reason}, made leader {leader} in leader epoch {epoch} of leader {before_leader} in "
        "leader epoch {before_epoch}"
    ),
    REMOVAL_TAKES_ONE: "one replica left the ISR {before_isr}, and leader {leader} and the ISR {after_isr} remained",
    ELECTION_CHANGES_LEADER: "an election, {reason}, made leader {leader} in leader epoch {epoch}, which led before",
}


class DecidedState(Struct, frozen=True):
    """Holds what was written at a partition epoch, and why."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    reason: str


def decision_violations(before: DecidedState, after: DecidedState) -> Iterator[tuple[str, str]]:
    """Yield (rule, message) of each rule that a state violates. `before`: the state that it replaced."""
    for rule in _violated(before, after):
        yield rule, message_of(rule, before, after)


def message_of(rule: str, before: DecidedState, after: DecidedState) -> str:
    """Say how `after` violates the rule."""
    return MESSAGES[rule].format(
        leader=after.leader,
        epoch=after.leader_epoch,
        before_leader=before.leader,
        before_epoch=before.leader_epoch,
        before_isr=list(before.isr),
        after_isr=list(after.isr),
        reason=after.reason,
    )


def _violated(before: DecidedState, after: DecidedState) -> Iterator[str]:
    added = set(after.isr) - set(before.isr)
    if after.leader_epoch > before.leader_epoch and after.leader >= 0 and after.leader in before.isr and added:
        yield ELECTION_KEEPS_ISR
    if after.reason in ELECTION_REASONS and after.leader_epoch == before.leader_epoch:
        yield ELECTION_RAISES_EPOCH
    if after.reason.startswith(ASKED_BY) and (
        after.leader != before.leader or after.leader_epoch != before.leader_epoch
    ):
        yield ISR_CHANGE_KEEPS_LEADER
    if after.reason in REMOVALS and (
        added or len(before.isr) > len(after.isr) + 1 or after.leader not in {before.leader, NO_LEADER}
    ):
        yield REMOVAL_TAKES_ONE
    if after.reason in CHANGES_LEADER and after.leader == before.leader != NO_LEADER:
        yield ELECTION_CHANGES_LEADER
