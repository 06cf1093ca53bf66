"""Faults of a cluster of Kafka brokers under klamm: what is killed, stopped, paused, cut off, and taken away."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Final

from cluster.model.errors import PeerUnreachableError
from cluster.process.local_cluster import BROKER, CONTROLLER, ZOOKEEPER
from deploy.local.kafka_clients import View, view
from tests.chaos.network import CUT, both_ways, one_way
from tests.chaos.switch import CLIENTS, Link
from tests.kafka_chaos.cluster import HOSTS, KafkaChaosCluster
from tests.processes.commands import run_klamm

SESSION_S: Final = 6
TAKEOVERS: Final = 20
_LONG_S: Final = 3 * SESSION_S
_POLL_S: Final = 0.1
Fault = Callable[["On"], Awaitable[None]]
FAULTS: Final[dict[str, Fault]] = {}
CUTTING: Final[set[str]] = set()
"""Those that need a network between the processes."""


class On:
    """The cluster of a round, its dice, and what was chosen."""

    def __init__(self, cluster: KafkaChaosCluster, topic: str, random: Random) -> None:
        self.cluster, self.topic, self.random = cluster, topic, random
        self.choices: list[str] = []
        self.brokers = {member.id: member.address for member in cluster.state.kafka_brokers}
        self.tls = cluster.tls

    async def view(self) -> View:
        """As the first broker that answers sees it."""
        while True:
            for address in self.brokers.values():
                try:
                    return await view(address, [self.topic], self.tls)
                except PeerUnreachableError:
                    await asyncio.sleep(_POLL_S)

    async def leader(self) -> str:
        """Of a partition drawn by lot."""
        partitions = (await self.view()).partitions
        return f"{BROKER}-{self.random.choice(partitions).leader_id}"

    async def controller(self) -> str:
        identifier = (await self.view()).controller
        return f"{BROKER if identifier in self.brokers else CONTROLLER}-{identifier}"

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

    @contextmanager
    def failing(self, links: Iterable[tuple[str, str]], link: Link = CUT) -> Iterator[None]:
        """Within it these one-way links fail."""
        network, failing = self.cluster.network, list(links)
        assert network is not None, "the fault is registered with `cuts`"
        network.set(failing, link)
        try:
            yield
        finally:
            network.restore(failing)

    async def fail(self, what: str, links: Iterable[tuple[str, str]], link: Link = CUT) -> None:
        self.choices.append(what)
        with self.failing(links, link):
            await self.wait(1, _LONG_S)

    async def klamm(self, *arguments: str) -> int:
        """Run a command of klamm's against its controllers; its exit code."""
        bootstrap = ",".join(member.address for member in self.cluster.members(CONTROLLER))
        options = ["--bootstrap", bootstrap, *self.cluster.options_of_operator(of_brokers=False)]
        return (await asyncio.to_thread(run_klamm, *arguments, *options)).returncode

    def start(self, names: Sequence[str]) -> None:
        for name in names:
            self.cluster.start(name)


def fault(name: str, *, cuts: bool = False) -> Callable[[Fault], Fault]:
    """`cuts`: it needs a network between the processes."""

    def register(carry_out: Fault) -> Fault:
        FAULTS[name] = carry_out
        if cuts:
            CUTTING.add(name)
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


@fault("leave-and-adopt")
async def leave_and_adopt(on: On) -> None:
    """`klamm leave` and `klamm adopt`, again and again: each time a broker rules, and then klamm."""
    on.choices.append(f"{TAKEOVERS} times")
    for _ in range(TAKEOVERS):
        await on.cluster.leave()
        await on.wait(0, 1)
        await on.cluster.adopt()
        await on.wait(0, 1)


@fault("cut-leader", cuts=True)
async def cut_leader(on: On) -> None:
    """A leader that only its clients reach may acknowledge nothing."""
    leader = await on.leader()
    await on.fail(f"only clients reach {leader}", both_ways([leader], HOSTS))


@fault("cut-leader-from-brokers", cuts=True)
async def cut_leader_from_brokers(on: On) -> None:
    leader = await on.leader()
    await on.fail(f"{leader} cut from the brokers", both_ways([leader], on.names(BROKER)))


@fault("cut-leader-from-zookeeper", cuts=True)
async def cut_leader_from_zookeeper(on: On) -> None:
    leader = await on.leader()
    await on.fail(f"{leader} cut from ZooKeeper", both_ways([leader], [ZOOKEEPER]))


@fault("cut-leader-from-controllers", cuts=True)
async def cut_leader_from_controllers(on: On) -> None:
    leader = await on.leader()
    await on.fail(f"{leader} cut from klamm", both_ways([leader], on.names(CONTROLLER)))


@fault("one-way-leader", cuts=True)
async def one_way_leader(on: On) -> None:
    """One direction between the leader and ZooKeeper, klamm, the other brokers or the clients."""
    leader = await on.leader()
    await _one_way(on, leader, [[ZOOKEEPER], on.names(CONTROLLER), on.names(BROKER), [CLIENTS]])


@fault("cut-controller-from-zookeeper", cuts=True)
async def cut_controller_from_zookeeper(on: On) -> None:
    """The controller that was active must stop before its successor begins; a leader dies meanwhile."""
    await _cut_controller(on, [ZOOKEEPER], SESSION_S)


@fault("cut-controller-from-brokers", cuts=True)
async def cut_controller_from_brokers(on: On) -> None:
    """It keeps its session, and nobody hears it. A leader dies meanwhile."""
    await _cut_controller(on, on.names(BROKER), 2)


@fault("one-way-controller", cuts=True)
async def one_way_controller(on: On) -> None:
    await _one_way(on, await on.controller(), [[ZOOKEEPER], on.names(BROKER)])


@fault("cut-klamm-from-zookeeper", cuts=True)
async def cut_klamm_from_zookeeper(on: On) -> None:
    """A broker becomes the controller, while both of klamm's still reach every broker."""
    await on.fail("klamm cut from ZooKeeper", both_ways(on.names(CONTROLLER), [ZOOKEEPER]))


@fault("halves", cuts=True)
async def halves(on: On) -> None:
    """A controller and a broker on one side; ZooKeeper on either, or seen by both."""
    left = [on.random.choice(on.names(CONTROLLER)), on.random.choice(on.names(BROKER))]
    right = [name for name in (*on.names(CONTROLLER), *on.names(BROKER)) if name not in left]
    where = on.random.choice(["left", "right", "both"])
    on.choices.append(f"ZooKeeper: {where}")
    {"left": left, "right": right, "both": []}[where].append(ZOOKEEPER)
    await on.fail(f"{left} cut from {right}", both_ways(left, right))


@fault("loss", cuts=True)
async def loss(on: On) -> None:
    drop = on.random.uniform(0.05, 0.2)
    hosts = (*HOSTS, CLIENTS)
    await on.fail(f"{drop:.0%} of all packets lost", one_way(hosts, hosts), Link(drop=drop))


@fault("resets", cuts=True)
async def resets(on: On) -> None:
    hosts = (*HOSTS, CLIENTS)
    await on.fail("connections reset", one_way(hosts, hosts), Link(reset=0.01))


async def _cut_controller(on: On, others: Sequence[str], longest: float) -> None:
    """A leader dies up to so many seconds later."""
    controller, leader = await on.controller(), await on.leader()
    on.choices.append(f"{controller} cut from {others}")
    with on.failing(both_ways([controller], others)):
        await on.wait(0, longest)
        await on.kill([leader])


async def _one_way(on: On, name: str, choices: Sequence[Sequence[str]]) -> None:
    others = on.random.choice(choices)
    if on.random.random() < 0.5:
        await on.fail(f"nothing passes from {name} to {others}", one_way([name], others))
    else:
        await on.fail(f"nothing passes from {others} to {name}", one_way(others, [name]))
