"""Heads that were given to the audit, and logs that are not as these say."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from state_log.heads_file import GivenHead
from state_log.record import line_digest
from tests.audit_corpus.fault import Fault
from tests.audit_corpus.faults_of_files import UNDECIDED, WITHOUT_LOG
from tests.audit_corpus.logs import BROKER, CONTROLLER, Logs, Record

Heads = Callable[[Logs], Sequence[GivenHead]]


def head_of(path: Path, lines: int = 0) -> GivenHead:
    """The head of a log without so many of its last lines."""
    line = path.read_bytes().splitlines()[-1 - lines]
    record = json.loads(line)
    return GivenHead(record["node"], record["incarnation"], record["seq"], line_digest(line))


def heads(logs: Logs) -> list[GivenHead]:
    """Of all logs."""
    return [head_of(path) for path in logs.all()]


def altered(prefix: str, **fields: object) -> Heads:
    """The head of one log with other fields, and those of the others."""

    def give(logs: Logs) -> list[GivenHead]:
        chosen = head_of(logs.largest(prefix))
        return [replace(head, **fields) if head == chosen else head for head in heads(logs)]

    return give


def beyond(logs: Logs) -> list[GivenHead]:
    """A head that a log has not reached."""
    head = head_of(logs.largest(BROKER))
    return [*heads(logs), replace(head, seq=head.seq + 1000)]


def cut(prefix: str, lines: int) -> Callable[[Logs], None]:
    return lambda logs: logs.change_lines(prefix, lambda present: present[:-lines])


def give_another_reason(records: list[Record]) -> None:
    records[-1]["reason"] = "another"


FAULTS_OF_HEADS: Final[dict[str, Fault]] = {
    "heads of all logs": Fault(lambda _: None, heads=heads),
    "heads of a time before": Fault(lambda _: None, heads=lambda logs: [head_of(path, lines=1) for path in logs.all()]),
    "a head with digits in capitals": Fault(
        lambda _: None, heads=lambda logs: [replace(head, digest=head.digest.upper()) for head in heads(logs)]
    ),
    "a broker's log without its last line": Fault(cut(BROKER, 1), {"log-cut": 1}, heads=heads),
    "a controller's log without its last line": Fault(cut(CONTROLLER, 1), {"log-cut": 1}, heads=heads),
    "a broker's last line written again otherwise": Fault(
        lambda logs: logs.rewrite(BROKER, give_another_reason), {"log-rewritten": 1}, heads=heads
    ),
    "a head of another line": Fault(lambda _: None, {"log-rewritten": 1}, heads=altered(BROKER, digest="0" * 64)),
    "a head beyond the end of a log": Fault(lambda _: None, {"log-cut": 1}, heads=beyond),
    "a head of the greatest number": Fault(lambda _: None, {"log-cut": 1}, heads=altered(BROKER, seq=(1 << 63) - 1)),
    "heads that contradict one another": Fault(
        lambda _: None,
        {"log-rewritten": 1},
        heads=lambda logs: [*heads(logs), *altered(BROKER, digest="f" * 64)(logs)],
    ),
    "a head of a time to come": Fault(lambda _: None, heads=altered(BROKER, at_ms=1 << 62)),
    "a head of a log that is not there": Fault(
        lambda logs: [path.unlink() for path in logs.all(BROKER)], incomplete=WITHOUT_LOG, heads=heads
    ),
    "a head of a run that is not there": Fault(
        lambda _: None, incomplete=("no log of this incarnation",), heads=altered(BROKER, incarnation="1700000099000.7")
    ),
    "a head of a node that is not there": Fault(
        lambda _: None, incomplete=WITHOUT_LOG, heads=altered(BROKER, node="broker-77")
    ),
    "heads of a log that begins later": Fault(
        lambda logs: logs.split(CONTROLLER)[0].unlink(), incomplete=("the log begins later", UNDECIDED), heads=heads
    ),
}
"""Name -> fault."""
