"""What records of partitions say of their topic, summed up for each topic while logs are read.

The records themselves go to the buckets of their partitions, where nobody sees a topic as a whole.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy
import pyarrow
from msgspec import Struct
from msgspec.structs import replace

from audit.reading.kafka.rows import are_kafka
from audit.records.vectors import ABSENT, BrokerLists, Flags, Longs, is_one_of, longs, ranked
from cluster.model.state_machines import PartitionState, ReplicaState
from state_log.record import Kind

LOADED, NEW, GOING, GONE = "loaded", "new", "going", "gone"
"""What a step says: its partitions were loaded, or created; replicas of partitions that go away, and replicas that are
gone.
"""


class TopicStep(Struct, frozen=True):
    """Some consecutive records of one controller about a topic, that follow from one event.

    `count`: of partitions, or of replicas. `highest`: the greatest number of a partition, -1: none. `seq`, `at_ms`: of
    the first of the records.
    """

    what: str
    topic: str
    topic_id: str | None
    node: str
    incarnation: str
    controller_epoch: int
    cause_id: int
    seq: int
    at_ms: int
    count: int
    highest: int


def topic_steps_of(rows: pyarrow.RecordBatch) -> list[TopicStep]:
    """The steps that these records show."""
    table = pyarrow.Table.from_batches([rows])
    absent = [PartitionState.NON_EXISTENT.value]
    of_partition = is_one_of(table["kind"], [Kind.PARTITION.value])
    chosen = {
        LOADED: is_one_of(table["kind"], [Kind.LOADED.value]),
        NEW: of_partition & is_one_of(table["from_state"], absent),
        GOING: of_partition & is_one_of(table["to_state"], absent),
        GONE: is_one_of(table["kind"], [Kind.REPLICA.value])
        & is_one_of(table["to_state"], [ReplicaState.NON_EXISTENT.value]),
    }
    if not any(flags.any() for flags in chosen.values()):
        return []
    stated = (longs(table["controller_epoch"]) != ABSENT) & (longs(table["partition"]) >= 0) & ~are_kafka(table)
    return [step for what, flags in chosen.items() for step in _steps(what, table, flags & stated)]


def merge_steps(steps: Iterable[TopicStep]) -> tuple[TopicStep, ...]:
    """Put steps together that blocks of lines have cut, in the order of their first records."""
    found: dict[tuple[object, ...], TopicStep] = {}
    for step in steps:
        key = step.what, step.topic, step.topic_id, step.node, step.incarnation, step.controller_epoch, step.cause_id
        known = found.get(key)
        if known is None:
            found[key] = step
            continue
        first = min(known, step, key=lambda each: each.seq)
        found[key] = replace(first, count=known.count + step.count, highest=max(known.highest, step.highest))
    return tuple(
        sorted(found.values(), key=lambda step: (step.node, step.incarnation, step.seq, step.what, step.topic))
    )


_NAMES: Final = ("topic", "topic_id", "node", "incarnation")


def _steps(what: str, table: pyarrow.Table, chosen: Flags) -> Iterator[TopicStep]:
    if not chosen.any():
        return
    part = table.filter(pyarrow.array(chosen))
    texts = [ranked(part[name]) for name in _NAMES]
    numbers = [longs(part[name]) for name in ("controller_epoch", "cause_id")]
    groups, first, group = numpy.unique(
        numpy.stack([*(rank for rank, _ in texts), *numbers]), axis=1, return_index=True, return_inverse=True
    )
    group = group.reshape(-1)
    counts = BrokerLists(part["replicas"]).lengths if what == GOING else numpy.ones(part.num_rows, numpy.int64)
    count, highest = numpy.zeros(len(first), numpy.int64), numpy.full(len(first), -1)
    numpy.add.at(count, group, counts)
    numpy.maximum.at(highest, group, longs(part["partition"]))
    seq, at_ms = longs(part["seq"])[first], longs(part["at_ms"])[first]
    for place in range(len(first)):
        named = [_text(ranks_and_texts, groups[n, place]) for n, ranks_and_texts in enumerate(texts)]
        topic, topic_id, node, incarnation = named
        if not (topic and node and incarnation):
            continue  # A line that was damaged, which has findings of its own.
        epoch, cause = (int(groups[n, place]) for n in (4, 5))
        measured = (int(column[place]) for column in (seq, at_ms, count, highest))
        yield TopicStep(what, topic, topic_id, node, incarnation, epoch, max(cause, 0), *measured)


def _text(column: tuple[Longs, list[str]], rank: int) -> str | None:
    return column[1][rank] if rank >= 0 else None
