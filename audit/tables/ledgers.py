"""What was read of each incarnation of each node."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from audit.reading.lines_read import ReadRange
from audit.reading.node_work import Work, joined_work
from state_log.writer import parse_segment_name


class Volume(Struct, frozen=True):
    """The bytes of the files of an incarnation, and the number of their lines that are no records.

    `is_numbered`: its records have numbers without gaps; those of Apache Kafka's logs have the bytes where they begin.
    """

    bytes: int = 0
    quarantined: int = 0
    is_numbered: bool = True


def add_work(work: dict[str, Work], volumes: dict[str, Volume], read: Iterable[ReadRange]) -> None:
    """Add what was read in a batch."""
    for part in sorted(read, key=lambda part: part.file):
        for done in part.work:
            work[done.name] = joined_work(work.get(done.name), done)
        name = _incarnation(part)
        if name is not None:
            known = volumes.get(name, Volume())
            volumes[name] = Volume(known.bytes + part.size, known.quarantined + part.quarantined, part.kafka is None)
        if part.kafka is not None:
            # A Kafka file has the lines of two nodes: its broker's, and those of this broker as the controller.
            for done in part.work:
                volumes.setdefault(f"{done.node}/{done.incarnation}", Volume(is_numbered=False))


def ledger_rows(volumes: Mapping[str, Volume], work: Mapping[str, Work]) -> list[dict[str, Any]]:
    """The rows of the table."""
    found: dict[str, Work] = {}
    for part in work.values():
        name = f"{part.node}/{part.incarnation}"
        found[name] = joined_work(found.get(name), part)
    return [_row(name, volumes.get(name, Volume()), found.get(name)) for name in sorted({*volumes, *found})]


def _row(name: str, volume: Volume, work: Work | None) -> dict[str, Any]:
    node, _, incarnation = name.rpartition("/")
    row = {"node": node, "incarnation": incarnation, "bytes": volume.bytes, "quarantined": volume.quarantined}
    if work is None:
        return {**row, "records": 0}
    copied = {key: getattr(work, key) for key in ("boot_id", "records", "first_seq", "last_seq", "first_ms", "last_ms")}
    missing = max(0, work.last_seq - work.first_seq + 1 - work.records) if volume.is_numbered else None
    return {**row, **copied, "missing": missing}


def _incarnation(part: ReadRange) -> str | None:
    """The incarnation of a file, by its name or its first records."""
    name = parse_segment_name(part.file.rpartition("/")[2])
    if name is not None:
        return f"{name.node}/{name.incarnation}"
    return f"{part.work[0].node}/{part.work[0].incarnation}" if part.work else None
