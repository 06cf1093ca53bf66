"""Faults of processes: killed, stopped for a while, restarted."""

import asyncio
import time

from tests.chaos.cluster import CONTROLLERS, SESSION_S, ZOOKEEPER
from tests.chaos.faults.registry import Round, fault


async def kill_for(on: Round, names: list[str], shortest: float = 0.2, longest: float = SESSION_S + 3) -> None:
    """Kill processes at once, and start them again, in any order, after a while."""
    on.say(f"kill -9 {', '.join(names)}")
    await asyncio.gather(*(on.cluster.kill(name) for name in names))
    await on.pause_for(shortest, longest)
    for name in on.random.sample(names, len(names)):
        await on.cluster.start(name)


async def pause(on: Round, names: list[str], shortest: float, longest: float) -> None:
    on.say(f"SIGSTOP {', '.join(names)}")
    for name in names:
        on.cluster.pause(name)
    await on.pause_for(shortest, longest)
    for name in names:
        on.cluster.resume(name)


@fault("kill-leader", mixes=True)
async def kill_leader(on: Round) -> None:
    await kill_for(on, [await on.leader(on.partition())])


@fault("kill-controller", mixes=True)
async def kill_controller(on: Round) -> None:
    await kill_for(on, [await on.controller()])


@fault("kill-leader-and-controller", mixes=True)
async def kill_leader_and_controller(on: Round) -> None:
    await kill_for(on, [await on.leader(on.partition()), await on.controller()])


@fault("kill-two-replicas")
async def kill_two_replicas(on: Round) -> None:
    """Below min.insync.replicas: nothing may be acknowledged that only one replica has."""
    await kill_for(on, on.random.sample(await on.replicas(on.partition()), 2))


@fault("kill-replicas-in-turn")
async def kill_replicas_in_turn(on: Round) -> None:
    """The last one killed is the only one with the newest records; it comes back last."""
    names = await on.replicas(on.partition())
    on.say(f"kill -9 in turn {', '.join(names)}")
    for name in names:
        await on.cluster.kill(name)
        await on.pause_for(0, 3)
    for name in on.random.sample(names, len(names)):
        await on.cluster.start(name)
        await on.pause_for(0, 2)


@fault("kill-all-brokers")
async def kill_all_brokers(on: Round) -> None:
    await kill_for(on, list(on.cluster.brokers))


@fault("kill-everything")
async def kill_everything(on: Round) -> None:
    on.say("kill -9 everything, ZooKeeper too")
    await asyncio.gather(*(on.cluster.kill(name) for name in (*on.cluster.brokers, *CONTROLLERS, ZOOKEEPER)))
    await on.pause_for(0, 3)
    await on.cluster.start_all()


@fault("kill-during-roll", mixes=True)
async def kill_during_roll(on: Round) -> None:
    """Kill the leader the moment one of its partitions has a new segment."""
    partition = on.partition()
    leader = await on.leader(partition)
    directory = on.cluster.disk(leader) / f"{on.topic}-{partition}"
    before = set(directory.glob("*.log"))
    deadline = time.monotonic() + 30
    while set(directory.glob("*.log")) <= before and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.002)
    await kill_for(on, [leader])


@fault("kill-repeatedly")
async def kill_repeatedly(on: Round) -> None:
    """One broker dies again and again before or while it registers, leads and recovers."""
    broker = await on.leader(on.partition())
    for _ in range(on.random.randrange(3, 6)):
        await kill_for(on, [broker], 0, 0.5)
        await on.pause_for(0.3, 4)


@fault("rolling-restart")
async def rolling_restart(on: Round) -> None:
    """Processes in turn, gracefully, as for an upgrade, each once the replicas of the one before are in sync again."""
    names = [*on.random.sample(on.cluster.brokers, 2), *on.random.sample(CONTROLLERS, 2)]
    for name in names:
        on.say(f"SIGTERM {name}")
        await on.cluster.stop(name)
        await on.cluster.start(name)
        await on.until_in_sync()


@fault("kill-while-stopping", mixes=True)
async def kill_while_stopping(on: Round) -> None:
    """A supervisor that waits for a stop, and not long enough."""
    broker = await on.leader(on.partition())
    on.say(f"SIGTERM {broker}")
    stopping = asyncio.create_task(on.cluster.stop(broker))
    await on.pause_for(0, 1.5)
    await kill_for(on, [broker])
    await stopping


@fault("pause-leader-short", mixes=True)
async def pause_leader_short(on: Round) -> None:
    await pause(on, [await on.leader(on.partition())], 1, SESSION_S - 2)


@fault("pause-leader-long", mixes=True)
async def pause_leader_long(on: Round) -> None:
    """Beyond its session: when it wakes up, another leads."""
    await pause(on, [await on.leader(on.partition())], SESSION_S + 2, SESSION_S + 6)


@fault("pause-two-brokers")
async def pause_two_brokers(on: Round) -> None:
    await pause(on, on.random.sample(on.cluster.brokers, 2), 2, SESSION_S + 4)


@fault("pause-everything")
async def pause_everything(on: Round) -> None:
    """The machine stands still, for longer than any session, and wakes up one by one."""
    names = on.random.sample([*on.cluster.brokers, *CONTROLLERS, ZOOKEEPER], 8)
    on.say(f"SIGSTOP everything, SIGCONT in turn {', '.join(names)}")
    for name in names:
        on.cluster.pause(name)
    await on.pause_for(SESSION_S + 2, SESSION_S + 6)
    for name in names:
        on.cluster.resume(name)
        await on.pause_for(0, 1)


@fault("pause-leader-kill-follower")
async def pause_leader_kill_follower(on: Round) -> None:
    leader, *followers = await on.replicas(on.partition())
    await asyncio.gather(pause(on, [leader], SESSION_S + 1, SESSION_S + 4), kill_for(on, [on.random.choice(followers)]))


@fault("pause-controller-short", mixes=True)
async def pause_controller_short(on: Round) -> None:
    await pause(on, [await on.controller()], 1, SESSION_S - 2)


@fault("pause-controller-long", mixes=True)
async def pause_controller_long(on: Round) -> None:
    """Beyond its session: when it wakes up, it must find out that it is no longer active."""
    await pause(on, [await on.controller()], SESSION_S + 2, SESSION_S + 6)


@fault("pause-controller-kill-leader")
async def pause_controller_kill_leader(on: Round) -> None:
    controller, leader = await on.controller(), await on.leader(on.partition())
    await asyncio.gather(
        pause(on.part("pause"), [controller], SESSION_S + 1, SESSION_S + 4), kill_for(on.part("kill"), [leader])
    )


@fault("pause-repeatedly", mixes=True)
async def pause_repeatedly(on: Round) -> None:
    """A broker that runs for moments only."""
    broker = await on.leader(on.partition())
    for _ in range(8):
        await pause(on, [broker], 0.3, 2)
        await on.pause_for(0.05, 0.5)
