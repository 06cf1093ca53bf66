"""The history of a round: what producers sent and brokers acknowledged, checked against what can be read afterwards.

Pure: no cluster, no clock. A record is known by its producer and its number, which rises from 0 with each record that
the producer sends. One producer numbers its records over all partitions, and sends those of a partition in order.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple


class RecordId(NamedTuple):
    producer: str
    number: int

    def __str__(self) -> str:
        return f"{self.producer}:{self.number}"


class Acknowledged(NamedTuple):
    """One record that a leader acknowledged with acks=all. `resent`: its batch was sent more than once."""

    id: RecordId
    partition: int
    offset: int
    resent: bool = False


class Stored(NamedTuple):
    """One record as it was read. `id` None: its value is none that a producer of the round makes."""

    offset: int
    id: RecordId | None


class Rule(StrEnum):
    """What may not happen to a record, most severe first."""

    LOST = "lost"
    MOVED = "moved"
    OVERWRITTEN = "overwritten"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    FOREIGN = "foreign"
    GAP = "gap"


class Violation(NamedTuple):
    rule: Rule
    partition: int
    message: str

    def __str__(self) -> str:
        return f"{self.rule} in partition {self.partition}: {self.message}"


class Producers(NamedTuple):
    """`sent`: how many records each producer sent or tried to send. `idempotent`: those with a producer id."""

    sent: Mapping[str, int]
    idempotent: frozenset[str] = frozenset()


NOTHING_STORED: Final[Sequence[Stored]] = ()


def check(
    acknowledged: Iterable[Acknowledged], stored: Mapping[int, Sequence[Stored]], producers: Producers
) -> list[Violation]:
    """All violations. `stored`: the records of each partition from its first offset on, in the order of reading."""
    by_partition: dict[int, list[Acknowledged]] = defaultdict(list)
    for record in acknowledged:
        by_partition[record.partition].append(record)
    found: list[Violation] = []
    for partition in sorted({*by_partition, *stored}):
        acks, records = by_partition[partition], stored.get(partition, NOTHING_STORED)
        for rule, messages in (
            (Rule.OVERWRITTEN, _two_for_one_offset(acks)),
            (Rule.GAP, _gaps(records)),
            (Rule.FOREIGN, _foreign(records, producers)),
            (Rule.DUPLICATED, _duplicates(acks, records, producers)),
            (Rule.REORDERED, _order(acks, records, producers)),
        ):
            found += [Violation(rule, partition, message) for message in messages]
        found += _missing(partition, acks, records)
    order = list(Rule)
    return sorted(found, key=lambda v: (order.index(v.rule), v.partition))


def _missing(partition: int, acks: Sequence[Acknowledged], records: Sequence[Stored]) -> Iterator[Violation]:
    """Acknowledged records that are not at their offset: moved if they are at another, else lost."""
    at = {record.offset: record.id for record in records}
    offsets = {record.id: record.offset for record in records}
    for ack in acks:
        present = at.get(ack.offset)
        if present == ack.id:
            continue
        instead = "nothing" if ack.offset not in at else str(present)
        message = f"{ack.id} was acknowledged at offset {ack.offset}, where {instead} is"
        if ack.id in offsets:
            yield Violation(Rule.MOVED, partition, f"{message}; it is at {offsets[ack.id]}")
        else:
            yield Violation(Rule.LOST, partition, message)


def _two_for_one_offset(acks: Sequence[Acknowledged]) -> Iterator[str]:
    first: dict[int, RecordId] = {}
    for ack in acks:
        other = first.setdefault(ack.offset, ack.id)
        if other != ack.id:
            yield f"offset {ack.offset} was acknowledged for {other} and for {ack.id}"


def _gaps(records: Sequence[Stored]) -> Iterator[str]:
    """Nothing is ever compacted or deleted here, so offsets rise by one, from 0."""
    expected = 0
    for record in records:
        if record.offset != expected:
            yield f"offset {record.offset} follows {expected - 1}"
        expected = record.offset + 1


def _foreign(records: Sequence[Stored], producers: Producers) -> Iterator[str]:
    for record in records:
        if record.id is None or not 0 <= record.id.number < producers.sent.get(record.id.producer, 0):
            yield f"nobody sent what is at offset {record.offset}: {record.id}"


def _duplicates(acks: Sequence[Acknowledged], records: Sequence[Stored], producers: Producers) -> Iterator[str]:
    """With a producer id nothing is stored twice; without, only what was sent again may be."""
    once = {ack.id for ack in acks if not ack.resent}
    offsets: dict[RecordId, int] = {}
    for record in records:
        if record.id is None:
            continue
        first = offsets.setdefault(record.id, record.offset)
        if first != record.offset and (record.id in once or record.id.producer in producers.idempotent):
            yield f"{record.id} is at offsets {first} and {record.offset}"


def _order(acks: Sequence[Acknowledged], records: Sequence[Stored], producers: Producers) -> Iterator[str]:
    """Acknowledged offsets rise with the numbers; with a producer id so do all that are stored."""
    yield from _falling((ack.id, ack.offset) for ack in sorted(acks, key=lambda ack: ack.id))
    by_offset = [(r.id, r.offset) for r in records if r.id is not None and r.id.producer in producers.idempotent]
    newest: dict[str, int] = {}
    for id_, offset in by_offset:
        if id_.number < newest.get(id_.producer, -1):
            yield f"{id_} at offset {offset} follows {id_.producer}:{newest[id_.producer]}"
        newest[id_.producer] = max(id_.number, newest.get(id_.producer, -1))


def _falling(placed: Iterable[tuple[RecordId, int]]) -> Iterator[str]:
    """Records, in the order of their ids, whose offset is not above that of the producer's record before."""
    before: dict[str, tuple[RecordId, int]] = {}
    for id_, offset in placed:
        earlier = before.get(id_.producer)
        if earlier is not None and offset <= earlier[1]:
            yield f"{id_} was acknowledged at offset {offset}, {earlier[0]} before it at {earlier[1]}"
        before[id_.producer] = (id_, offset)
