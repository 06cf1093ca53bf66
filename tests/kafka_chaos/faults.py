"""Faults of a cluster of Kafka brokers under klamm: what is killed, stopped, paused, and taken away."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final

from cluster.errors import PeerUnreachableError
from cluster.local_cluster import BROKER, CONTROLLER, ZOOKEEPER
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_clients import View, view

SESSION_S: Final = 6
_POLL_S: Final = 0.1
Fault = Callable[["On"], Awaitable[None]]
FAULTS: Final[dict[str, Fault]] = {}


class On:
    """The cluster of a round, its dice, and what was chosen."""

    def __init__(self, cluster: LocalCluster, topic: str, random: Random) -> None:
        self.cluster, self.topic, self.random = cluster, topic, random
        self.choices: list[str] = []
        self.ports = {member.id: member.port for member in cluster.state.kafka_brokers}

    async def view(self) -> View:
        """As the first broker that answers sees it."""
        while True:
            for port in self.ports.values():
                try:
                    return await view(port, [self.topic])
                except PeerUnreachableError:
                    await asyncio.sleep(_POLL_S)

    async def leader(self) -> str:
        """Of a partition drawn by lot."""
        partitions = (await self.view()).partitions
        return f"{BROKER}-{self.random.choice(partitions).leader_id}"

    async def controller(self) -> str:
        identifier = (await self.view()).controller
        return f"{BROKER if identifier in self.ports else CONTROLLER}-{identifier}"

    def names(self, role: str) -> list[str]:
        return [member.name for member in self.cluster.members(role)]

    async def wait(self, shortest: float, longest: float) -> None:
        seconds = self.random.uniform(shortest, longest)
        self.choices.append(f"{seconds:.1f} s")
        await asyncio.sleep(seconds)

    async def kill(self, names: Sequence[str], longest: float = SESSION_S + 3) -> None:
        self.choices.append(f"kill -9 {', '.join(names)}")
        await asyncio.gather(*(asyncio.to_thread(self.cluster.kill, name) for name in names))
        await self.wait(0.2, longest)
        self.start(names)

    async def pause(self, names: Sequence[str], longest: float) -> None:
        self.choices.append(f"SIGSTOP {', '.join(names)}")
        for name in names:
            self.cluster.pause(name)
        await self.wait(0.5, longest)
        for name in names:
            self.cluster.resume(name)

    async def stop(self, names: Sequence[str], longest: float) -> None:
        self.choices.append(f"SIGTERM {', '.join(names)}")
        await asyncio.gather(*(asyncio.to_thread(self.cluster.stop, name) for name in names))
        await self.wait(0.2, longest)
        self.start(names)

    def start(self, names: Sequence[str]) -> None:
        for name in names:
            self.cluster.start(name)


def fault(name: str) -> Callable[[Fault], Fault]:
    def register(carry_out: Fault) -> Fault:
        FAULTS[name] = carry_out
        return carry_out

    return register


@fault("kill-leader")
async def kill_leader(on: On) -> None:
    await on.kill([await on.leader()])


@fault("kill-controller")
async def kill_controller(on: On) -> None:
    await on.kill([await on.controller()])


@fault("kill-leader-and-controller")
async def kill_leader_and_controller(on: On) -> None:
    await on.kill([await on.leader(), await on.controller()])


@fault("kill-two-brokers")
async def kill_two_brokers(on: On) -> None:
    """Below min.insync.replicas: nothing may be acknowledged that only one replica has."""
    await on.kill(on.random.sample(on.names(BROKER), 2))


@fault("kill-all-brokers")
async def kill_all_brokers(on: On) -> None:
    await on.kill(on.names(BROKER), longest=3)


@fault("kill-zookeeper")
async def kill_zookeeper(on: On) -> None:
    await on.kill([ZOOKEEPER], longest=12)


@fault("kill-zookeeper-and-controller")
async def kill_zookeeper_and_controller(on: On) -> None:
    await on.kill([ZOOKEEPER, await on.controller()])


@fault("kill-everything")
async def kill_everything(on: On) -> None:
    await on.kill([ZOOKEEPER, *on.names(CONTROLLER), *on.names(BROKER)], longest=3)


@fault("pause-leader")
async def pause_leader(on: On) -> None:
    await on.pause([await on.leader()], longest=3 * SESSION_S)


@fault("pause-controller")
async def pause_controller(on: On) -> None:
    await on.pause([await on.controller()], longest=3 * SESSION_S)


@fault("pause-leader-and-controller")
async def pause_leader_and_controller(on: On) -> None:
    await on.pause([await on.leader(), await on.controller()], longest=2 * SESSION_S)


@fault("pause-zookeeper")
async def pause_zookeeper(on: On) -> None:
    await on.pause([ZOOKEEPER], longest=2 * SESSION_S)


@fault("stop-broker")
async def stop_broker(on: On) -> None:
    await on.stop([await on.leader()], longest=3)


@fault("klamm-away")
async def klamm_away(on: On) -> None:
    """Controllers are stopped in order; a broker becomes the controller, until they are back."""
    await on.stop(on.names(CONTROLLER), longest=12)


@fault("klamm-killed")
async def klamm_killed(on: On) -> None:
    """A broker becomes the controller once klamm's session has ended."""
    await on.kill(on.names(CONTROLLER), longest=15)


@fault("klamm-away-and-leader")
async def klamm_away_and_leader(on: On) -> None:
    """A leader dies while a broker is the controller, and klamm comes back in the middle of it."""
    await on.stop(on.names(CONTROLLER), longest=4)
    await on.kill([await on.leader()])
