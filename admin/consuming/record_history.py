"""The history of a topic: what producers sent and brokers acknowledged, checked against what can be read afterwards.

Pure: no cluster, no clock. A record is known by its producer and its number, which rises from 0 with each record that
the producer sends. One producer numbers its records over all partitions, and sends those of a partition in order.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from enum import StrEnum
from typing import Final, NamedTuple

from cluster.model.broker import UNKNOWN_OFFSET


class RecordId(NamedTuple):
    """The producer of a record and the number that it gave the record."""

    producer: str
    number: int

    def __str__(self) -> str:
        return f"{self.producer}:{self.number}"

    def value(self, padding: bytes = b"") -> bytes:
        """Encode the id as the value of its record."""
        return f"{self.producer} {self.number} ".encode() + padding

    @classmethod
    def of(cls, value: bytes | None, padding: bytes | None = b"") -> "RecordId | None":
        """Decode the value of a record; None for a value that no producer with this padding makes.

        `padding` None: it may be any.
        """
        producer, _, rest = (value or b"").partition(b" ")
        number, _, found = rest.partition(b" ")
        if padding not in (None, found) or not number.isdigit():
            return None
        return cls(producer.decode(errors="replace"), int(number))


class Acknowledged(NamedTuple):
    """One record that a leader acknowledged with acks=all.

    `offset` is UNKNOWN_OFFSET where the leader no longer knew it when an idempotent producer sent the batch once more.
    `resent`: whether its batch was sent more than once.
    """

    id: RecordId
    partition: int
    offset: int
    resent: bool = False


class Stored(NamedTuple):
    """One record as it was read. `id` None: no producer makes its value."""

    offset: int
    id: RecordId | None


class HistoryRule(StrEnum):
    """Names what may not happen to a record, most severe first."""

    LOST = "lost"
    MOVED = "moved"
    OVERWRITTEN = "overwritten"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    FOREIGN = "foreign"
    GAP = "gap"


class Anomaly(NamedTuple):
    """One record, or one offset, that breaks a rule."""

    rule: HistoryRule
    partition: int
    message: str

    def __str__(self) -> str:
        return f"{self.rule} in partition {self.partition}: {self.message}"


class Senders(NamedTuple):
    """The number of records that each producer sent or tried to send, and the producers with a producer id."""

    sent: Mapping[str, int]
    idempotent: Set[str] = frozenset()


class HistorySummary(NamedTuple):
    """The number of anomalies of each rule, and of records beyond the first of each id, whether or not they may be."""

    anomalies: dict[HistoryRule, int]
    duplicates: int


NOTHING_STORED: Final[Sequence[Stored]] = ()


def check(
    acknowledged: Iterable[Acknowledged], stored: Mapping[int, Sequence[Stored]], producers: Senders
) -> list[Anomaly]:
    """Find all anomalies, the most severe first.

    `stored`: the records of each partition from its first offset on, in the order in which they were read.
    """
    by_partition: dict[int, list[Acknowledged]] = defaultdict(list)
    for record in acknowledged:
        by_partition[record.partition].append(record)
    found: list[Anomaly] = []
    for partition in sorted({*by_partition, *stored}):
        acks, records = by_partition[partition], stored.get(partition, NOTHING_STORED)
        placed = [ack for ack in acks if ack.offset != UNKNOWN_OFFSET]
        for rule, messages in (
            (HistoryRule.OVERWRITTEN, _two_for_one_offset(placed)),
            (HistoryRule.GAP, _gaps(records)),
            (HistoryRule.FOREIGN, _foreign(records, producers)),
            (HistoryRule.DUPLICATED, _duplicates(acks, records, producers)),
            (HistoryRule.REORDERED, _order(placed, records, producers)),
        ):
            found += [Anomaly(rule, partition, message) for message in messages]
        found += _missing(partition, acks, records)
    order = list(HistoryRule)
    return sorted(found, key=lambda v: (order.index(v.rule), v.partition))


def summarize(
    acknowledged: Iterable[Acknowledged],
    stored: Mapping[int, Sequence[Stored]],
    producers: Senders,
    *,
    is_whole: bool = True,
) -> HistorySummary:
    """Count what `check` finds, and duplicates. `is_whole`: whether all records of the topic are in `stored`."""
    copies = Counter(record.id for records in stored.values() for record in records)
    found = Counter(anomaly.rule for anomaly in check(acknowledged, stored, producers))
    if not is_whole:
        del found[HistoryRule.GAP]
    return HistorySummary(dict(found), copies.total() - len(copies))


def _missing(partition: int, acks: Sequence[Acknowledged], records: Sequence[Stored]) -> Iterator[Anomaly]:
    """Acknowledged records that are not at their offset: moved if they are at another, else lost."""
    at = {record.offset: record.id for record in records}
    offsets = {record.id: record.offset for record in records}
    for ack in acks:
        present = at.get(ack.offset)
        if present == ack.id or (ack.offset == UNKNOWN_OFFSET and ack.id in offsets):
            continue
        instead = "nothing" if ack.offset not in at else str(present)
        message = f"{ack.id} was acknowledged at offset {ack.offset}, where {instead} is"
        if ack.id in offsets:
            yield Anomaly(HistoryRule.MOVED, partition, f"{message}; it is at {offsets[ack.id]}")
        else:
            yield Anomaly(HistoryRule.LOST, partition, message)


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


def _foreign(records: Sequence[Stored], producers: Senders) -> Iterator[str]:
    for record in records:
        if record.id is None or not 0 <= record.id.number < producers.sent.get(record.id.producer, 0):
            yield f"nobody sent what is at offset {record.offset}: {record.id}"


def _duplicates(acks: Sequence[Acknowledged], records: Sequence[Stored], producers: Senders) -> Iterator[str]:
    """Find duplicates: with a producer id nothing is stored twice; without, only what was sent again may be."""
    once = {ack.id for ack in acks if not ack.resent}
    offsets: dict[RecordId, int] = {}
    for record in records:
        if record.id is None:
            continue
        first = offsets.setdefault(record.id, record.offset)
        if first != record.offset and (record.id in once or record.id.producer in producers.idempotent):
            yield f"{record.id} is at offsets {first} and {record.offset}"


def _order(acks: Sequence[Acknowledged], records: Sequence[Stored], producers: Senders) -> Iterator[str]:
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
