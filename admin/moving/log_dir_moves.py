"""Moves of replicas between the log directories of their brokers: requests, and how far they are.

Source: Kafka ReassignPartitionsCommand (alterReplicaLogDirs, findLogDirMoveStates); KIP-113.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from os.path import normpath
from typing import Final

from msgspec import Struct

from admin.connecting.client import AdminClient
from admin.moving.progress import Progress
from admin.producing.missing_topics import missing_topic
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import DescribedBroker
from cluster.requests.log_dirs import DescribedLogDir

WantedDirs = Mapping[BrokerId, Mapping[TopicPartition, str]]
"""The log directory in which each replica is to be, by broker."""
_POLL_S: Final = 0.5


class RefusedDirMove(Struct, frozen=True):
    """A replica whose move was refused, and why."""

    broker: BrokerId
    topic_partition: TopicPartition
    log_dir: str
    code: ErrorCode
    message: str


class UnfinishedMove(Struct, frozen=True):
    """A replica that is not yet in its log directory. `present`: where it is, empty if it is nowhere; `copied` of
    `size`: bytes, 0 of 0 where it is not being copied.
    """

    broker: BrokerId
    topic_partition: TopicPartition
    log_dir: str
    present: str
    copied: int = 0
    size: int = 0
    offset_lag: int = -1

    @property
    def is_copied(self) -> bool:
        return self.offset_lag >= 0


async def chosen_brokers(client: AdminClient, ids: Iterable[int]) -> dict[BrokerId, DescribedBroker]:
    """The registered brokers with these ids. Raises ApiError(BROKER_NOT_AVAILABLE) if one is not."""
    found, refusal = await find_brokers(client, ids)
    if refusal is not None:
        raise refusal
    return found


async def find_brokers(
    client: AdminClient, ids: Iterable[int]
) -> tuple[dict[BrokerId, DescribedBroker], ApiError | None]:
    """Find the registered brokers with these ids; and the error that names those that are not registered."""
    wanted = sorted({*ids})
    registered = {broker.id: broker for broker in (await client.describe_controller()).brokers}
    found = {BrokerId(id_): registered[BrokerId(id_)] for id_ in wanted if id_ in registered}
    missing = [str(id_) for id_ in wanted if id_ not in registered]
    if not missing:
        return found, None
    message = f"no broker {', '.join(missing)} is registered; 'klamm brokers list' shows those that are"
    return found, ApiError(ErrorCode.BROKER_NOT_AVAILABLE, message, field="broker")


class PlannedDirMove(Struct, frozen=True):
    """A replica that is to be moved, where it is now, and its size in bytes."""

    broker: BrokerId
    topic_partition: TopicPartition
    size: int
    from_dir: str
    to_dir: str


class DirMovesPlan(Struct, frozen=True):
    """What an order to move replicas comes to. `unknown`: partitions that do not exist; `in_place`: replicas that are
    in their directory already, and are not being moved; `moves`: the others that the brokers have.
    """

    unknown: tuple[RefusedDirMove, ...]
    in_place: tuple[PlannedDirMove, ...]
    moves: tuple[PlannedDirMove, ...]

    def needed(self, wanted: WantedDirs) -> WantedDirs:
        """Leave out of the order what is unknown or in place."""
        unknown = ((refused.broker, refused.topic_partition) for refused in self.unknown)
        return without(wanted, (*unknown, *((move.broker, move.topic_partition) for move in self.in_place)))


async def plan_moves(
    client: AdminClient, brokers: Mapping[BrokerId, DescribedBroker], wanted: WantedDirs
) -> DirMovesPlan:
    """Find out what is to be moved, and from where. Changes nothing."""
    unknown = await unknown_partitions(client, (tp for moves in wanted.values() for tp in moves))
    refused = [
        RefusedDirMove(broker, tp, path, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown[tp])
        for broker, moves in sorted(wanted.items())
        for tp, path in sorted(moves.items())
        if tp in unknown
    ]
    in_place: list[PlannedDirMove] = []
    planned: list[PlannedDirMove] = []
    for broker, moves in sorted(wanted.items()):
        known = {tp: path for tp, path in moves.items() if tp not in unknown}
        for move, is_in_place in planned_moves(broker, known, await client.describe_log_dirs(brokers[broker])):
            (in_place if is_in_place else planned).append(move)
    return DirMovesPlan(tuple(refused), tuple(in_place), tuple(planned))


def planned_moves(
    broker: BrokerId, wanted: Mapping[TopicPartition, str], described: Sequence[DescribedLogDir]
) -> list[tuple[PlannedDirMove, bool]]:
    """Find where the replicas of a broker are, sorted; each with whether it is in its directory already, and is not
    being moved. Those that the broker does not have are left out.
    """
    present, future = _places(described)
    found = []
    for tp, path in sorted(wanted.items()):
        if tp in present:
            where, size = present[tp]
            is_in_place = normpath(where) == normpath(path) and tp not in future
            found.append((PlannedDirMove(broker, tp, size, where, path), is_in_place))
    return found


async def unknown_partitions(client: AdminClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
    """Find the partitions that do not exist, each with a sentence that says so."""
    asked = sorted(set(partitions))
    described = {t.name: t for t in (await client.describe_topics(sorted({tp.topic for tp in asked}))).topics}
    found: dict[TopicPartition, str] = {}
    for tp in asked:
        topic = described.get(tp.topic)
        if topic is None or topic.error_code is not ErrorCode.NONE:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
            found[tp] = missing_topic(tp.topic, code).message
        elif all(p.partition != tp.partition for p in topic.partitions):
            found[tp] = f"topic {tp.topic!r} has no partition {tp.partition}: it has {len(topic.partitions)}"
    return found


def without(wanted: WantedDirs, gone: Iterable[tuple[BrokerId, TopicPartition]]) -> WantedDirs:
    """Leave these replicas out of an order."""
    dropped = set(gone)
    kept = {
        broker: {tp: path for tp, path in moves.items() if (broker, tp) not in dropped}
        for broker, moves in wanted.items()
    }
    return {broker: moves for broker, moves in kept.items() if moves}


async def request_moves(
    client: AdminClient, brokers: Mapping[BrokerId, DescribedBroker], wanted: WantedDirs, *, validate_only: bool = False
) -> list[RefusedDirMove]:
    """Ask each broker to move its replicas; returns those that were refused. One that has none yet remembers where it
    is to be.
    """
    refused: list[RefusedDirMove] = []
    for broker, moves in sorted(wanted.items()):
        answers = await client.alter_replica_log_dirs(brokers[broker], moves, validate_only=validate_only)
        for tp, path in sorted(moves.items()):
            answer = answers.get(tp)
            code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else answer.error_code
            if code is not ErrorCode.NONE:
                message = "the broker did not answer for it" if answer is None else answer.error_message
                refused.append(RefusedDirMove(broker, tp, path, code, message))
    return refused


async def unfinished_moves(
    client: AdminClient, brokers: Mapping[BrokerId, DescribedBroker], wanted: WantedDirs
) -> list[UnfinishedMove]:
    """The replicas that are not yet in their log directories."""
    found: list[UnfinishedMove] = []
    for broker, moves in sorted(wanted.items()):
        found += compare_dirs(broker, moves, await client.describe_log_dirs(brokers[broker]))
    return found


def compare_dirs(
    broker: BrokerId, wanted: Mapping[TopicPartition, str], described: Sequence[DescribedLogDir]
) -> list[UnfinishedMove]:
    """The replicas of a broker that are not yet in their log directories, sorted."""
    present, future = _places(described)
    unfinished = []
    for tp, path in sorted(wanted.items()):
        where, size = present.get(tp, ("", 0))
        if tp in future:
            copied, lag = future[tp]
            unfinished.append(UnfinishedMove(broker, tp, path, where, copied, size, lag))
        elif normpath(where) != normpath(path):
            unfinished.append(UnfinishedMove(broker, tp, path, where))
    return unfinished


def _places(
    described: Sequence[DescribedLogDir],
) -> tuple[dict[TopicPartition, tuple[str, int]], dict[TopicPartition, tuple[int, int]]]:
    """Find the directory and the size of each replica; and of each copy that is being made, its size and its lag."""
    present: dict[TopicPartition, tuple[str, int]] = {}
    future: dict[TopicPartition, tuple[int, int]] = {}
    for log_dir in described:
        for topic in log_dir.topics:
            for replica in topic.partitions:
                tp = TopicPartition(topic.name, replica.partition_index)
                if replica.is_future_key:
                    future[tp] = replica.partition_size, max(replica.offset_lag, 0)
                else:
                    present[tp] = log_dir.log_dir, replica.partition_size
    return present, future


async def wait_for_dirs(
    client: AdminClient,
    brokers: Mapping[BrokerId, DescribedBroker],
    wanted: WantedDirs,
    say: Callable[[str], None],
) -> list[UnfinishedMove]:
    """Wait until the timeout, and say how far it is; returns the moves that are still in progress."""
    loop = asyncio.get_running_loop()
    total = sum(map(len, wanted.values()))
    progress, said = Progress(total, loop.time()), ""
    left = await unfinished_moves(client, brokers, wanted)
    with contextlib.suppress(TimeoutError):
        async with client.limits.outlasting_calls():
            while left:
                progress.update(total - len(left), loop.time())
                text = f"{progress.describe('replicas moved', ())}; {describe_copying(left)}"
                if text != said:
                    say(text)
                    said = text
                await asyncio.sleep(_POLL_S)
                left = await unfinished_moves(client, brokers, wanted)
    return left


def describe_copying(left: Sequence[UnfinishedMove]) -> str:
    """Say how much of the replicas that are being copied is copied."""
    copied, size = sum(move.copied for move in left), sum(move.size for move in left)
    return f"{copied:,} of {size:,} bytes of the others copied"
