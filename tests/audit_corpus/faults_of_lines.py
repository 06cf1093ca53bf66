"""Lines that somebody, or a disk, has changed after they were written."""

import json
from collections.abc import Callable, Sequence
from typing import Final

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.logs import BROKER, CONTROLLER, EARLIER_CONTROLLER, Logs, Record

MALFORMED: Final = ("1 malformed lines",)
GAP: Final = {"sequence-gap": 1}
UNDECIDED: Final = "not decided"
"""What a broker applied may have been written in a line that is missing."""


def lines(change: Callable[[list[bytes]], Sequence[bytes]], prefix: str = CONTROLLER) -> Callable[[Logs], object]:
    return lambda logs: logs.change_lines(prefix, change)


def add_line(line: bytes) -> Callable[[Logs], object]:
    return lines(lambda present: [*present, line])


def replace_once(old: bytes, new: bytes) -> Callable[[Logs], object]:
    def change(logs: Logs) -> None:
        path = logs.largest(CONTROLLER)
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new, 1))

    return change


def election(records: list[Record]) -> Record:
    """An election in the middle of a controller's log."""
    found = [record for record in records if record["kind"] == "partition" and record.get("leader", -1) >= 0]
    return found[len(found) // 2]


def early_witness(records: list[Record]) -> Record:
    """The first record of what the broker has seen of a log of which it has seen more later."""
    seen = [record for record in records if record["kind"] == "witness"]
    logs = [(record["witness"]["node"], record["witness"]["incarnation"]) for record in seen]
    return next(record for number, record in enumerate(seen) if logs[number] in logs[number + 1 :])


def witness(records: list[Record]) -> Record:
    """The last record of what the broker has seen of a controller's log."""
    return next(record for record in reversed(records) if record["kind"] == "witness")


def valid_and_long(record: Record) -> None:
    """A request id is at most 10,000 characters long, other fields that klamm does not know are not limited."""
    record["later_field"] = "x" * (15 << 20)


def without_second_version(records: list[Record]) -> None:
    for record in records:
        record["v"] = 1
        for name in ("boot_id", "mono_ms", "high_watermark", "log_end_offset"):
            record.pop(name, None)
    records[:] = [record for record in records if record["kind"] not in {"witness", "truncation"}]


def blank_lines(present: list[bytes]) -> list[bytes]:
    return [*present[:20], b"", b"", *present[20:]]


FAULTS_OF_LINES: Final[dict[str, Fault]] = {
    "nothing": Fault(lambda _: None),
    "all logs garbage": Fault(
        lambda logs: [path.write_bytes(b"\0x\n" * 9) for path in logs.all()],
        incomplete=("no record was read", "9 malformed lines"),
    ),
    "a controller's log garbage": Fault(
        lines(lambda _: [b"\0"]), incomplete=(*MALFORMED, "no log of this node", UNDECIDED)
    ),
    "a broker's log garbage": Fault(lines(lambda _: [b"\0"], BROKER), incomplete=(*MALFORMED, "no log of this node")),
    "a controller's log cut at its end": Fault(
        lines(lambda present: present[: len(present) * 2 // 3]), {"log-cut": 1}, (UNDECIDED,)
    ),
    "the end of a former controller's log, which agents followed and no witness has seen, not read": Fault(
        lambda logs: logs.change_lines(EARLIER_CONTROLLER, lambda present: present[:-60]), incomplete=(UNDECIDED,)
    ),
    "a broker's log cut at its end": Fault(lines(lambda present: present[: len(present) // 2], BROKER), {"log-cut": 1}),
    "a log cut within its last line": Fault(
        lambda logs: logs.largest(CONTROLLER).write_bytes(logs.largest(CONTROLLER).read_bytes()[:-9])
    ),
    "a controller's log rewritten from some line on": Fault(
        lambda logs: logs.rewrite(CONTROLLER, lambda records: election(records).update(reason="another")),
        {"log-rewritten": 1},
    ),
    "a broker's log rewritten from its beginning": Fault(
        lambda logs: logs.rewrite(BROKER, lambda records: records[0].update(reason="another")), {"log-rewritten": 1}
    ),
    "a record of a witness forged": Fault(
        lambda logs: logs.write_wrongly(
            BROKER, lambda records: witness(records)["witness"].update(digest="0" * 64, seq=1, incarnation="?")
        ),
        incomplete=("no log of this incarnation",),
    ),
    "an early record of a witness with another digest, and later ones as they should be": Fault(
        # The broker's own log has been seen with another line, too.
        lambda logs: logs.rewrite(BROKER, lambda records: early_witness(records)["witness"].update(digest="0" * 64)),
        {"log-rewritten": 2},
    ),
    "a record of a witness with another digest": Fault(
        lambda logs: logs.rewrite(BROKER, lambda records: witness(records)["witness"].update(digest="0" * 64)),
        {"log-rewritten": 2},
    ),
    "a witness of a log that never was": Fault(
        lambda logs: logs.write_wrongly(
            BROKER, lambda records: witness(records)["witness"].update(incarnation="1699999999999.1")
        ),
        incomplete=("no log of this incarnation",),
    ),
    "a line of nested brackets": Fault(add_line(b"[" * 100_000), incomplete=MALFORMED),
    "a line of nested objects": Fault(add_line(b'{"a":' * 100_000), incomplete=MALFORMED),
    "a line of 10 MB": Fault(add_line(b"x" * (10 << 20)), incomplete=MALFORMED),
    "a line longer than the limit": Fault(add_line(b"x" * (20 << 20)), incomplete=MALFORMED),
    "a line that is no UTF-8": Fault(add_line(b'{"v":2,"x":"\xff\xfe"}'), incomplete=MALFORMED),
    "a line of NUL bytes": Fault(add_line(b"\0" * 4096), incomplete=MALFORMED),
    "a line of another kind of JSON": Fault(add_line(b"null"), incomplete=MALFORMED),
    "NUL bytes in the middle of a line": Fault(
        replace_once(b'"reason":"', b'"reason":"\0\0\0\0'), GAP, (*MALFORMED, UNDECIDED)
    ),
    "a byte order mark": Fault(
        lines(lambda present: [b"\xef\xbb\xbf" + present[0], *present[1:]]),
        GAP,
        (*MALFORMED, "records 0 to 0 were not there"),
    ),
    "a line of a later version": Fault(
        replace_once(b'{"v":2,"seq":9,', b'{"v":9,"seq":9,'), GAP, (*MALFORMED, UNDECIDED)
    ),
    "a number of 65 bits": Fault(
        replace_once(b'"leader_epoch":1,', b'"leader_epoch":36893488147419103232,'), GAP, (*MALFORMED, UNDECIDED)
    ),
    "a leader epoch of 2^40": Fault(
        replace_once(b'"leader_epoch":1,', b'"leader_epoch":1099511627776,'), GAP, (*MALFORMED, UNDECIDED)
    ),
    "a line without its end": Fault(
        lines(lambda present: [*present[:40], present[40][:100], *present[41:]]), GAP, MALFORMED
    ),
    "two lines joined": Fault(
        lines(lambda present: [*present[:40], present[40] + present[41], *present[42:]]), GAP, MALFORMED
    ),
    "lines swapped": Fault(
        lines(lambda present: [*present[:9], present[10], present[9], *present[11:]]), {"records-out-of-order": 1}
    ),
    "all lines backwards": Fault(lines(lambda present: present[::-1], BROKER), {"records-out-of-order": 1}),
    "a line taken out": Fault(lines(lambda present: present[:20] + present[21:]), GAP, (UNDECIDED,)),
    "a hundred lines taken out": Fault(lines(lambda present: present[:20] + present[120:]), GAP, (UNDECIDED,)),
    "a line twice": Fault(lines(lambda present: present[:21] + present[20:]), {"duplicate-sequence": 1}),
    "a log appended to itself": Fault(lines(lambda present: present * 2, BROKER), {"duplicate-sequence": 1}),
    "lines end with CR LF": Fault(lines(lambda present: [line + b"\r" for line in present]), {"log-changed": 1}),
    "blank lines": Fault(lines(blank_lines)),
    "a reason altered": Fault(replace_once(b'"reason":"', b'"reason":"x'), {"chain-break": 1}),
    "a time altered": Fault(replace_once(b'"at_ms":17000000', b'"at_ms":16000000'), {"chain-break": 1}),
    "a space in a line": Fault(replace_once(b'"seq":30,', b'"seq": 30,'), {"chain-break": 1}),
    "a digest altered": Fault(
        lines(lambda present: [*present[:30], altered_digest(present[30]), *present[31:]]), {"chain-break": 1}
    ),
    "lines of another node in a log": Fault(
        lambda logs: logs.change_lines(
            CONTROLLER, lambda present: [*present, *logs.largest(EARLIER_CONTROLLER).read_bytes().splitlines()[:9]]
        ),
        {"duplicate-sequence": 1},
    ),
    "a valid line of 15 MB": Fault(lambda logs: logs.write_wrongly(CONTROLLER, lambda r: valid_and_long(r[-1]))),
    "fields that nobody knows": Fault(
        lambda logs: logs.write_wrongly(CONTROLLER, lambda r: [each.update(later={"a": [1]}) for each in r])
    ),
    "a log of version 1": Fault(
        lambda logs: logs.all_as_written(dict.fromkeys(logs.all(), without_second_version)),
    ),
    "a record of an unknown kind": Fault(
        lambda logs: logs.write_wrongly(CONTROLLER, lambda records: records[-1].update(kind="eclipse")),
        incomplete=MALFORMED,
    ),
}
"""Name -> fault."""


def altered_digest(line: bytes) -> bytes:
    record = json.loads(line)
    return line.replace(record["prev"].encode(), b"0" * 64)
