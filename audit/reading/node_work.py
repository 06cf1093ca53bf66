"""What each run of each process has logged, for a controller in each controller epoch: numbers and times, no records.

Gathered while logs are read, because the records themselves go to the buckets of their partitions.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy
import pyarrow
from msgspec import Struct

from audit.reading.topic_steps import TopicStep, merge_steps, topic_steps_of
from audit.records.vectors import ABSENT, Longs, group_starts, is_one_of, longs, ranked
from cluster.model.state_machines import PartitionState
from state_log.causes import BY_AGENTS
from state_log.record import Kind

_OF_AGENTS: Final = [kind.value for kind in BY_AGENTS]


class Work(Struct, frozen=True):
    """Records of one incarnation, of controllers in one controller epoch (-1: none).

    `loaded_ms`: the last start state; `first_write_ms`: the first state written to ZooKeeper. None: there is none.
    `first_event`, `last_event`, `max_event`: the numbers of the first and the last event by the order of the log, and
    the greatest one, -1 if no record has one. `first_event_seq`: the record of the first. `event_fall`: where an event
    is below the one before it for the first time: number of the record, event before, event. `first_name`, `last_name`:
    the names of the first and the last event, None where an earlier klamm has read them. `event_renamed`: where an
    event has another name than in the record before for the first time: number of the record, name before, name.
    """

    node: str
    incarnation: str
    controller_epoch: int
    records: int
    first_seq: int
    last_seq: int
    first_ms: int
    last_ms: int
    boot_id: str | None = None
    loaded_ms: int | None = None
    first_write_ms: int | None = None
    first_event: int = -1
    first_event_seq: int = -1
    last_event: int = -1
    max_event: int = -1
    event_fall: tuple[int, int, int] | None = None
    first_name: str | None = None
    last_name: str | None = None
    event_renamed: tuple[int, str, str] | None = None

    @property
    def name(self) -> str:
        return f"{self.node}/{self.incarnation}/{self.controller_epoch}"


class TopicSize(Struct, frozen=True):
    """The least number of partitions that a topic has, and when the first record said so."""

    topic: str
    topic_id: str | None
    partitions: int
    at_ms: int


class WorkRead:
    """The work and the topics in what was read of a range."""

    def __init__(self) -> None:
        self._work: dict[str, Work] = {}
        self._sizes: dict[tuple[str, str | None], TopicSize] = {}
        self._topic_steps: list[TopicStep] = []

    def add(self, rows: pyarrow.RecordBatch) -> None:
        """Add the work that these records show."""
        for work in work_of(rows):
            self._work[work.name] = joined_work(self._work.get(work.name), work)
        self._topic_steps += topic_steps_of(rows)
        for size in sizes_of(rows):
            known = self._sizes.get((size.topic, size.topic_id))
            self._sizes[size.topic, size.topic_id] = size if known is None else joined_sizes(known, size)

    @property
    def work(self) -> tuple[Work, ...]:
        return tuple(self._work.values())

    @property
    def topic_steps(self) -> tuple[TopicStep, ...]:
        return merge_steps(self._topic_steps)

    @property
    def sizes(self) -> tuple[TopicSize, ...]:
        return tuple(self._sizes.values())


def work_of(rows: pyarrow.RecordBatch) -> list[Work]:
    """The work that consecutive records show, in their order."""
    table = pyarrow.Table.from_batches([rows])
    (node, nodes), (incarnation, incarnations) = ranked(table["node"]), ranked(table["incarnation"])
    epoch = numpy.where(is_one_of(table["kind"], _OF_AGENTS), ABSENT, longs(table["controller_epoch"]))
    epoch = numpy.where(epoch == ABSENT, -1, epoch)
    at_ms, seq = longs(table["at_ms"]), longs(table["seq"])
    loads = is_one_of(table["kind"], [Kind.LOADED.value])
    writes = is_one_of(table["kind"], [Kind.ISR.value, Kind.PARTITION.value]) & (longs(table["leader_epoch"]) >= 0)
    boots, event, (name, names) = table["boot_id"], longs(table["cause_id"]), ranked(table["cause_event"])
    # The last one is for records without a name.
    names.append("")
    found = []
    for first, end in pairwise([*group_starts(node, incarnation, epoch).tolist(), len(node)]):
        part = slice(first, end)
        boot = boots.slice(first, end - first).drop_null()
        found.append(
            Work(
                nodes[node[first]],
                incarnations[incarnation[first]],
                int(epoch[first]),
                # A record of start states has a row for each partition.
                1 + int(numpy.count_nonzero(seq[first + 1 : end] != seq[first : end - 1])),
                *_bounds(seq[part]),
                *_bounds(at_ms[part]),
                boot[0].as_py() if len(boot) else None,
                int(at_ms[part][loads[part]].max()) if loads[part].any() else None,
                int(at_ms[part][writes[part]].min()) if writes[part].any() else None,
                *(_events(seq[part], event[part], name[part], names) if epoch[first] >= 0 else ()),
            )
        )
    return found


_Events = tuple[int, int, int, int, tuple[int, int, int] | None, str | None, str | None, tuple[int, str, str] | None]


def _events(seq: Longs, event: Longs, name: Longs, names: Sequence[str]) -> _Events:
    """The fields of events of a `Work`. `seq`, `event`, `name`: numbers of its records and of their events, and the
    places of the events' names among `names`; aligned.
    """
    # Records of other nodes' heads follow from no event.
    has = event >= 0
    seq, event, name = seq[has], event[has], name[has]
    if not len(seq):
        return -1, -1, -1, -1, None, None, None, None
    fallen = numpy.flatnonzero((event[1:] < event[:-1]) & (seq[1:] > seq[:-1]))
    fall = None
    if len(fallen):
        place = int(fallen[0])
        fall = int(seq[place + 1]), int(event[place]), int(event[place + 1])
    renamed = None
    other = numpy.flatnonzero((event[1:] == event[:-1]) & (name[1:] != name[:-1]))
    if len(other):
        place = int(other[0])
        renamed = int(seq[place + 1]), names[name[place]], names[name[place + 1]]
    ends = names[name[0]], names[name[-1]]
    return int(event[0]), int(seq[0]), int(event[-1]), int(event.max()), fall, *ends, renamed


def sizes_of(rows: pyarrow.RecordBatch) -> list[TopicSize]:
    """The topics whose partitions were loaded or created."""
    table = pyarrow.Table.from_batches([rows])
    chosen = is_one_of(table["from_state"], [PartitionState.NON_EXISTENT.value])
    chosen |= is_one_of(table["kind"], [Kind.LOADED.value])
    if not chosen.any():
        return []
    part = table.filter(pyarrow.array(chosen & (longs(table["partition"]) >= 0)))
    found: dict[tuple[str, str | None], TopicSize] = {}
    columns = (part[name].to_pylist() for name in ("topic", "topic_id", "partition", "at_ms"))
    for topic, topic_id, partition, at_ms in zip(*columns, strict=True):
        size = TopicSize(topic, topic_id, partition + 1, at_ms)
        known = found.get((topic, topic_id))
        found[topic, topic_id] = size if known is None else joined_sizes(known, size)
    return list(found.values())


def joined_sizes(one: TopicSize, other: TopicSize) -> TopicSize:
    return TopicSize(one.topic, one.topic_id, max(one.partitions, other.partitions), min(one.at_ms, other.at_ms))


def joined_work(one: Work | None, other: Work) -> Work:
    """The work of both, in whatever order they were read."""
    if one is None:
        return other
    return Work(
        one.node,
        one.incarnation,
        one.controller_epoch,
        one.records + other.records,
        min(one.first_seq, other.first_seq),
        max(one.last_seq, other.last_seq),
        min(one.first_ms, other.first_ms),
        max(one.last_ms, other.last_ms),
        min((boot for boot in (one.boot_id, other.boot_id) if boot is not None), default=None),
        max(_known(one.loaded_ms, other.loaded_ms), default=None),
        min(_known(one.first_write_ms, other.first_write_ms), default=None),
        *_joined_events(*sorted((one, other), key=lambda work: work.first_seq)),
    )


def _joined_events(first: Work, last: Work) -> _Events:
    falls = [fall for fall in (first.event_fall, last.event_fall) if fall is not None]
    renamed = [each for each in (first.event_renamed, last.event_renamed) if each is not None]
    if first.max_event < 0 or last.max_event < 0:
        known = last if first.max_event < 0 else first
        numbers = known.first_event, known.first_event_seq, known.last_event, known.max_event
        return *numbers, min(falls, default=None), known.first_name, known.last_name, min(renamed, default=None)
    if last.first_event < first.last_event and first.last_seq < last.first_seq:
        falls.append((last.first_event_seq, first.last_event, last.first_event))
    before, after = first.last_name, last.first_name
    if last.first_event == first.last_event and before is not None and after is not None and before != after:
        renamed.append((last.first_event_seq, before, after))
    return (
        first.first_event,
        first.first_event_seq,
        last.last_event,
        max(first.max_event, last.max_event),
        min(falls, default=None),
        first.first_name,
        last.last_name,
        min(renamed, default=None),
    )


def _known(*values: int | None) -> Iterable[int]:
    return [value for value in values if value is not None]


def _bounds(values: Longs) -> tuple[int, int]:
    return int(values.min()), int(values.max())
