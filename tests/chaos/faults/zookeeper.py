"""Faults of ZooKeeper: killed, frozen, flapping, restored from an old backup."""

import asyncio
import itertools
import shutil
import subprocess
import sys
import time
from typing import Final

from cluster.process.local_cluster import ZOOKEEPER
from cluster.requests.topics import NewTopic
from tests.chaos.cluster import SESSION_S
from tests.chaos.faults.processes import kill_for, pause
from tests.chaos.faults.registry import Round, StuckError, fault

_RECOVERY_S: Final = 120


@fault("kill-zookeeper", mixes=True)
async def kill_zookeeper(on: Round) -> None:
    await kill_for(on, [ZOOKEEPER], 0.2, SESSION_S + 4)


@fault("kill-zookeeper-and-leader")
async def kill_zookeeper_and_leader(on: Round) -> None:
    """Nobody can notice the leader's death until ZooKeeper is back."""
    leader = await on.leader(on.partition())
    await on.cluster.kill(ZOOKEEPER)
    on.say("ZooKeeper killed")
    await on.pause_for(0, SESSION_S + 2)
    await kill_for(on, [leader], 0, 4)
    await on.cluster.start_all()


@fault("pause-zookeeper", mixes=True)
async def pause_zookeeper(on: Round) -> None:
    await pause(on, [ZOOKEEPER], 2, SESSION_S + 4)


@fault("flapping-zookeeper")
async def flapping_zookeeper(on: Round) -> None:
    for _ in range(on.random.randrange(2, 5)):
        await kill_for(on, [ZOOKEEPER], 0, 3)
        await on.pause_for(0, 3)


@fault("zookeeper-restored", has_own_cluster=True)
async def zookeeper_restored(on: Round) -> None:
    """A backup one or two elections old, sometimes older than a topic; then the command of the runbook."""
    data, backup = on.cluster.disk(ZOOKEEPER) / "version-2", on.cluster.folder / "data" / "backup"
    shutil.rmtree(backup, ignore_errors=True)
    await on.cluster.kill(ZOOKEEPER)
    shutil.copytree(data, backup)
    await on.cluster.start_all()
    await on.until_acknowledged(30)
    for _ in range(on.random.randrange(1, 3)):
        await kill_for(on, [await on.leader(on.partition())], SESSION_S + 1, SESSION_S + 2)
        await on.until_acknowledged(30)
    if on.random.random() < 0.5:
        on.say("a topic younger than the backup")
        await on.client.create_topics([NewTopic(f"{on.topic}-young", 1, 3)])
    await on.cluster.kill(ZOOKEEPER)
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    on.say("ZooKeeper restored")
    on.expected.was_restored = True
    await on.cluster.start_all()
    await asyncio.sleep(SESSION_S)
    await recover(on)


async def recover(on: Round) -> None:
    """`klamm cluster recover --execute`, until it succeeds: brokers whose sessions ended must come back first."""
    command = [sys.executable, "-P", "-m", "klamm", "cluster", "recover", "--execute", "--yes"]
    command += ["--bootstrap", ",".join(on.cluster.bootstrap)]
    deadline = time.monotonic() + _RECOVERY_S
    for tried in itertools.count(1):
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            on.say(f"recovered at attempt {tried}")
            return
        why = f"recover: exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}"
        if time.monotonic() > deadline:
            raise StuckError(why)
        on.say(why)
        await asyncio.sleep(2)
