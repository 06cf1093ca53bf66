"""A cluster of real Kafka brokers that a scenario can be replayed on, under klamm's controllers or Kafka's own.

Kafka's own controllers are two brokers that get no replicas, as in the recordings. Every Kafka broker is a candidate
for /controller, so whenever that becomes vacant the data brokers are stopped for the moment of the election: a
controller of this cluster takes it, and the controller epoch goes up by exactly one.
"""

import asyncio
import pathlib
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from msgspec import Struct

from cluster.kafka_wire.messages.data import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from cluster.model.errors import PeerUnreachableError
from cluster.zookeeper.port import ZooKeeper
from deploy.local.kafka_broker import STARTED, KafkaBroker, prepare
from deploy.local.kafka_clients import connect
from deploy.local.kafka_jars import protocol_of
from simulator.record_batches import encode_client_batch
from tests.kafka.broker import kafka_class_path
from tests.recorded.real_cluster import CONTROLLERS, RealCluster, session, until
from tests.recorded.scenario import Scenario
from tests.recorded.snapshot import active_controller, leader_of

PRODUCE_S: Final = 12.0
ATTEMPT_S: Final = 3.0
AGAIN_S: Final = 0.2
PRODUCE: Final = 7
"""The version of the requests: brokers from 2.4 to 3.9 answer it."""
QUIET: Final[Mapping[str, Any]] = {
    "log.retention.ms": -1,
    "log.cleaner.enable": False,
    "offsets.topic.num.partitions": 1,
    # Ids of klamm's controllers are above those that Kafka gives to brokers by itself.
    "reserved.broker.max.id": 9999,
}
OF_CONTROLLERS: Final[Mapping[str, Any]] = {"klamm.broker.protocol": "kafka", "klamm.takeover": "atomic"}
_BEFORE_3: Final = {"klamm.kafka.register.as.broker": True}


class KafkaVersion(Struct, frozen=True):
    """What the brokers run; `protocol`: inter.broker.protocol.version, where it is not that of the jars."""

    jars: str
    protocol: str = ""

    def __str__(self) -> str:
        return f"{self.jars}-protocol-{self.protocol}" if self.protocol else self.jars

    @property
    def settings(self) -> dict[str, Any]:
        return {"inter.broker.protocol.version": self.protocol} if self.protocol else {}


@asynccontextmanager
async def kafka_cluster(
    scenario: Scenario, zookeeper: str, directory: pathlib.Path, version: KafkaVersion, *, klamm: bool
) -> AsyncIterator["KafkaCluster"]:
    """Both controllers run and one is active; `zookeeper` is `host:port/chroot`, empty. Ends what it started."""
    async with session(zookeeper) as client:
        controlled_by = KafkaCluster if klamm else KafkaControlledCluster
        cluster = controlled_by(scenario.settings, zookeeper, client, directory, version)
        async with cluster.running():
            yield cluster


class KafkaCluster(RealCluster):
    """Brokers of Kafka's under controllers of klamm's."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        zookeeper: str,
        client: ZooKeeper,
        directory: pathlib.Path,
        version: KafkaVersion,
    ) -> None:
        super().__init__(settings, zookeeper, client, directory)
        self._version, self._class_path = version, kafka_class_path(version.jars)
        self._started_from: dict[int, int] = {}

    def settings_of(self, node: int) -> dict[str, Any]:
        settings = super().settings_of(node)
        if node not in CONTROLLERS:
            return {**QUIET, **settings, **self._version.settings}
        before_3 = _BEFORE_3 if int(self._version.jars.partition(".")[0]) < 3 else {}
        listeners = {"klamm.kafka.listeners": f"PLAINTEXT://127.0.0.1:{self.kafka_port(node)}"}
        protocol = self._version.protocol or protocol_of(self._version.jars)
        return {**settings, **OF_CONTROLLERS, **listeners, **before_3, "inter.broker.protocol.version": protocol}

    def kafka_port(self, controller: int) -> int:
        """Where a controller answers Kafka's requests; its other port is for klamm's."""
        return self.port(-controller)

    def command(self, node: int) -> list[str]:
        return super().command(node) if node in CONTROLLERS else self.kafka_command(node)

    def kafka_command(self, node: int) -> list[str]:
        broker = KafkaBroker(
            id=node,
            port=self.port(node),
            zookeeper=self._connect,
            data=self._data(node),
            state_changes=self._directory / "state-changes" / str(node),
            settings=self.settings_of(node),
            rack=self._racks.get(node) or "",
        )
        return prepare(broker, self._directory / "config", self._class_path)

    def start(self, node: int) -> None:
        log = self.log(node)
        self._started_from[node] = log.stat().st_size if log.exists() else 0
        super().start(node)

    def _serves(self, node: int) -> bool:
        with self.log(node).open("rb") as log:
            log.seek(self._started_from[node])
            return STARTED.encode() in log.read()

    async def start_brokers(self, racks: Mapping[int, str | None]) -> None:
        await super().start_brokers(racks)

        async def all_serve() -> bool:
            await self.restart_exited()
            return all(map(self._serves, racks))

        await until(all_serve)

    @asynccontextmanager
    async def election(self) -> AsyncIterator[None]:
        stopped = [node for node in self._processes.keys() - self._paused - CONTROLLERS if self.is_running(node)]
        for broker in stopped:
            self._signal(broker, signal.SIGSTOP)
        try:
            async with super().election():
                yield
            assert await active_controller(self._client) in CONTROLLERS
        finally:
            for broker in stopped:
                self._signal(broker, signal.SIGCONT)

    async def produce(self, topic: str, partition: int, count: int, acks: str) -> int:
        """To the leader that ZooKeeper names, one record after another, each until it is acknowledged."""
        acknowledged = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(PRODUCE_S):
                while acknowledged < count:
                    acknowledged += await self._produce_one(topic, partition, b"record %d" % acknowledged, acks)
        return acknowledged

    async def _produce_one(self, topic: str, partition: int, value: bytes, acks: str) -> bool:
        leader = await leader_of(self._client, topic, partition)
        if leader is not None and leader not in self._paused and self.is_running(leader):
            record = PartitionProduceData(index=partition, records=encode_client_batch(value, timestamp=0))
            request = ProduceRequest(
                acks=-1 if acks == "all" else int(acks),
                timeout_ms=round(ATTEMPT_S * 1000),
                topic_data=(TopicProduceData(name=topic, partition_data=(record,)),),
            )
            with suppress(PeerUnreachableError):
                connection = await connect(f"127.0.0.1:{self.port(leader)}", timeout_s=ATTEMPT_S)
                try:
                    answer = await connection.call(request, PRODUCE, ProduceResponse, timeout_s=2 * ATTEMPT_S)
                finally:
                    connection.close()
                if answer.responses[0].partition_responses[0].error_code == 0:
                    return True
        await asyncio.sleep(AGAIN_S)
        return False


class KafkaControlledCluster(KafkaCluster):
    """Brokers of Kafka's, two of which are its controllers."""

    def registration(self, controller: int) -> str:
        return f"/brokers/ids/{controller}"

    def settings_of(self, node: int) -> dict[str, Any]:
        return {**QUIET, **RealCluster.settings_of(self, node), **self._version.settings}

    def command(self, node: int) -> list[str]:
        return self.kafka_command(node)
