"""Faults of one log directory of several, and moves of replicas while others happen. For the soak, not for rounds."""

import asyncio
import errno
from pathlib import Path
from typing import Final

from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.model.partition import TopicPartition
from tests.chaos.cluster import SESSION_S
from tests.chaos.faults.disks import fill
from tests.chaos.faults.mixes import reassign
from tests.chaos.faults.processes import kill_for
from tests.chaos.faults.registry import Round
from tests.chaos.producers import PARTITIONS

_MOVED_AT_MOST: Final = 3
_LEFT_BYTES: Final = (0, 4096, 5_000_000)
"""Nothing, nearly nothing, and what is below the free space that a broker keeps for other things than records."""


async def fail_directory(on: Round) -> None:
    """EIO for every write in one log directory; sometimes its broker dies meanwhile. Someone has to bring it back."""
    broker, disk = _choose(on, last_only=True)
    on.say(f"EIO in {disk.name}")
    on.cluster.control(broker).write_errno = errno.EIO
    if on.random.random() < 0.3:
        await kill_for(on, [broker], 0, 2)
    await on.pause_for(3, SESSION_S + 4)
    on.cluster.control(broker).write_errno = 0


async def fill_directory(on: Round) -> None:
    """The file system of one log directory is full; sometimes its broker dies meanwhile."""
    broker, disk = _choose(on, last_only=False)
    leave = on.random.choice(_LEFT_BYTES)
    on.say(f"{disk.name} full but for {leave} bytes")
    await asyncio.to_thread(fill, disk, leave)
    if on.random.random() < 0.3:
        await kill_for(on, [broker], 0, 2)
    await on.pause_for(3, SESSION_S + 4)
    (disk / "filler").unlink(missing_ok=True)


def _choose(on: Round, *, last_only: bool) -> tuple[str, Path]:
    """A broker and a log directory of it that has a replica of the topic, if any has one."""
    disks = [
        (b, disk)
        for b in on.cluster.brokers
        for disk in (on.cluster.disks(b)[-1:] if last_only else on.cluster.disks(b))
    ]
    return on.random.choice([each for each in disks if any(each[1].glob(f"{on.topic}-*"))] or disks)


async def move_between_directories(on: Round) -> None:
    """Begin to move some replicas of a broker to another log directory of it, unless it does not answer now."""
    broker, source = _choose(on, last_only=False)
    target = on.random.choice([disk for disk in on.cluster.disks(broker) if disk != source])
    here = sorted(path.name for path in source.glob(f"{on.topic}-?"))
    chosen = on.random.sample(here, min(len(here), _MOVED_AT_MOST))
    wanted = {TopicPartition(on.topic, int(name.rpartition("-")[2])): str(target) for name in chosen}
    try:
        altered = await on.client.alter_replica_log_dirs(await on.client.registered_broker(_id(broker)), wanted)
        outcome = ", ".join(sorted({each.error_code.name for each in altered.values()}))
    except (ApiError, PeerUnreachableError) as error:
        outcome = str(error)
    on.say(f"{', '.join(chosen) or 'nothing'} to {target.name}: {outcome}")


async def move_between_brokers(on: Round) -> None:
    """Begin to move two partitions to any brokers."""
    await reassign(on, on.random.sample(range(PARTITIONS), 2))


async def bring_back(on: Round) -> bool:
    """Bring failed log directories back, as an operator does. Whether all are in service, and no replica moves."""
    is_quiet = not (await on.client.list_partition_reassignments()).topics
    for broker in on.cluster.brokers:
        described = await on.client.registered_broker(_id(broker))
        for log_dir in await on.client.describe_log_dirs(described):
            if log_dir.error_code is ErrorCode.KAFKA_STORAGE_ERROR:
                is_quiet = False
                returned = await on.client.online_log_dir(described, log_dir.log_dir)
                on.say(f"{Path(log_dir.log_dir).name} is back: {returned}")
            is_quiet = is_quiet and not any(r.is_future_key for topic in log_dir.topics for r in topic.partitions)
    return is_quiet


def _id(broker: str) -> int:
    return int(broker.partition("-")[2])
