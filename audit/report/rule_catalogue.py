"""The rules of the audit: what each says, how bad a violation is, and what to look at next."""

from collections.abc import Collection
from typing import Final, Literal, NamedTuple

from audit.batches.cluster_state import OUT_OF_ORDER
from audit.chains.incarnations import CLOCK_WENT_BACK, STALE_CONTROLLER_EPOCH, TWO_NODES_ONE_ID
from audit.chains.witnesses import LOG_CUT, LOG_REWRITTEN
from audit.reading.file_faults import LOG_CHANGED, LOG_SHRANK, LOG_VANISHED
from audit.report.open_conditions import EPOCH_NEVER_GIVEN, LEADERSHIP_NEVER_TAKEN
from audit.rules.applied_states import AGENT_DISAGREES
from audit.rules.clock_differences import CLOCK_DIFFERS
from audit.rules.durations import ISR_FLAPPING, LEADER_FLAPPING, LEADERLESS, UNDER_MIN_ISR
from audit.rules.unclean_elections import RECORDS_LOST, UNCLEAN_ELECTION
from audit.rules.unfinished_work import DELETION_STALLED, REASSIGNMENT_STALLED
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
from state_log.invariants import ONE_CONTROLLER_PER_EPOCH, TRUNCATED_BELOW_HIGH_WATERMARK

SEVERITIES: Final = ("critical", "error", "log")
"""The worst first."""


class Rule(NamedTuple):
    """`critical`: records may be lost, or two brokers led; `log`: a log is not as it was written; `error`: the rest."""

    severity: Literal["critical", "error", "log"]
    says: str
    check_next: str


_CONTROLLERS: Final = (
    "both controllers' logs near the two records: one of them was not fenced, or ZooKeeper was restored"
)
_LOG: Final = "the file: a disk, a copy, or a person changed it; compare it with a backup"

_FILE: Final = "the file and its folder: a disk, a copy, or a person changed it; compare it with a backup"

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
    TRUNCATED_BELOW_HIGH_WATERMARK: Rule(
        "critical",
        "A follower's log is not truncated below its high watermark; a damaged log is another matter.",
        "whether the machine of another replica was started anew before, as after a power failure: what it had not "
        "flushed is lost, also for those that follow it, and the finding names it where its boot id has changed; "
        "whether an unclean election preceded; which records were between the offsets",
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
    RECORDS_LOST: Rule(
        "critical",
        "No unclean election loses records: the new leader's log reaches up to the high watermark before it.",
        "the records between the offsets: producers that got an answer for them have to send them again",
    ),
    UNCLEAN_ELECTION: Rule(
        "error",
        "No leader is elected from outside of the ISR; how many records that lost is none, or unknown.",
        "who allowed it (`unclean.leader.election.enable`, `klamm elect unclean`), and the logs of the ISR before",
    ),
    LEADERLESS: Rule(
        "error", "No partition is without a leader for longer than the limit.", "which brokers of its ISR were live"
    ),
    UNDER_MIN_ISR: Rule(
        "error",
        "No partition has fewer replicas in sync than `min.insync.replicas` for longer than the limit.",
        "the followers that fell out of the ISR: their brokers, disks and network",
    ),
    LEADER_FLAPPING: Rule(
        "error",
        "The leader of a partition does not change again and again, but for elections that somebody asked for.",
        "what brokers the leaders were, and whether these crash or lose their sessions",
    ),
    ISR_FLAPPING: Rule(
        "error",
        "The ISR of a partition does not lose members again and again while its leader stays.",
        "the followers that come and go: their load, and `replica.lag.time.max.ms`",
    ),
    REASSIGNMENT_STALLED: Rule(
        "error",
        "A reassignment is completed or cancelled within the limit.",
        "whether the new replicas are live and catch up; `klamm reassign list`",
    ),
    DELETION_STALLED: Rule(
        "error",
        "The deletion of a topic is completed within the limit.",
        "the brokers that did not delete their replicas",
    ),
    CLOCK_DIFFERS: Rule(
        "log",
        "Records that follow from one another have times in that order, but for the limit.",
        "time synchronisation of the host; until it is mended, durations that this node takes part in are wrong",
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
    LOG_CUT: Rule(
        "log",
        "A log goes on at least to the last line that others have seen of it.",
        "the file: lines, or whole files, were taken from its end; compare it with a backup",
    ),
    LOG_REWRITTEN: Rule(
        "log",
        "A line that others have seen has the digest that they have seen.",
        "both logs: one of the two was written anew from some line on; compare them with backups",
    ),
    SEQUENCE_GAP: Rule("log", "The lines of a log are numbered without gaps.", _LOG),
    DUPLICATE_SEQUENCE: Rule("log", "No number of a line is used twice.", _LOG),
    OUT_OF_ORDER: Rule("log", "Lines stand in the order of their numbers.", _LOG),
    CHAIN_BREAK: Rule("log", "Each line has the digest of the line before it.", _LOG),
    LOG_SHRANK: Rule("log", "A log that was read does not become shorter.", _FILE),
    LOG_VANISHED: Rule("log", "The log of a node's latest run is there as long as nothing follows it.", _FILE),
    LOG_CHANGED: Rule("log", "A log is not written anew after it was closed, and keeps its line ends.", _FILE),
}
"""By rule id."""

KAFKA_RULES: Final[dict[str, Literal["INFO", "TRACE"]]] = {
    ONE_LEADER_PER_EPOCH: "INFO",
    ONE_STATE_PER_PARTITION_EPOCH: "INFO",
    ONE_CONTROLLER_PER_EPOCH: "INFO",
    CONTROLLER_EPOCH_NEVER_BACK: "INFO",
    LEADER_FROM_ISR: "INFO",
    AGENT_DISAGREES: "INFO",
    LEADER_EPOCH_NEVER_BACK: "INFO",
    LEADER_EPOCH_BY_ONE: "INFO",
    PARTITION_EPOCH_NEVER_BACK: "INFO",
    "legal-partition-transition": "INFO",
    "leader-in-isr": "INFO",
    "isr-not-empty": "INFO",
    "isr-without-repetition": "INFO",
    CLOCK_WENT_BACK: "INFO",
    LOG_SHRANK: "INFO",
    LEADERLESS: "INFO",
    LEADER_FLAPPING: "INFO",
    ISR_FLAPPING: "TRACE",
    UNCLEAN_ELECTION: "INFO",
    RECORDS_LOST: "INFO",
    STALE_CONTROLLER_EPOCH: "TRACE",
    "legal-replica-transition": "TRACE",
}
"""The rules that hold for Apache Kafka's state-change.log, and the level that has the lines for them."""
_NO_CHAIN: Final = "Kafka's lines have neither numbers nor digests"
_NO_BEGINNING: Final = "a log of Kafka's does not say whether lines before its first are missing"
_NO_WORK: Final = "the log does not say when reassignments and deletions begin and end"
KAFKA_LACKS: Final[dict[str, str]] = {
    SEQUENCE_GAP: _NO_CHAIN,
    DUPLICATE_SEQUENCE: _NO_CHAIN,
    OUT_OF_ORDER: _NO_CHAIN,
    CHAIN_BREAK: _NO_CHAIN,
    LOG_CHANGED: _NO_CHAIN,
    LOG_CUT: "Kafka's brokers keep no heads of logs",
    LOG_REWRITTEN: _NO_CHAIN,
    LOG_VANISHED: "log4j deletes old files by itself",
    TWO_NODES_ONE_ID: "a log of Kafka's does not say which process or cluster wrote it",
    EPOCH_NEVER_GIVEN: _NO_BEGINNING,
    LEADERSHIP_NEVER_TAKEN: _NO_BEGINNING,
    TRUNCATED_BELOW_HIGH_WATERMARK: "truncations are in server.log",
    UNDER_MIN_ISR: "the log does not say what `min.insync.replicas` is",
    REASSIGNMENT_STALLED: _NO_WORK,
    DELETION_STALLED: _NO_WORK,
    CLOCK_DIFFERS: "the lines of brokers do not name the controller's event",
    "isr-within-replicas": "the lines that say what was written do not name the replicas",
}
"""Why other rules do not."""


def not_applicable(levels: Collection[str], *, governed: bool = False) -> dict[str, str]:
    """Rule -> why it does not hold for Kafka's logs of these levels. `governed`: klamm's logs say what was decided."""
    found = {rule: KAFKA_LACKS.get(rule, "Kafka's log does not state it") for rule in RULES if rule not in KAFKA_RULES}
    if "TRACE" not in levels:
        needed = {rule for rule, level in KAFKA_RULES.items() if level == "TRACE"}
        found |= dict.fromkeys(needed, "only TRACE has the lines it needs, and the logs are of level INFO")
    elif governed:
        found.pop(EPOCH_NEVER_GIVEN)
    return dict(sorted(found.items()))


def severity_of(rule: str) -> str:
    """The severity of a rule; `error` for one that only another version of klamm knows."""
    return RULES[rule].severity if rule in RULES else "error"
