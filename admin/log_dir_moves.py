"""Moves of replicas between the log directories of their brokers: requests, and how far they are.

Source: Kafka ReassignPartitionsCommand (alterReplicaLogDirs, findLogDirMoveStates); KIP-113.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from os.path import normpath
from typing import Final

from msgspec import Struct

from admin.client import AdminClient
from admin.progress import Progress
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
    registered = {broker.id: broker for broker in (await client.describe_controller()).brokers}
    missing = sorted({*ids} - registered.keys())
    if missing:
        message = f"no broker {', '.join(map(str, missing))} is registered; 'klamm brokers list' shows those that are"
        raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, message, field="broker")
    return {BrokerId(id_): registered[BrokerId(id_)] for id_ in sorted({*ids})}


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
    unfinished = []
    for tp, path in sorted(wanted.items()):
        where, size = present.get(tp, ("", 0))
        if tp in future:
            copied, lag = future[tp]
            unfinished.append(UnfinishedMove(broker, tp, path, where, copied, size, lag))
        elif normpath(where) != normpath(path):
            unfinished.append(UnfinishedMove(broker, tp, path, where))
    return unfinished


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
