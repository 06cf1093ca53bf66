"""The state-change record: one typed line per change, and the interface of its sinks.

Written after ZooKeeper acknowledged a change and before the requests about it are queued. The audit, the simulator's
checkers and `klamm story` read these records: they are a public format, described in `docs/state-change-log.md`.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Final, NamedTuple, Protocol

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from cluster.config.files import first_line
from cluster.model.broker import BrokerId, ControllerEpoch, ControllerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from cluster.model.errors import DECODE_ERRORS
from cluster.model.partition import TopicPartition
from cluster.requests.control import StateLogHead

STATE_CHANGE_VERSION: Final = 2
"""Of the lines that are written. Those of version 1 are read as well: they have a part of the fields."""
LINE_BYTES_MAX: Final = 16 << 20
"""A longer line is malformed; the start states of 100,000 partitions take a third of it."""
_INT32: Final = Meta(ge=-(1 << 31), le=(1 << 31) - 1)
_INT64: Final = Meta(ge=-(1 << 63) + 1, le=(1 << 63) - 1)
_Int32 = Annotated[int, _INT32]
_Int64 = Annotated[int, _INT64]
_Offset = Annotated[Offset, _INT64]
_BrokerId = Annotated[BrokerId, _INT32]
_ControllerId = Annotated[ControllerId, _INT32]
_ControllerEpoch = Annotated[ControllerEpoch, _INT32]
_LeaderEpoch = Annotated[LeaderEpoch, _INT32]
_PartitionEpoch = Annotated[PartitionEpoch, _INT32]
_Brokers = Annotated[tuple[_BrokerId, ...], Meta(max_length=10_000)]
_Text = Annotated[str, Meta(max_length=10_000)]
_TopicId = Annotated[TopicId, Meta(max_length=10_000)]
CHAIN_START: Final = "0" * 64
"""`prev` of the first line of an incarnation."""


class Kind(StrEnum):
    """Names what a record describes."""

    CONTROLLER = "controller"
    """A controller became active or resigned: to_state `active` or `resigned`, controller_epoch, broker = its id."""
    LOADED = "loaded"
    """One per topic on activation: `partitions` holds the initial state of each of its partitions."""
    BROKER = "broker"
    """A broker's status changed: to_state `live`, `changed`, `shutting_down`, `dead` or `bounced`."""
    TOPIC = "topic"
    """A topic became known (`created`) or vanished (`removed`)."""
    ASSIGNMENT = "assignment"
    """The replica assignment of a partition was written: `replicas`, with adding and removing ones in `reason`;
    to_state `started`, `cancelled` or `completed` if that is what it means for its reassignment.
    """
    PARTITION = "partition"
    """A partition state machine transition, with the leadership written for it, if any."""
    REPLICA = "replica"
    """A replica state machine transition; `broker` is the replica's broker."""
    ISR = "isr"
    """Leadership written without a transition: an accepted AlterPartition, or the removal of a dead replica."""
    ROLE = "role"
    """An agent changed its role for a partition: to_state `leader`, `follower`, `stopped`, `deleted` or `offline`."""
    TRUNCATION = "truncation"
    """A follower truncated its log from `from_offset` down to `to_offset`, or the log had lost that when its broker
    started (cause `LogRecovery`), or the scrub found it damaged (`LogScrub`); `reason` has further details.
    """
    DIRECTORY_MOVE = "directory_move"
    """An agent moves a replica to another of its log directories: to_state `started`, `completed` or `abandoned`;
    `reason` has both directories.
    """
    REGISTRATION = "registration"
    """An agent registered (to_state `registered`) or lost its registration (`expired`); `reason` has the epoch."""
    CONFIG = "config"
    """A setting of a topic changed that invariants depend on: `min_insync_replicas`."""
    ACCESS_RULE = "access_rule"
    """A rule of an access control list was `added` to or `removed` from a `resource`; `reason` has the rule."""
    DELETION = "deletion"
    """The deletion of a topic: to_state `started` when its replicas are first told to go, `completed` when all are."""
    WITNESS = "witness"
    """Another node's log reached this `witness`, as that node said in a request or response; in the first record of a
    run, the log of the same node's former run ends with it.
    """


class Cause(Struct, frozen=True, omit_defaults=True):
    """The event or request that led to the change, and its number within the process.

    `controller` and `controller_epoch` are present if the event is another process's: of the controller whose request
    an agent carries out. Otherwise the event is one of the node that wrote the record.
    """

    event: _Text
    id: _Int64 = 0
    controller: _ControllerId | None = None
    controller_epoch: _ControllerEpoch | None = None


class Witness(Struct, frozen=True, omit_defaults=True):
    """The head of a chain: the number and digest of its last line, and the boot of its machine.

    Another node names the last line that it has flushed in its messages; the former run of the same node ended with it.
    """

    node: _Text
    incarnation: _Text
    seq: _Int64
    digest: _Text
    boot_id: _Text = ""


class LoadedPartition(Struct, frozen=True, array_like=True, gc=False):
    """Initial state of one partition, an array on the wire. `leader_epoch` is -1 if there is no state znode."""

    partition: _Int32
    leader: _BrokerId
    leader_epoch: _LeaderEpoch
    partition_epoch: _PartitionEpoch
    isr: _Brokers
    replicas: _Brokers
    controller_epoch: _ControllerEpoch


class LoadedMove(Struct, frozen=True, array_like=True):
    """The reassignment of a loaded partition, an array on the wire: the replicas that it adds and removes."""

    partition: _Int32
    adding: _Brokers
    removing: _Brokers


class DecisionInputs(Struct, frozen=True, omit_defaults=True):
    """What a controller's decision rested on, beside what its other records say.

    In a controller's record `active`: `live`, the brokers that it began with, and whose brokers they are, `klamm` or
    `kafka`, as `governs`. Only logs with these have the others, and they have
    them where they are not empty. Of the replicas and the ISR of the partition: `offline`, on registered brokers, yet
    not online, as their log directory failed; `held`, damaged ones that are not to be elected; `awaited`, those whose
    broker has not joined yet, as it has to name its damaged replicas. `unclean`: who allowed an unclean leader,
    `request` or `config`.
    """

    live: _Brokers | None = None
    governs: _Text | None = None
    offline: _Brokers = ()
    held: _Brokers = ()
    awaited: _Brokers = ()
    unclean: _Text | None = None


GOVERNS_KLAMM: Final = "klamm"
GOVERNS_KAFKA: Final = "kafka"
UNCLEAN_BY_REQUEST: Final = "request"
UNCLEAN_BY_CONFIG: Final = "config"


class StateChange(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The fields set by the writer; the sink adds version, sequence number, chain, node, incarnation and time.

    None (absent) if a field does not apply. `leader` -1 is none. States have the names of the state tables, e.g.
    `OnlinePartition`, `OfflineReplica`. `topic_id` distinguishes a topic from an earlier one of the same name, whose
    epochs are unrelated. `request_id`, `principal` and `peer` are those of the call that led to a controller's change;
    agents' records lead to them by their cause (see `state_log.causes`).
    """

    kind: Kind
    cause: Cause | None = None
    controller_epoch: _ControllerEpoch | None = None
    topic: _Text | None = None
    topic_id: _TopicId | None = None
    partition: _Int32 | None = None
    broker: _Int32 | None = None
    broker_epoch: _Int64 | None = None
    from_state: _Text | None = None
    to_state: _Text | None = None
    leader: _BrokerId | None = None
    leader_epoch: _LeaderEpoch | None = None
    partition_epoch: _PartitionEpoch | None = None
    isr: _Brokers | None = None
    replicas: _Brokers | None = None
    adding_replicas: _Brokers | None = None
    removing_replicas: _Brokers | None = None
    partitions: tuple[LoadedPartition, ...] | None = None
    moves: tuple[LoadedMove, ...] | None = None
    inputs: DecisionInputs | None = None
    resource: _Text | None = None
    reason: _Text | None = None
    request_id: _Text | None = None
    principal: _Text | None = None
    peer: _Text | None = None
    from_offset: _Offset | None = None
    to_offset: _Offset | None = None
    high_watermark: _Offset | None = None
    log_start_offset: _Offset | None = None
    log_end_offset: _Offset | None = None
    min_insync_replicas: _Int32 | None = None
    silent_ms: _Int64 | None = None
    witness: Witness | None = None


class StateChangeSink(Protocol):
    """Receives a node's records. Called on the event loop; one call is one write."""

    def append(self, changes: Sequence[StateChange]) -> None:
        """Number, stamp and store the records in this order. An empty sequence writes nothing."""


class StateChangeLog(StateChangeSink, Protocol):
    """A node's own log."""

    @property
    def flushed_head(self) -> StateLogHead | None:
        """The end of what was flushed to disk; None before the first flush."""


class LoggedStateChange(StateChange, frozen=True, omit_defaults=True, kw_only=True):
    """A record read from a log: the writer's fields and those added by the sink.

    `seq` counts from 0 without gaps within one `incarnation` of one `node`; `prev` is the SHA-256 of the preceding line
    (without its newline), `CHAIN_START` for the first. Incarnations of a node sort by time. `boot_id` and `mono_ms`:
    the boot of the machine and the milliseconds of its monotonic clock, in the first record.
    """

    v: _Int32
    seq: _Int64
    node: _Text
    incarnation: _Text
    at_ms: _Int64
    prev: _Text = ""
    boot_id: _Text | None = None
    mono_ms: _Int64 | None = None

    @property
    def reference(self) -> str:
        """Unique name of the record: `node/incarnation/seq`."""
        return f"{self.node}/{self.incarnation}/{self.seq}"


class MalformedLine(Struct, frozen=True):
    """A line that is not a record of a known version, and why."""

    line: bytes
    why: str


def by_partition(record: LoggedStateChange) -> Iterator[tuple[TopicPartition, LoggedStateChange]]:
    """Yield the record under each partition it concerns; a `loaded` record once per partition, as `start_state`."""
    if record.topic is None:
        return
    if record.partition is not None:
        yield TopicPartition(record.topic, record.partition), record
        return
    for item in record.partitions or ():
        yield TopicPartition(record.topic, item.partition), start_state(record, item)


def start_state(record: LoggedStateChange, item: LoadedPartition) -> LoggedStateChange:
    """A `loaded` record reduced to one partition, with its leadership and move in the usual fields."""
    move = next((m for m in record.moves or () if m.partition == item.partition), None)
    if move is not None:
        record = replace(record, moves=(move,), adding_replicas=move.adding, removing_replicas=move.removing)
    elif record.moves is not None:
        record = replace(record, moves=None)
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


class Boot(Struct, frozen=True, omit_defaults=True):
    """Milliseconds of a machine's monotonic clock, and which boot of it they are of; empty where that is unknown."""

    mono_ms: int
    boot_id: str = ""


def incarnation_id(started_at_ms: int, process_id: int) -> str:
    """An id for one run of a process that sorts by time: `<ms since 1970, 13 digits>.<pid>`."""
    return f"{started_at_ms:013d}.{process_id}"


def line_digest(line: bytes) -> str:
    """The digest that the next line carries as `prev`; `line` without its newline."""
    return hashlib.sha256(line).hexdigest()


def line_digests(lines: Sequence[bytes]) -> list[str]:
    """The digest of each line."""
    sha256 = hashlib.sha256
    return [sha256(line).hexdigest() for line in lines]


def decode_line(line: bytes) -> LoggedStateChange | MalformedLine:
    """Decode a line of a log without its newline. Unknown fields are ignored."""
    if len(line) > LINE_BYTES_MAX:
        return MalformedLine(line, f"{len(line)} bytes are more than {LINE_BYTES_MAX}")
    try:
        record = _decoder.decode(line)
        # The decoder leaves out unknown fields without a look at them; what reads the line later does not.
        line.isascii() or line.decode()
    except DECODE_ERRORS as error:
        return MalformedLine(line, first_line(error))
    if record.v > STATE_CHANGE_VERSION:
        return MalformedLine(line, f"version {record.v} is newer than {STATE_CHANGE_VERSION}")
    return record


def decode_lines(lines: Sequence[bytes]) -> list["LoggedStateChange | MalformedLine"] | None:
    """Decode many lines as `decode_line` does, in less time; None if one of them needs a closer look."""
    if max(map(len, lines), default=0) > LINE_BYTES_MAX:
        return None
    block = b"\n".join(lines)
    try:
        records = _decoder.decode_lines(block)
        block.isascii() or block.decode()
    except DECODE_ERRORS:
        return None
    if len(records) != len(lines) or any(record.v > STATE_CHANGE_VERSION for record in records):
        return None
    return records  # type: ignore[return-value]  # Lists are invariant.


class ChainHead(NamedTuple):
    """Says where the lines of an incarnation end: the number of the next one, and the SHA-256 of the last one."""

    next_seq: int
    digest: str


class Stamper:
    """Turns records into the numbered and chained lines of one incarnation.

    `boot` is asked once, when the first record is stamped; without it that record has no boot id. `boot_id`: what it
    said.
    """

    def __init__(self, node: str, incarnation: str, boot: Callable[[], Boot] | None = None) -> None:
        self._origin = b'"node":%b,"incarnation":%b,"at_ms":' % (
            msgspec.json.encode(node),
            msgspec.json.encode(incarnation),
        )
        self._boot = boot
        self.boot_id = ""
        self._prev = CHAIN_START.encode()
        self.next_seq = 0

    def stamp(self, changes: Sequence[StateChange], at_ms: int) -> list[bytes]:
        """The lines of these records, without newlines. Each call takes the next sequence numbers, even if its lines
        are lost.
        """
        # Only the body is encoded; the stamp is spliced in front of it. A second struct per record would double the
        # cost.
        head, prev, seq = self._origin, self._prev, self.next_seq
        bodies = [_encoder.encode(change)[1:] for change in changes]
        if seq == 0 and bodies and self._boot is not None:
            boot = self._boot()
            self.boot_id = boot.boot_id
            bodies[0] = b"%b,%b" % (_encoder.encode(boot)[1:-1], bodies[0])
        lines = []
        for body in bodies:
            line = b'{"v":%d,"seq":%d,"prev":"%b",%b%d,%b' % (STATE_CHANGE_VERSION, seq, prev, head, at_ms, body)
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
