"""The demonstration on real Kafka brokers: the same failures under klamm's controllers and under Kafka's own.

Idempotent producers and a group work all the time while a leader's broker and the controller are killed, klamm is taken
away so that a broker becomes the controller, the same is killed again, and klamm is brought back.
"""

import asyncio
import time
from collections.abc import Collection
from functools import partial
from typing import Final

from msgspec import Struct, field

from cluster.model.errors import StartupError
from cluster.process.local_cluster import BROKER, CONTROLLER, client_tls_of
from cluster.tls.contexts import client_context
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_clients import View, create_topics, until_created, view
from launcher.demo.kafka_load import KafkaLoad, security_of
from launcher.demo.load import LoadOutcome
from launcher.demo.steps import PARTITIONS, REPLICAS, STEP_TIMEOUT_S, Demonstration, Say, timed, until

KLAMM: Final = "klamm"
KAFKA: Final = "Kafka"
LEADER_DIES: Final = "kill -9 of a leading broker: all partitions led again"
CONTROLLER_DIES: Final = "kill -9 of the controller: a topic can be created again"
_REST_S: Final = 3.0


class KafkaResult(Struct):
    """Result of the demonstration, times in s.

    `seconds`: by failure, then by who was the controller. `to_kafka`, `to_klamm`: until the other was the controller.
    """

    seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    to_kafka: float = -1.0
    to_klamm: float = -1.0
    outcome: LoadOutcome = LoadOutcome()


async def demonstrate(cluster: LocalCluster, say: Say) -> KafkaResult:
    """Run it on a cluster that serves. Raises ClusterError when something does not happen in time."""
    # Another topic each time, in a folder where demonstrations ran before.
    topic = f"demo-{round(time.time())}" if (cluster.folder / "data").exists() else "demo"
    demonstration = _Demonstration(cluster, topic, say)
    return await demonstration.run_steps(demonstration.run())


class _Demonstration(Demonstration):
    def __init__(self, cluster: LocalCluster, topic: str, say: Say) -> None:
        super().__init__(cluster, topic, say)
        self._listeners = {member.id: member.kafka_address for member in cluster.members(CONTROLLER)}
        shown = client_tls_of(cluster.folder, cluster.state)
        self._tls = None if shown is None else client_context(shown)
        self._load = KafkaLoad(list(self.brokers.values()), topic, PARTITIONS, security_of(self._tls))
        self._result = KafkaResult()

    async def view(self, broker: int) -> View:
        return await view(self.brokers[broker], [self.topic], self._tls)

    async def run(self) -> KafkaResult:
        say, load = self.say, self._load
        await until(partial(self._is_controlled_by, self._listeners))
        await self._create_topic()
        async with load.running():
            await until(self._is_acknowledging)
            say(f"two idempotent producers and a group of two work on topic {self.topic}; klamm is the controller")
            await self._fail_both(KLAMM)
            await self._take_klamm_away()
            await self._fail_both(KAFKA)
            await self._bring_klamm_back()
            say(f"{load.acknowledged:,} records acknowledged so far; reading all back")
            self._result.outcome = await load.finish(STEP_TIMEOUT_S)
        return self._result

    async def _create_topic(self) -> None:
        address = (self._listeners | self.brokers)[await self._controller()]
        codes = await create_topics(address, {self.topic: PARTITIONS}, REPLICAS, tls=self._tls)
        if codes != [0]:
            raise StartupError(f"topic {self.topic} was not created: error code {codes[0]}")
        await until(self.is_repaired)

    async def _fail_both(self, who: str) -> None:
        victim, seconds = await self.kill_leader(f"{who}: ")
        await self._repair(f"{BROKER}-{victim}", LEADER_DIES, who, seconds)
        name, seconds = await self._kill_controller(who)
        await self._repair(name, CONTROLLER_DIES, who, seconds)

    async def _kill_controller(self, who: str) -> tuple[str, float]:
        """Kill it; return its name, and how long nobody could create a topic, in s."""
        victim = await self._controller()
        self.say(f"{who}: kill -9 of controller {victim}")
        role, candidates = (CONTROLLER, self._listeners) if who == KLAMM else (BROKER, self.brokers)
        others = [address for node, address in candidates.items() if node != victim]
        created = until_created(others, f"probe-{who.lower()}-{victim}-{round(time.time())}", self._tls)
        name = f"{role}-{victim}"
        return name, (await timed(created, after=partial(self.cluster.kill, name)))[0]

    async def _repair(self, name: str, failure: str, who: str, seconds: float) -> None:
        """Keep how long a failure lasted, start the process again, and wait until all replicas are in sync."""
        self._result.seconds.setdefault(failure, {})[who] = round(seconds, 2)
        self.say(f"{who}: {failure} after {seconds:.1f} s (sessions last 6 s)")
        self.cluster.start(name)

        async def is_repaired() -> bool:
            self.cluster.restart_exited()
            return await self.is_repaired()

        await until(is_repaired)
        await asyncio.sleep(_REST_S)

    async def _take_klamm_away(self) -> None:
        self.say("klamm is taken away: both controllers are stopped, and a broker becomes the controller")

        async def stop() -> None:
            stopping = [asyncio.to_thread(self.cluster.stop, m.name) for m in self.cluster.members(CONTROLLER)]
            await asyncio.gather(*stopping)
            await until(partial(self._is_controlled_by, self.brokers))

        self._result.to_kafka, _ = await timed(stop())
        self.say(f"broker {await self._controller()} is the controller after {self._result.to_kafka:.1f} s")

    async def _bring_klamm_back(self) -> None:
        self.say("klamm is brought back: both controllers are started, and one of them takes over")

        def start() -> None:
            for member in self.cluster.members(CONTROLLER):
                self.cluster.start(member.name)

        taken_over = until(partial(self._is_controlled_by, self._listeners))
        self._result.to_klamm, _ = await timed(taken_over, after=start)
        self.say(f"controller {await self._controller()} is the controller after {self._result.to_klamm:.1f} s")

    async def _controller(self) -> int:
        return (await self.view(next(iter(self.brokers)))).controller

    async def _is_controlled_by(self, nodes: Collection[int]) -> bool:
        """Whether every broker knows that one of these is the controller."""
        return {(await self.view(broker)).controller for broker in self.brokers} <= set(nodes)

    async def _is_acknowledging(self) -> bool:
        return self._load.acknowledged > 0
