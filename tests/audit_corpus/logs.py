"""The logs of a small simulated cluster, and ways to change them.

Who changes a log afterwards leaves the heads that others have seen as they are, and chains lines anew or not. What a
node itself wrote wrongly is chained as it wrote it, and others have seen these lines: only the content is at fault.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from state_log.record import CHAIN_START, line_digest

Record = dict[str, Any]
Change = Callable[[list[Record]], object]
CONTROLLER: Final = "controller-1001-"
EARLIER_CONTROLLER: Final = "controller-1003-"
BROKER: Final = "broker-4-"
SOUND_LOGS: Final = Path(__file__).with_name("sound_logs")
"""What `klamm simulate --seeds 2..2 --minutes 0.5` wrote at commit dab03a13: half a minute of requests and faults, two
controllers, four brokers of which three start anew, 600 records. Recorded, because each fault is put into a certain
place, and any change of the programs changes what a seed draws.
"""


class Logs:
    """A copy of the logs, to be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self, prefix: str = "") -> list[Path]:
        return sorted(self.folder.rglob(f"{prefix}*.jsonl"))

    def largest(self, prefix: str) -> Path:
        return max(self.all(prefix), key=lambda path: (path.stat().st_size, path.name))

    def change_lines(self, prefix: str, change: Callable[[list[bytes]], Sequence[bytes]]) -> None:
        """The lines of the largest log of such a node, which are not chained anew."""
        path = self.largest(prefix)
        write_lines(path, change(path.read_bytes().splitlines()))

    def rewrite(self, prefix: str, change: Change) -> None:
        """The records of the largest log of such a node, by somebody who numbers and chains its lines anew."""
        path = self.largest(prefix)
        records = read_records(path)
        change(records)
        write_lines(path, chained({path: records})[path])

    def write_wrongly(self, prefix: str, change: Change) -> None:
        """The records of the largest log of such a node, as the node itself wrote them and others have seen them."""
        chosen = self.largest(prefix)
        self.all_as_written({path: change for path in self.all() if path == chosen})

    def all_as_written(self, changes: Mapping[Path, Change]) -> None:
        """The records of several logs, as their nodes wrote them and others have seen them."""
        logs = {path: read_records(path) for path in self.all()}
        for path, change in changes.items():
            change(logs[path])
        for path, lines in chained(logs).items():
            write_lines(path, lines)

    def split(self, prefix: str, parts: int = 3) -> list[Path]:
        """The largest log of such a node in so many segments."""
        path = self.largest(prefix)
        lines = path.read_bytes().splitlines()
        stem = path.name.rpartition("-")[0]
        found = []
        for number in range(parts):
            first, end = len(lines) * number // parts, len(lines) * (number + 1) // parts
            found.append(path.with_name(f"{stem}-{first:020}.jsonl"))
            write_lines(found[-1], lines[first:end])
        return found


def next_event(records: Sequence[Record]) -> int:
    """The number of a controller's next event after these records."""
    return 1 + max(record["cause"].get("id", 0) for record in records if "cause" in record)


def later_cause(records: Sequence[Record], record: Record) -> Record:
    """The cause of a record, as one that the controller's next event has."""
    return {**record["cause"], "id": next_event(records)}


def read_records(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def write_lines(path: Path, lines: Sequence[bytes]) -> None:
    path.write_bytes(b"".join(line + b"\n" for line in lines))


class _Line(NamedTuple):
    node: str
    incarnation: str
    seq: int


def chained(logs: Mapping[Path, Sequence[Record]]) -> dict[Path, list[bytes]]:
    """The lines of these records, numbered and chained; what they have seen of one another is of the new lines."""
    written = {_line(record) for records in logs.values() for record in records if "seq" in record}
    renumbered: dict[_Line, tuple[int, str]] = {}
    writers = [_write(path, records, written, renumbered) for path, records in logs.items()]
    found: dict[Path, list[bytes]] = {path: [] for path in logs}
    while writers:
        lines = [(writer, next(writer, None)) for writer in writers]
        writers = [writer for writer, step in lines if step is not None]
        assert not writers or any(step and step[1] is not None for _, step in lines), (
            "logs have seen one another's future"
        )
        for step in (step for _, step in lines if step is not None and step[1] is not None):
            found[step[0]].append(step[1])
    return found


def _write(
    path: Path, records: Sequence[Record], written: set[_Line], renumbered: dict[_Line, tuple[int, str]]
) -> Iterator[tuple[Path, bytes | None]]:
    """The lines of one log; None while it waits for a line of another that it has seen."""
    prev = CHAIN_START
    for seq, record in enumerate(records):
        seen = record.get("witness")
        if seen is not None and (wanted := _line(seen)) in written:
            while wanted not in renumbered:
                yield path, None
            seen["seq"], seen["digest"] = renumbered[wanted]
        before = _line(record) if "seq" in record else None
        line = json.dumps({**record, "seq": seq, "prev": prev}, separators=(",", ":")).encode()
        prev = line_digest(line)
        if before is not None:
            renumbered[before] = seq, prev
        yield path, line


def _line(record: Record) -> _Line:
    return _Line(record["node"], record["incarnation"], record["seq"])
