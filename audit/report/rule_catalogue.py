"""What every finding of the audit means: those about partitions, which their rules explain, and all others."""

from collections.abc import Collection
from typing import Final

from audit.batches.decisions import DECIDED_OTHERWISE
from audit.chains.incarnations import (
    CLOCK_FITS_BOOT,
    CLOCK_WENT_BACK,
    ROLE_AFTER_EXPIRY,
    STALE_CONTROLLER_EPOCH,
    TWO_NODES_ONE_ID,
)
from audit.chains.witnesses import LOG_CONTINUED, LOG_CUT, LOG_REWRITTEN
from audit.reading.file_faults import LOG_CHANGED, LOG_SHRANK, LOG_VANISHED
from audit.report.open_conditions import EPOCH_NEVER_GIVEN, LEADERSHIP_NEVER_TAKEN
from audit.rules import broker_registrations, controller_epochs, controller_terms, topic_sequences
from audit.rules.clock_differences import CLOCK_DIFFERS
from audit.rules.rule import NO_WORK, Explanation
from audit.rules.table import RULES
from audit.rules.unfinished_work import DELETION_STALLED
from state_log.chain import CHAIN_BREAK, DUPLICATE_SEQUENCE, OUT_OF_ORDER, SEQUENCE_GAP
from state_log.invariants import ONE_CONTROLLER_PER_EPOCH

SEVERITIES: Final = ("critical", "error", "log")
"""The worst first."""
_FILE: Final = "the file and its folder: a disk, a copy, or a person changed it; compare it with a backup"
_LINES: Final = "the file: a disk, a copy, or a person changed it; compare it with a backup"
_NO_BEGINNING: Final = "a Kafka log does not say whether lines before its first are missing"
_NO_CHAIN: Final = "Kafka's lines have neither numbers nor digests"
_LEVELS: Final = ("INFO", "TRACE")


def _of_log(says: str, check_next: str, kafka: str) -> Explanation:
    return Explanation("log", says, check_next, kafka)


EXPLANATIONS: Final[dict[str, Explanation]] = {rule: text for each in RULES for rule, text in each.explains.items()} | {
    ONE_CONTROLLER_PER_EPOCH: Explanation(
        "critical",
        "At most one controller becomes active in a controller epoch.",
        "both controllers' logs near the two records: one of them was not fenced, or ZooKeeper was restored",
        kafka="INFO",
    ),
    STALE_CONTROLLER_EPOCH: Explanation(
        "critical",
        "A broker carries out no request of a controller epoch below one that it has carried out before.",
        "the broker's log near the record: its fencing failed, or ZooKeeper was restored",
        kafka="TRACE",
    ),
    ROLE_AFTER_EXPIRY: Explanation(
        "error",
        "A broker whose registration expired takes no role by a request until it has another one, but for a minute.",
        "the controller that sent the request: whether it saw that the broker was gone",
        "the log does not say when brokers register",
    ),
    EPOCH_NEVER_GIVEN: Explanation(
        "critical",
        "What a broker applies was written by a controller.",
        "the log of the controller of that epoch: it may have been cut at its end, or a line was taken out",
        _NO_BEGINNING,
    ),
    LEADERSHIP_NEVER_TAKEN: Explanation(
        "error",
        "A broker that is made leader records its role within a minute, while its log continues.",
        "the broker's log after that time, and the controller's for refused LeaderAndIsr requests",
        _NO_BEGINNING,
    ),
    DELETION_STALLED: Explanation(
        "error",
        "The deletion of a topic is completed within the limit.",
        "the brokers that did not delete their replicas",
        NO_WORK,
    ),
    TWO_NODES_ONE_ID: Explanation(
        "error",
        "Two processes are not the same node at one time, longer than ten seconds.",
        "where both processes ran: an id was configured twice, or a data folder was copied",
        "a Kafka log does not say which process or cluster wrote it",
    ),
    **controller_terms.EXPLAINS,
    **controller_epochs.EXPLAINS,
    **topic_sequences.EXPLAINS,
    **broker_registrations.EXPLAINS,
    CLOCK_DIFFERS: _of_log(
        "Records that follow from one another have times in that order, but for the limit.",
        "time synchronisation of the host; until it is mended, durations that this node takes part in are wrong",
        "the lines of brokers do not name the controller's event",
    ),
    CLOCK_WENT_BACK: _of_log(
        "The clock of a process does not go back by more than five seconds.",
        "time synchronisation of the host",
        kafka="INFO",
    ),
    CLOCK_FITS_BOOT: _of_log(
        "Between two runs of a node in one boot of its machine, its clock does not go back by more than five seconds.",
        "time synchronisation of the host, and whether a boot id was copied to another machine",
        "a Kafka log does not say which process wrote it",
    ),
    LOG_CUT: _of_log(
        "A log continues at least to the last line that others have seen of it.",
        "the file: lines, or whole files, were taken from its end; compare it with a backup",
        "Kafka's brokers keep no heads of logs",
    ),
    LOG_CONTINUED: _of_log(
        "A log ends with the line that the node's next run found as its last one.",
        "the file: lines were added after the process had ended, by another process or a person",
        "Kafka's brokers keep no heads of logs",
    ),
    LOG_REWRITTEN: _of_log(
        "A line that others have seen has the digest that they have seen.",
        "both logs: one of the two was rewritten from some line on; compare them with backups",
        _NO_CHAIN,
    ),
    DECIDED_OTHERWISE: Explanation(
        "error",
        "A controller decides as this klamm's code does from the state that its log shows (with `--replay` only).",
        "the record and the one before it of the partition: another version of klamm decided, or the log was changed",
        "klamm audit replay reads Kafka's logs",
    ),
    SEQUENCE_GAP: _of_log("The lines of a log are numbered without gaps.", _LINES, _NO_CHAIN),
    DUPLICATE_SEQUENCE: _of_log("No number of a line is used twice.", _LINES, _NO_CHAIN),
    OUT_OF_ORDER: _of_log("Lines stand in the order of their numbers.", _LINES, _NO_CHAIN),
    CHAIN_BREAK: _of_log("Each line has the digest of the line before it.", _LINES, _NO_CHAIN),
    LOG_SHRANK: _of_log("A log that was read does not become shorter.", _FILE, kafka="INFO"),
    LOG_VANISHED: _of_log(
        "The log of a node's latest run is there as long as nothing follows it.",
        _FILE,
        "log4j deletes old files by itself",
    ),
    LOG_CHANGED: _of_log("A log is not rewritten after it was closed, and keeps its line ends.", _FILE, _NO_CHAIN),
}
"""Keyed by rule id."""


def not_applicable(levels: Collection[str], *, governed: bool = False) -> dict[str, str]:
    """The rules that do not apply to Kafka's logs of these levels, by id, and why.

    `governed`: the logs of klamm's controllers say what was decided.
    """
    found = {rule: text.kafka for rule, text in EXPLANATIONS.items() if text.kafka not in _LEVELS}
    if "TRACE" not in levels:
        needed = {rule for rule, text in EXPLANATIONS.items() if text.kafka == "TRACE"}
        found |= dict.fromkeys(needed, "only TRACE has the lines it needs, and the logs are of level INFO")
    elif governed:
        found.pop(EPOCH_NEVER_GIVEN)
    return dict(sorted(found.items()))


def severity_of(rule: str) -> str:
    """The severity of a rule; `error` for one that only another version of klamm knows."""
    return EXPLANATIONS[rule].severity if rule in EXPLANATIONS else "error"
