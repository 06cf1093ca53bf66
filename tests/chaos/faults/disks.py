"""Faults of disks, descriptors and clocks of running processes."""

import asyncio
import contextlib
import errno
import os
import resource
from pathlib import Path

from cluster.process.local_cluster import ZOOKEEPER
from tests.chaos.cluster import BROKERS, CONTROLLERS, SESSION_S
from tests.chaos.faults.processes import kill_for
from tests.chaos.faults.registry import Round, fault
from tests.chaos.isolation import Capability

_DAY_NS = 24 * 3600 * 1_000_000_000


def fill(disk: Path, leave: int) -> None:
    """Fill a file system that others write to, up to so many bytes."""
    with (disk / "filler").open("ab", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(1 << 20))
    with (disk / "filler").open("ab", buffering=0) as filler:
        with contextlib.suppress(OSError):
            while True:
                filler.write(bytes(4096))
        filler.truncate(filler.tell() - leave)


@fault("disk-full", Capability.MOUNTS)
async def disk_full(on: Round) -> None:
    """ENOSPC, of a leader and perhaps of a second broker, from one moment to the next or after a few appends."""
    leader, follower, *_ = await on.replicas(on.partition())
    brokers = [leader, follower] if on.random.random() < 0.3 else [leader]
    leave = on.random.choice([0, 4096, 65536])
    on.say(f"disks of {brokers} full but for {leave} bytes")
    for broker in brokers:
        fill(on.cluster.disk(broker), leave)
    await on.pause_for(3, SESSION_S + 4)
    for broker in brokers:
        (on.cluster.disk(broker) / "filler").unlink()


async def _fail_calls(on: Round, broker: str, field: str, number: int, lasts: tuple[float, float]) -> None:
    on.say(f"{field} = {errno.errorcode[number] if 'errno' in field else 'yes'} for {broker}")
    setattr(on.cluster.control(broker), field, number)
    await on.pause_for(*lasts)
    setattr(on.cluster.control(broker), field, 0)


@fault("write-error", Capability.SHIM)
async def write_error(on: Round) -> None:
    number = on.random.choice([errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT])
    await _fail_calls(on, await on.leader(on.partition()), "write_errno", number, (1, SESSION_S + 3))


@fault("write-error-of-follower", Capability.SHIM)
async def write_error_of_follower(on: Round) -> None:
    followers = await on.followers(on.partition())
    await _fail_calls(on, on.random.choice(followers), "write_errno", errno.EIO, (1, SESSION_S + 3))


@fault("read-error", Capability.SHIM)
async def read_error(on: Round) -> None:
    await _fail_calls(on, await on.leader(on.partition()), "read_errno", errno.EIO, (1, SESSION_S + 3))


@fault("fsync-error", Capability.SHIM)
async def fsync_error(on: Round) -> None:
    await _fail_calls(on, await on.leader(on.partition()), "sync_errno", errno.EIO, (1, SESSION_S + 3))


@fault("fsync-hangs", Capability.SHIM, mixes=True)
async def fsync_hangs(on: Round) -> None:
    await _fail_calls(on, await on.leader(on.partition()), "sync_hangs", 1, (3, SESSION_S + 6))


@fault("disk-hangs", Capability.SHIM, mixes=True)
async def disk_hangs(on: Round) -> None:
    """Reads and writes, too: the broker keeps its session and answers nothing that needs its disk."""
    await _fail_calls(on, await on.leader(on.partition()), "all_hangs", 1, (2, SESSION_S + 4))


@fault("fsync-hangs-of-controller", Capability.SHIM)
async def fsync_hangs_of_controller(on: Round) -> None:
    """The disk of its state-change log."""
    await _fail_calls(on, await on.controller(), "sync_hangs", 1, (3, SESSION_S + 3))


@fault("write-error-of-controller", Capability.SHIM)
async def write_error_of_controller(on: Round) -> None:
    """The disk of its state-change log is full while it elects leaders."""
    controller, leader = await on.controller(), await on.leader(on.partition())
    on.expected.unlogged.add(controller)
    await asyncio.gather(
        _fail_calls(on.part("disk"), controller, "write_errno", errno.ENOSPC, (SESSION_S + 2, SESSION_S + 4)),
        kill_for(on.part("kill"), [leader], 1, SESSION_S),
    )


@fault("fsync-hangs-of-zookeeper", Capability.SHIM)
async def fsync_hangs_of_zookeeper(on: Round) -> None:
    """No session is renewed and no write answered for as long."""
    await _fail_calls(on, ZOOKEEPER, "sync_hangs", 1, (3, SESSION_S + 4))


@fault("write-error-of-zookeeper", Capability.SHIM)
async def write_error_of_zookeeper(on: Round) -> None:
    number = on.random.choice([errno.EIO, errno.ENOSPC])
    await _fail_calls(on, ZOOKEEPER, "write_errno", number, (1, SESSION_S + 2))


@fault("descriptors")
async def descriptors(on: Round) -> None:
    """EMFILE: a broker that may open a few more files, and then none."""
    broker = await on.leader(on.partition())
    opened = len(os.listdir(f"/proc/{on.cluster.processes[broker].pid}/fd"))
    more = on.random.randrange(0, 4)
    on.say(f"{broker} has {opened} descriptors and may have {more} more")
    on.cluster.limit(broker, resource.RLIMIT_NOFILE, opened + more)
    await on.pause_for(4, SESSION_S + 4)
    on.cluster.limit(broker, resource.RLIMIT_NOFILE, None)


@fault("file-size")
async def file_size(on: Round) -> None:
    """EFBIG: a broker whose files may not grow beyond what a segment needs."""
    broker = await on.leader(on.partition())
    limit = on.random.randrange(4096, 40_000)
    on.say(f"files of {broker} end at {limit} bytes")
    on.cluster.limit(broker, resource.RLIMIT_FSIZE, limit)
    await on.pause_for(4, SESSION_S + 3)
    on.cluster.limit(broker, resource.RLIMIT_FSIZE, None)


@fault("clocks", Capability.SHIM, mixes=True)
async def clocks(on: Round) -> None:
    """Wall clocks of some processes jump, and jump back; one of the brokers dies in the other time."""
    names = on.random.sample([*BROKERS, *CONTROLLERS], 4)
    on.expected.wrong_clocks.update(names)
    for name in names:
        days = on.random.choice([-20_000.0, -1.0, -30 / 86_400, 1 / 24, 5.0, 400.0])
        on.say(f"clock of {name} {days:+.4f} days")
        on.cluster.control(name).clock_offset_ns = int(days * _DAY_NS)
    await on.pause_for(2, 5)
    victim = on.random.choice(names)
    on.say(f"kill -9 {victim}")
    await on.cluster.kill(victim)
    await asyncio.sleep(1)
    await on.cluster.start(victim)
    await on.pause_for(2, SESSION_S + 2)
    for name in names:
        on.cluster.control(name).clock_offset_ns = 0
