"""The state-change record: one typed line for each thing that changed, and where such lines go.

Written after ZooKeeper acknowledged a change and before the requests about it are queued. The audit, the
simulator's checkers and `klamm story` all read these records: they are an interface, version 1.
"""

import hashlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cluster.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from cluster.partition import TopicPartition

STATE_CHANGE_VERSION: Final = 1
CHAIN_START: Final = "0" * 64
"""`prev` of the first line of an incarnation, which has no line before it."""


class Kind(StrEnum):
    """What a record is about."""

    CONTROLLER = "controller"
    """A controller became active or resigned: to_state `active` or `resigned`, controller_epoch, broker = its id."""
    LOADED = "loaded"
    """One per topic on activation: `partitions` gives the start state of each of its partitions."""
    BROKER = "broker"
    """The controller saw a broker come or go: to_state `live`, `changed`, `shutting_down`, `dead` or `bounced`."""
    TOPIC = "topic"
    """A topic became known (`created`) or vanished (`removed`)."""
    ASSIGNMENT = "assignment"
    """The list of replicas of a partition was written anew: `replicas`, and in `reason` which are coming and going;
    to_state `started`, `cancelled` or `completed` where that is what it means for its reassignment."""
    PARTITION = "partition"
    """A partition state machine transition, with the leadership written for it, if any."""
    REPLICA = "replica"
    """A replica state machine transition; `broker` is the replica's broker."""
    ISR = "isr"
    """Leadership written without a transition: an accepted AlterPartition, or the removal of a dead replica."""
    ROLE = "role"
    """An agent took a role for a partition: to_state `leader`, `follower`, `stopped`, `deleted` or `offline`."""
    TRUNCATION = "truncation"
    """A follower cut its log; `reason` says from where to where."""
    REGISTRATION = "registration"
    """An agent registered (to_state `registered`) or lost its registration (`expired`); `reason` has the epoch."""


class Cause(Struct, frozen=True, omit_defaults=True):
    """What led to the change: the event or request, and its number within the process."""

    event: str
    id: int = 0


class LoadedPartition(Struct, frozen=True, array_like=True):
    """Start state of one partition: an array on the wire. `leader_epoch` is -1 where there is no state node."""

    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    controller_epoch: ControllerEpoch


class StateChange(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the writer says; the sink adds version, sequence, chain, node, incarnation and time.

    Absent (None) where a field means nothing. `leader` -1 is none. States are the names of the state
    tables, e.g. `OnlinePartition`, `OfflineReplica`. `topic_id` tells a topic from an earlier one of the same
    name, whose epochs have nothing to do with its own.
    """

    kind: Kind
    cause: Cause | None = None
    controller_epoch: ControllerEpoch | None = None
    topic: str | None = None
    topic_id: TopicId | None = None
    partition: int | None = None
    broker: int | None = None
    from_state: str | None = None
    to_state: str | None = None
    leader: BrokerId | None = None
    leader_epoch: LeaderEpoch | None = None
    partition_epoch: PartitionEpoch | None = None
    isr: tuple[BrokerId, ...] | None = None
    replicas: tuple[BrokerId, ...] | None = None
    partitions: tuple[LoadedPartition, ...] | None = None
    reason: str | None = None


class StateChangeSink(Protocol):
    """Where a node's records go. Called on the event loop; one call is one write."""

    def append(self, changes: Sequence[StateChange]) -> None:
        """Number, stamp and store the records in this order. An empty sequence writes nothing."""
        ...


class LoggedStateChange(StateChange, frozen=True, omit_defaults=True, kw_only=True):
    """A record as it stands in a log: what the writer said and what the sink stamped.

    `seq` counts from 0 without gaps within one `incarnation` of one `node`; `prev` is the SHA-256 of the line
    before it (without its newline), `CHAIN_START` for the first. Incarnations of a node sort by time.
    """

    v: int
    seq: int
    node: str
    incarnation: str
    at_ms: int
    prev: str = ""

    @property
    def reference(self) -> str:
        """Names this record among all others: `node/incarnation/seq`."""
        return f"{self.node}/{self.incarnation}/{self.seq}"


class MalformedLine(Struct, frozen=True):
    """A line that is no record of a version we know, and why."""

    line: bytes
    why: str


def by_partition(record: LoggedStateChange) -> Iterator[tuple[TopicPartition, LoggedStateChange]]:
    """The record under each partition that it speaks of: one of start states once for each, as `start_state`."""
    if record.topic is None:
        return
    if record.partition is not None:
        yield TopicPartition(record.topic, record.partition), record
        return
    for item in record.partitions or ():
        yield TopicPartition(record.topic, item.partition), start_state(record, item)


def start_state(record: LoggedStateChange, item: LoadedPartition) -> LoggedStateChange:
    """A `loaded` record reduced to one of its partitions, whose leadership it then carries like any other record."""
    if item.leader_epoch < 0:
        return replace(record, partition=item.partition, replicas=item.replicas, partitions=(item,))
    return replace(
        record,
        partition=item.partition,
        leader=item.leader,
        leader_epoch=item.leader_epoch,
        partition_epoch=item.partition_epoch,
        isr=item.isr,
        replicas=item.replicas,
        partitions=(item,),
    )


def incarnation_id(started_at_ms: int, process_id: int) -> str:
    """An id for one run of one process which sorts by time: `<ms since 1970, 13 digits>.<pid>`."""
    return f"{started_at_ms:013d}.{process_id}"


def line_digest(line: bytes) -> str:
    """What the next line carries as `prev`; `line` without its newline."""
    return hashlib.sha256(line).hexdigest()


def decode_line(line: bytes) -> LoggedStateChange | MalformedLine:
    """A line of a log without its newline. Fields that are not known yet are ignored."""
    try:
        record = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return MalformedLine(line, str(error))
    if record.v > STATE_CHANGE_VERSION:
        return MalformedLine(line, f"version {record.v} is newer than {STATE_CHANGE_VERSION}")
    return record


class ChainHead(NamedTuple):
    """Where the lines of an incarnation end: the number of the next one, and the SHA-256 of the last one."""

    next_seq: int
    digest: str


class Stamper:
    """Turns what writers say into the numbered and chained lines of one incarnation."""

    def __init__(self, node: str, incarnation: str) -> None:
        self._origin = b'"node":%b,"incarnation":%b,"at_ms":' % (
            msgspec.json.encode(node),
            msgspec.json.encode(incarnation),
        )
        self._prev = CHAIN_START.encode()
        self.next_seq = 0

    def stamp(self, changes: Sequence[StateChange], at_ms: int) -> list[bytes]:
        """The lines of these records, without newlines. Each call takes the next numbers, whatever becomes of them."""
        # Only the body goes through the encoder; the stamp is spliced in front of it. A second struct per record
        # would cost as much again as all the rest.
        head, encode, prev, seq = self._origin, _encoder.encode, self._prev, self.next_seq
        lines = []
        for change in changes:
            line = b'{"v":%d,"seq":%d,"prev":"%b",%b%d,%b' % (
                STATE_CHANGE_VERSION,
                seq,
                prev,
                head,
                at_ms,
                encode(change)[1:],
            )
            prev = hashlib.sha256(line).hexdigest().encode()
            seq += 1
            lines.append(line)
        self._prev, self.next_seq = prev, seq
        return lines

    @property
    def head(self) -> ChainHead:
        return ChainHead(self.next_seq, self._prev.decode())


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(LoggedStateChange)
