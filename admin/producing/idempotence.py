"""The numbers of an idempotent producer: its id and epoch, and the sequence of each partition's batches. Pure.

A leader stores a batch only if its sequence follows that of the batch before, and knows the last five again: so a batch
whose answer was lost can be sent again, and several can be on their way at once. Batches get new numbers, in a new
epoch, only where the old ones are known not to be stored.
Source: Kafka TransactionManager, TxnPartitionMap, TxnPartitionEntry, ProducerConfig; KIP-98, KIP-360, KIP-679.
"""

from collections.abc import Hashable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from cluster.model.errors import ApiError, ErrorCode

MAX_SEQUENCE: Final = 2**31 - 1
"""The sequence after it is 0."""
MAX_EPOCH: Final = 2**15 - 1
IN_FLIGHT_MAX: Final = 5
"""The number of batches that a leader knows again, for each producer and partition."""
ACKS_ALL: Final = -1


class ProducerIdentity(NamedTuple):
    """The producer id and epoch under which batches are stored."""

    id: int
    epoch: int


class BatchNumber(NamedTuple):
    """What makes a batch known again: its producer, and the sequence of its first record.

    `ordinal`: how many batches of the partition had a number before; the halves of a split batch share it.
    """

    producer: ProducerIdentity
    first: int
    ordinal: int = 0


class NumberedBatch(Protocol):
    """A batch of a partition. `number`: None until it is first sent; `is_on_wire`: whether an answer is awaited.

    `is_of_doubtful`: it is a half of a batch that may be stored as a whole.
    """

    number: BatchNumber | None
    is_on_wire: bool
    may_be_stored: bool
    is_of_doubtful: bool

    @property
    def count(self) -> int: ...


_B = TypeVar("_B", bound=NumberedBatch)
_Held_co = TypeVar("_Held_co", bound=NumberedBatch, covariant=True)


class Reaction(Enum):
    """What to do with a batch that was refused."""

    TAKE_AS_STORED = auto()
    SEND_AGAIN = auto()
    GIVE_UP = auto()


def is_idempotent(wanted: bool | None, acks: int, max_in_flight: int) -> bool:
    """Whether a producer with these settings is idempotent; `wanted` None: not set, so that conflicts turn it off.

    Raises ApiError(INVALID_CONFIG) where it was asked for and another setting contradicts, naming both.
    """
    conflicts = {}
    if acks != ACKS_ALL:
        conflicts["acks"] = (acks, "all")
    if max_in_flight > IN_FLIGHT_MAX:
        conflicts["max.in.flight.requests.per.connection"] = (max_in_flight, f"at most {IN_FLIGHT_MAX}")
    if wanted and conflicts:
        name, (value, needed) = next(iter(conflicts.items()))
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"enable.idempotence=true needs {name}={needed}, and it is {value}: change one of the two",
            field=name,
            value=value,
        )
    return wanted is not False and not conflicts


def after(first: int, count: int) -> int:
    """The sequence that follows a batch of `count` records beginning with sequence `first`."""
    return (first + count) & MAX_SEQUENCE


class PartitionNumbers(Struct):
    """The sequences of one partition under one `producer`; None until it has sent a batch.

    `next`: of the next batch that has none; `taken`: how many batches have one. `acknowledged`: the one after the
    latest batch that was acknowledged. `known_to`: the leadership that has acknowledged a batch, and so accepts none
    before those in front of it. `unresolved`: the sequence after a batch that was given up, and may be stored or not;
    None: there is none. `is_state_lost`: whether the leader has forgotten the producer, so that it would store again
    what it has stored.
    """

    producer: ProducerIdentity | None = None
    next: int = 0
    taken: int = 0
    acknowledged: int = 0
    known_to: Hashable = None
    unresolved: int | None = None
    needs_new_epoch: bool = False
    is_state_lost: bool = False

    def take(self, count: int) -> BatchNumber:
        """Return the number of the next batch, of `count` records."""
        assert self.producer is not None, "sequences are counted for a producer"
        number = BatchNumber(self.producer, self.next, self.taken)
        self.next, self.taken = after(self.next, count), self.taken + 1
        return number

    def acknowledge(self, number: BatchNumber, count: int, leader: Hashable) -> None:
        """Take note that the leader has stored the batch."""
        if number.producer == self.producer:
            self.acknowledged = _later(self.acknowledged, after(number.first, count))
            self.known_to = leader

    def give_up(self, number: BatchNumber, count: int) -> None:
        """Take note that a batch is not sent again although it may be stored: only later answers will tell."""
        if number.producer == self.producer:
            end = after(number.first, count)
            self.unresolved = end if self.unresolved is None else _later(self.unresolved, end)

    def react(self, code: ErrorCode, batch: NumberedBatch, *, is_retriable: bool, is_first: bool) -> Reaction:
        """Decide what becomes of a numbered batch that the leader refused, and whether the partition needs a new epoch.

        A gap in front of a batch that follows the last acknowledged one proves that neither it nor a later one is
        stored, and so does a refusal before the append: these may have new numbers. It proves nothing of a batch in
        front of it; `is_first`: whether there is none. Where the leader has forgotten the producer, only those may that
        were never in doubt.
        """
        number = batch.number
        assert number is not None, "only a numbered batch is refused for its number"
        match code:
            case ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                return Reaction.TAKE_AS_STORED
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                expected = self.acknowledged if self.unresolved is None else self.unresolved
                # The halves of a batch that is stored as a whole are no duplicates to the leader.
                is_proof = is_first and number.first == expected and not batch.is_of_doubtful
                self.needs_new_epoch = self.needs_new_epoch or is_proof
                return Reaction.GIVE_UP if batch.is_of_doubtful else Reaction.SEND_AGAIN
            case ErrorCode.UNKNOWN_PRODUCER_ID:
                self.needs_new_epoch = self.is_state_lost = True
                return Reaction.GIVE_UP if batch.may_be_stored else Reaction.SEND_AGAIN
            case ErrorCode.INVALID_PRODUCER_EPOCH:
                return Reaction.GIVE_UP
        if is_retriable:
            return Reaction.SEND_AGAIN
        # After one that may be stored, only the answers about the later ones can tell.
        self.needs_new_epoch = self.needs_new_epoch or (is_first and not batch.may_be_stored)
        return Reaction.GIVE_UP


class NumberedQueue(Protocol[_Held_co]):
    """The batches of a partition, in the order of their sequences, those without a number last."""

    numbers: PartitionNumbers

    @property
    def batches(self) -> Sequence[_Held_co]: ...


class ProducerNumbers:
    """The producer's identity, which all partitions share; each takes a new one as soon as it can."""

    def __init__(self) -> None:
        self.identity: ProducerIdentity | None = None
        """None: a producer id is to be had first."""

    def renew_epoch(self, old: ProducerIdentity | None) -> None:
        """Begin a new epoch, unless another partition already has; after the last one, with a new id."""
        if self.identity is not None and self.identity == old:
            is_last = self.identity.epoch == MAX_EPOCH
            self.identity = None if is_last else ProducerIdentity(self.identity.id, self.identity.epoch + 1)

    def drop_id(self, fenced: ProducerIdentity) -> None:
        """Use an id no longer under which somebody else stores batches."""
        if self.identity is not None and self.identity.id == fenced.id:
            self.identity = None

    def renew(self, queue: NumberedQueue[_B]) -> Sequence[_B]:
        """Bring a partition to the producer's present identity if its batches allow it.

        Return those that must be given up first, because under new numbers they could be stored twice.
        """
        numbers, numbered = queue.numbers, [batch for batch in queue.batches if batch.number is not None]
        if numbers.unresolved is not None and not numbered:
            # Answers about later batches have said that the one given up was stored; or else nobody knows.
            numbers.needs_new_epoch = numbers.needs_new_epoch or numbers.next != numbers.acknowledged
            numbers.unresolved = None
        if numbers.needs_new_epoch:
            return self._renumber(queue, numbered)
        if not numbered and self.identity is not None and self.identity != numbers.producer:
            queue.numbers = PartitionNumbers(self.identity)
        return ()

    def _renumber(self, queue: NumberedQueue[_B], numbered: Sequence[_B]) -> Sequence[_B]:
        if any(batch.is_on_wire for batch in numbered):
            # What is on its way may be stored under its old number.
            return ()
        if queue.numbers.is_state_lost and (doubtful := [batch for batch in numbered if batch.may_be_stored]):
            return doubtful
        self.renew_epoch(queue.numbers.producer)
        if self.identity is not None:
            queue.numbers = PartitionNumbers(self.identity)
            for batch in numbered:
                batch.number = queue.numbers.take(batch.count)
        return ()


def _later(one: int, other: int) -> int:
    """The later of two sequences that are close to each other; after the largest comes 0."""
    return other if ((other - one) & MAX_SEQUENCE) < MAX_SEQUENCE // 2 else one
