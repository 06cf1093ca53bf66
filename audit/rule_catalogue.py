"""The rules of the audit: what each says, how bad a violation is, and what to look at next."""

from typing import Final, Literal, NamedTuple

from audit.applied_states import AGENT_DISAGREES
from audit.cluster_state import OUT_OF_ORDER
from audit.incarnations import CLOCK_WENT_BACK, STALE_CONTROLLER_EPOCH, TWO_NODES_ONE_ID
from audit.open_conditions import EPOCH_NEVER_GIVEN, LEADERSHIP_NEVER_TAKEN
from state_log.chain import CHAIN_BREAK, DUPLICATE_SEQUENCE, SEQUENCE_GAP
from state_log.histories import (
    CONTROLLER_EPOCH_NEVER_BACK,
    LEADER_EPOCH_BY_ONE,
    LEADER_EPOCH_NEVER_BACK,
    LEADER_FROM_ISR,
    ONE_LEADER_PER_EPOCH,
    ONE_STATE_PER_PARTITION_EPOCH,
    PARTITION_EPOCH_NEVER_BACK,
)
from state_log.invariants import ONE_CONTROLLER_PER_EPOCH


class Rule(NamedTuple):
    """`critical`: records may be lost, or two brokers led; `log`: a log is not as it was written; `error`: the rest."""

    severity: Literal["critical", "error", "log"]
    says: str
    check_next: str


_CONTROLLERS: Final = (
    "both controllers' logs near the two records: one of them was not fenced, or ZooKeeper was restored"
)
_LOG: Final = "the file: a disk, a copy, or a person changed it; compare it with a backup"

RULES: Final[dict[str, Rule]] = {
    ONE_LEADER_PER_EPOCH: Rule(
        "critical",
        "In one leader epoch at most one broker leads, over the records of all controllers and brokers.",
        "the records of both brokers, and whether both took produce requests in that epoch",
    ),
    ONE_STATE_PER_PARTITION_EPOCH: Rule(
        "critical", "The state znode of a partition has one content at each version.", _CONTROLLERS
    ),
    ONE_CONTROLLER_PER_EPOCH: Rule(
        "critical", "At most one controller becomes active in a controller epoch.", _CONTROLLERS
    ),
    CONTROLLER_EPOCH_NEVER_BACK: Rule(
        "critical", "No controller writes a state after a later controller has seen one.", _CONTROLLERS
    ),
    STALE_CONTROLLER_EPOCH: Rule(
        "critical",
        "A broker carries out no request of a controller epoch below one that it has carried out before.",
        "the broker's log near the record: its fencing failed, or ZooKeeper was restored",
    ),
    LEADER_FROM_ISR: Rule(
        "critical",
        "A new leader comes from the ISR before it, or starts an ISR of its own (unclean election).",
        "the election: its cause, and which brokers were live",
    ),
    "no-truncation-below-high-watermark": Rule(
        "critical",
        "A follower's log is not truncated below its high watermark; a damaged log is another matter.",
        "which records were between the offsets, and whether an unclean election preceded",
    ),
    AGENT_DISAGREES: Rule(
        "critical",
        "What a broker applies at a partition epoch is what a controller wrote at it.",
        "the broker's and the controller's record of that partition epoch",
    ),
    EPOCH_NEVER_GIVEN: Rule(
        "critical",
        "What a broker applies was written by a controller.",
        "the log of the controller of that epoch: it may have been cut at its end, or a line was taken out",
    ),
    LEADERSHIP_NEVER_TAKEN: Rule(
        "error",
        "A broker that is made leader records its role within a minute, while its log goes on.",
        "the broker's log after that time, and the controller's for refused LeaderAndIsr requests",
    ),
    LEADER_EPOCH_NEVER_BACK: Rule("error", "The leader epoch of a partition does not fall.", _CONTROLLERS),
    LEADER_EPOCH_BY_ONE: Rule("error", "One write raises the leader epoch by one at most.", _CONTROLLERS),
    PARTITION_EPOCH_NEVER_BACK: Rule(
        "error", "The partition epochs that one process shows do not fall.", "the records of that process"
    ),
    "legal-partition-transition": Rule(
        "error", "The partition state machine makes the transitions of its table only.", "the event that led to it"
    ),
    "legal-replica-transition": Rule(
        "error", "The replica state machine makes the transitions of its table only.", "the event that led to it"
    ),
    "leader-in-isr": Rule("error", "The leader is a member of the ISR.", "the event that led to it"),
    "isr-not-empty": Rule("error", "An ISR has at least one member.", "the event that led to it"),
    "isr-without-repetition": Rule("error", "An ISR names each broker once.", "the event that led to it"),
    "isr-within-replicas": Rule("error", "All members of an ISR are replicas.", "the event that led to it"),
    TWO_NODES_ONE_ID: Rule(
        "error",
        "Two processes are not the same node at one time, longer than ten seconds.",
        "where both processes ran: an id was configured twice, or a data folder was copied",
    ),
    CLOCK_WENT_BACK: Rule(
        "log", "The clock of a process does not go back by more than five seconds.", "time synchronisation of the host"
    ),
    SEQUENCE_GAP: Rule("log", "The lines of a log are numbered without gaps.", _LOG),
    DUPLICATE_SEQUENCE: Rule("log", "No number of a line is used twice.", _LOG),
    OUT_OF_ORDER: Rule("log", "Lines stand in the order of their numbers.", _LOG),
    CHAIN_BREAK: Rule("log", "Each line has the digest of the line before it.", _LOG),
}
"""By rule id."""


def severity_of(rule: str) -> str:
    """The severity of a rule; `error` for one that only another version of klamm knows."""
    return RULES[rule].severity if rule in RULES else "error"
