"""What happened to brokers and topics: sorted runs of events by subject, from which the rows of each are derived.

A broker or a topic that has new records is derived again from all of its events, so its rows depend on the records and
not on the order in which logs arrived.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy
import pyarrow

from audit.reading.node_work import TopicSize
from audit.records.sorted_runs import AnyRuns, gather_all
from audit.records.vectors import earliest, group_starts, is_one_of, keys, text_hash
from state_log.record import Kind

_TEXT: Final = pyarrow.string()
_LONG: Final = pyarrow.int64()
EVENTS: Final = pyarrow.schema(
    {
        "key": pyarrow.uint64(),
        "sub": _LONG,
        "kind": _TEXT,
        "to_state": _TEXT,
        "broker": pyarrow.int32(),
        "broker_epoch": _LONG,
        "topic": _TEXT,
        "topic_id": _TEXT,
        "partitions": pyarrow.int32(),
        "controller_epoch": pyarrow.int32(),
        "cause_event": _TEXT,
        "cause_id": _LONG,
        "seq": _LONG,
        "at_ms": _LONG,
        "record": _TEXT,
    }
)
"""Events. `key`: a hash of the broker or topic; `sub`: one of the record. `partitions`: for rows of kind SIZE, which
are no records.
"""
SIZE: Final = "size"
_KINDS: Final = [kind.value for kind in (Kind.BROKER, Kind.REGISTRATION, Kind.TOPIC, Kind.DELETION)]
_COPIED: Final = ("kind", "to_state", "broker", "broker_epoch", "topic", "topic_id", "controller_epoch", "seq", "at_ms")
Event = dict[str, Any]


def events_of(rows: pyarrow.Table, sizes: Iterable[TopicSize]) -> pyarrow.Table:
    """The events in records that are of no partition, as EVENTS, reduced."""
    part = rows.filter(pyarrow.array(is_one_of(rows["kind"], _KINDS)))
    columns = ("node", "incarnation", "cause_event", "cause_id", *_COPIED)
    found = []
    for row in part.select(columns).to_pylist():
        record = f"{row.pop('node')}/{row.pop('incarnation')}/{row['seq']}"
        if row["topic"] is not None or row["broker"] is not None:
            found.append({**row, "key": _subject(row), "sub": _signed(text_hash(record)), "record": record})
    for size in sizes:
        event: Event = {"kind": SIZE, "topic": size.topic, "topic_id": size.topic_id, "broker": None}
        event |= {"partitions": size.partitions, "at_ms": size.at_ms, "key": _subject(event)}
        found.append({**event, "sub": size.partitions})
    return earliest(pyarrow.Table.from_pylist(found, EVENTS))


def known_events(runs: AnyRuns, new: pyarrow.Table) -> pyarrow.Table:
    """The known events of the subjects that have new ones, reduced."""
    return earliest(gather_all(runs, numpy.unique(keys(new["key"])), EVENTS.empty_table()))


def derived(events: pyarrow.Table, rows_of: Callable[[Sequence[Event]], Iterable[Event]]) -> Iterator[Event]:
    """Derive the rows of each subject."""
    in_order = events.to_pylist()
    starts = group_starts(keys(events["key"])).tolist()
    for first, end in pairwise([*starts, len(in_order)]):
        yield from rows_of(in_order[first:end])


def by_controllers(events: Iterable[Event]) -> list[Event]:
    """The events that controllers wrote, in the order in which they wrote them."""
    written = [event for event in events if event["controller_epoch"] is not None]
    return sorted(written, key=lambda event: (event["controller_epoch"], event["seq"], event["record"]))


def _subject(event: Event) -> int:
    if event["topic"] is not None:
        return text_hash(f"topic {event['topic']}\0{event['topic_id'] or ''}")
    return text_hash(f"broker {event['broker']}")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
