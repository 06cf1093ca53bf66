"""The demonstration on real Kafka brokers: the same failures under klamm's controllers and under Kafka's own.

Idempotent producers and a group work all the time while a leader's broker and the controller are killed, klamm is taken
away so that a broker becomes the controller, the same is killed again, and klamm is brought back.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from msgspec import Struct, field

from cluster.model.errors import PeerUnreachableError, StartupError
from cluster.process.local_cluster import BROKER, CONTROLLER
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_clients import View, create_topics, until_all_see, until_created, view
from launcher.kafka_load import Load, Outcome

PARTITIONS: Final = 6
REPLICAS: Final = 3
KLAMM: Final = "klamm"
KAFKA: Final = "Kafka"
LEADER_DIES: Final = "kill -9 of a leading broker: all partitions led again"
CONTROLLER_DIES: Final = "kill -9 of the controller: a topic can be created again"
_STEP_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.05
_REST_S: Final = 3.0

Say = Callable[[str], None]


class Report(Struct):
    """`seconds`: by failure, then by who was the controller. Of taking over: `to_kafka` and `to_klamm`."""

    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    to_kafka: float = -1.0
    to_klamm: float = -1.0
    outcome: Outcome | None = None

    @property
    def passed(self) -> bool:
        found = self.outcome
        return found is not None and found.acknowledged > 0 and not (found.lost or found.twice or found.unread)


async def demonstrate(cluster: LocalCluster, topic: str, say: Say) -> Report:
    """Run it on a cluster that serves. Raises StartupError when something does not happen in time."""
    try:
        return await _Demonstration(cluster, topic, say).run()
    except* TimeoutError:
        raise StartupError(
            f"a step of the demonstration took more than {_STEP_TIMEOUT_S:g} s; logs: {cluster.folder / 'logs'}"
        ) from None


class _Demonstration:
    def __init__(self, cluster: LocalCluster, topic: str, say: Say) -> None:
        self._cluster, self._topic, self._say = cluster, topic, say
        self._brokers = {member.id: member.address for member in cluster.state.kafka_brokers}
        self._listeners = {member.id: member.kafka_address for member in cluster.members(CONTROLLER)}
        self._report = Report()

    async def run(self) -> Report:
        say = self._say
        await self._until(lambda: self._is_controlled_by(self._listeners))
        await self._create_topic()
        load = Load([member.address for member in self._cluster.state.kafka_brokers], self._topic, PARTITIONS)
        async with load.running():
            await self._until(lambda: _is_at_least(load, 1))
            say(f"two idempotent producers and a group of two work on topic {self._topic}; klamm is the controller")
            await self._fail_both(KLAMM)
            await self._take_klamm_away()
            await self._fail_both(KAFKA)
            await self._bring_klamm_back()
            say(f"{load.acknowledged:,} records acknowledged so far; reading all back")
            self._report.outcome = await load.finish(_STEP_TIMEOUT_S)
        return self._report

    async def _create_topic(self) -> None:
        codes = await create_topics(await self._address_of_controller(), {self._topic: PARTITIONS}, REPLICAS)
        if codes != [0]:
            raise StartupError(f"topic {self._topic} was not created: error code {codes[0]}")
        await until_all_see(self._brokers.values(), [self._topic], _is_whole)

    async def _fail_both(self, who: str) -> None:
        await self._kill_leader(who)
        await self._kill_controller(who)

    async def _kill_leader(self, who: str) -> None:
        """Of a broker that leads and is not the controller."""
        seen = await self._view()
        victim = next(p.leader_id for p in seen.partitions if p.leader_id not in {seen.controller, -1})
        self._say(f"{who}: kill -9 of broker {victim}, which leads {seen.led_by(victim)} of {PARTITIONS} partitions")
        began = time.time()
        self._cluster.kill(f"{BROKER}-{victim}")
        moved = await until_all_see(self._others(victim), [self._topic], lambda now: _led_by_others(now, victim))
        self._found(LEADER_DIES, who, moved - began)
        await self._start(f"{BROKER}-{victim}")

    async def _kill_controller(self, who: str) -> None:
        victim = await self._controller()
        self._say(f"{who}: kill -9 of controller {victim}")
        candidates = self._listeners if who == KLAMM else self._brokers
        began = time.time()
        name = f"{CONTROLLER if who == KLAMM else BROKER}-{victim}"
        self._cluster.kill(name)
        others = [address for node, address in candidates.items() if node != victim]
        created = await until_created(others, f"probe-{who.lower()}-{victim}-{round(began)}")
        self._found(CONTROLLER_DIES, who, created - began)
        await self._start(name)

    async def _take_klamm_away(self) -> None:
        self._say("klamm is taken away: both controllers are stopped, and a broker becomes the controller")
        began = time.time()
        await asyncio.gather(*(asyncio.to_thread(self._cluster.stop, name) for name in self._names(CONTROLLER)))
        await self._until(lambda: self._is_controlled_by(self._brokers))
        self._report.to_kafka = time.time() - began
        self._say(f"broker {await self._controller()} is the controller after {self._report.to_kafka:.1f} s")

    async def _bring_klamm_back(self) -> None:
        self._say("klamm is brought back: both controllers are started, and one of them takes over")
        began = time.time()
        for name in self._names(CONTROLLER):
            self._cluster.start(name)
        await self._until(lambda: self._is_controlled_by(self._listeners))
        self._report.to_klamm = time.time() - began
        self._say(f"controller {await self._controller()} is the controller after {self._report.to_klamm:.1f} s")

    def _found(self, failure: str, who: str, seconds: float) -> None:
        self._report.seconds.setdefault(failure, {})[who] = round(seconds, 2)
        self._say(f"{who}: {failure} after {seconds:.1f} s (sessions last 6 s)")

    async def _start(self, name: str) -> None:
        """And wait until all replicas are in sync."""
        self._cluster.start(name)

        async def is_whole() -> bool:
            self._cluster.restart_exited()
            views = [await view(address, [self._topic]) for address in self._brokers.values()]
            return all(map(_is_whole, views)) and all(seen.brokers >= self._brokers.keys() for seen in views)

        await self._until(is_whole)
        await asyncio.sleep(_REST_S)

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Raises TimeoutError."""
        async with asyncio.timeout(_STEP_TIMEOUT_S):
            while True:
                try:
                    if await holds():
                        return
                except PeerUnreachableError:
                    pass
                await asyncio.sleep(_POLL_S)

    async def _view(self) -> View:
        return await view(next(iter(self._brokers.values())), [self._topic])

    async def _controller(self) -> int:
        return (await self._view()).controller

    async def _address_of_controller(self) -> str:
        return (self._listeners | self._brokers)[await self._controller()]

    async def _is_controlled_by(self, nodes: Iterable[int]) -> bool:
        """Whether every broker knows that one of these is the controller."""
        known = set(nodes)
        return {(await view(address, [])).controller for address in self._brokers.values()} <= known

    def _others(self, broker: int) -> list[str]:
        return [address for node, address in self._brokers.items() if node != broker]

    def _names(self, role: str) -> list[str]:
        return [member.name for member in self._cluster.members(role)]


async def _is_at_least(load: Load, acknowledged: int) -> bool:
    return load.acknowledged >= acknowledged


def _is_whole(seen: View) -> bool:
    return len(seen.partitions) == PARTITIONS and all(len(p.isr_nodes) == REPLICAS for p in seen.partitions)


def _led_by_others(seen: View, victim: int) -> bool:
    return len(seen.partitions) == PARTITIONS and all(p.leader_id not in {victim, -1} for p in seen.partitions)
