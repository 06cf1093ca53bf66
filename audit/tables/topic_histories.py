"""The topics: when each was created, queued for deletion and deleted, and how many partitions it has."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from audit.tables.subject_events import SIZE, Event, by_controllers
from state_log.record import Kind

_STEPS: Final = {
    (Kind.TOPIC.value, "created"): "created_ms",
    (Kind.TOPIC.value, "queued for deletion"): "queued_ms",
    (Kind.DELETION.value, "started"): "deletion_started_ms",
}
_ENDS: Final = {
    (Kind.TOPIC.value, "deleted"): "deleted",
    (Kind.TOPIC.value, "removed"): "removed",
}


def topics_of(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """The topics of one name and id, as rows of the table: without an id there may be several, one after the other."""
    rows: list[dict[str, Any]] = []
    for event in by_controllers(events):
        step, end = (table.get((event["kind"], event["to_state"])) for table in (_STEPS, _ENDS))
        if step is None and end is None:
            continue
        if not rows or (rows[-1]["ended"] is not None and end is None):
            rows.append(_begun(event, len(rows)))
        row = rows[-1]
        if step is not None:
            row[step] = row[step] or event["at_ms"]
        elif row["ended"] is None:
            row |= {"ended": end, "until_ms": event["at_ms"], "last_record": event["record"]}
    sizes = [event for event in events if event["kind"] == SIZE]
    if sizes:
        rows = rows or [_begun(sizes[0], 0)]
        rows[-1]["partitions"] = max(event["partitions"] for event in sizes)
        first = min(event["at_ms"] for event in sizes)
        if len(rows) == 1:
            rows[0]["seen_ms"] = min(rows[0]["seen_ms"], first)
    yield from rows


def _begun(event: Event, number: int) -> dict[str, Any]:
    return {
        "topic": event["topic"],
        "topic_id": event["topic_id"],
        "number": number,
        "partitions": None,
        "seen_ms": event["at_ms"],
        "created_ms": None,
        "queued_ms": None,
        "deletion_started_ms": None,
        "until_ms": None,
        "ended": None,
        "first_record": event["record"],
        "last_record": None,
    }
