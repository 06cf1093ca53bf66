"""The processes of the benchmark on Kafka brokers: ZooKeeper, brokers, and klamm's controllers or none."""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.children import ProcessFailedError
from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from benchmarks.processes import ControllerProcess, failover_phases
from cluster.model.broker import BrokerId
from cluster.znodes.paths import CONTROLLER, broker_path
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from deploy.local.kafka_broker import KafkaBroker, prepare
from deploy.local.kafka_clients import DEADLINE_S, until_all_see
from deploy.local.kafka_jars import find_kafka_jars, protocol_of
from deploy.local.processes import choose_free_ports
from deploy.local.zookeeper import ServerSettings

BROKERS: Final = (1, 2, 3)
KLAMM: Final = (1001, 1002)
SESSION_MS: Final = 6000
POLL_S: Final = 0.02
# As Kafka's own scripts start a broker.
JVM_OPTIONS: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
SETTINGS: Final[dict[str, Any]] = {
    "auto.leader.rebalance.enable": False,
    "auto.create.topics.enable": False,
    "default.replication.factor": 3,
    "zookeeper.session.timeout.ms": SESSION_MS,
    # Kafka's own, in place of those for brokers that share a small machine.
    "num.network.threads": 3,
    "num.io.threads": 8,
    "background.threads": 10,
    "controlled.shutdown.retry.backoff.ms": 5000,
}


class KafkaStand:
    """Three brokers, under klamm's controllers or Kafka's own. Everything that it starts, it ends."""

    def __init__(self, folder: Path, version: str, heap_mb: int, *, klamm: bool, warm: bool = True) -> None:
        """`warm`: whether klamm's second controller follows the partitions, so that it need not read them."""
        self.folder, self.klamm, self._heap_mb, self.warm = folder, klamm, heap_mb, klamm and warm
        self._version, self._class_path = version, find_kafka_jars(version)
        ports = choose_free_ports(len(BROKERS) + len(KLAMM))
        self._ports = dict(zip((*BROKERS, *KLAMM), ports, strict=True))
        self._server = EmbeddedZooKeeper(folder / "zookeeper", settings=ServerSettings(heap_mb=2048, warms_up=True))
        self._java: dict[int, subprocess.Popen[bytes]] = {}
        self._controllers: dict[int, ControllerProcess] = {}

    async def start(self) -> None:
        """Start, and wait until all brokers see one another and there is a controller."""
        await asyncio.to_thread(self._server.start)
        self.zookeeper = KazooZooKeeper(self._server.address, session_timeout_ms=30_000, connection_timeout_ms=30_000)
        self.zookeeper.listen(lambda event: None)
        await self.zookeeper.start_session()
        for controller in KLAMM if self.klamm else ():
            self.start_controller(controller)
        if self.klamm:
            await self.until_elected(KLAMM)
        for broker in BROKERS:
            self.start_broker(broker)
        await self.until_brokers_see_all()

    def address(self, node: int) -> str:
        return f"127.0.0.1:{self._ports[node]}"

    def start_controller(self, controller: int) -> None:
        settings = {
            "klamm.broker.protocol": "kafka",
            "klamm.takeover": "atomic",
            "inter.broker.protocol.version": protocol_of(self._version),
            "klamm.kafka.listeners": f"PLAINTEXT://{self.address(controller)}",
            "zookeeper.session.timeout.ms": SESSION_MS,
            "klamm.standby.warm": self.warm,
            "auto.leader.rebalance.enable": False,
        }
        process = ControllerProcess(controller, self._server.address, self.folder, settings)
        process.start()
        self._controllers[controller] = process

    def start_broker(self, broker: int) -> None:
        """Start a broker on the data that it has."""
        folder = self.folder / f"broker-{broker}"
        it = KafkaBroker(
            id=broker,
            port=self._ports[broker],
            zookeeper=self._server.address,
            data=folder / "data",
            state_changes=folder,
            settings=SETTINGS,
            heap_mb=self._heap_mb,
            jvm_options=JVM_OPTIONS,
            state_change_level="INFO",
        )
        command = prepare(it, folder, self._class_path)
        # In a session of its own Linux would give each as much of the machine as the others: with that, the controller
        # among Kafka's brokers needs a third more time.
        with (folder / "server.log").open("ab") as log:
            self._java[broker] = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)

    async def controller(self) -> int | None:
        znode = await self.zookeeper.get(CONTROLLER)
        return None if znode is None else int(json.loads(znode.data)["brokerid"])

    async def until_elected(self, among: Sequence[int]) -> float:
        """ZooKeeper's time at which one of these became the controller, in s since the Unix epoch."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                znode = await self.zookeeper.get(CONTROLLER)
                if znode is not None and int(json.loads(znode.data)["brokerid"]) in among:
                    return znode.stat.ctime / 1000
                self._check()
                await asyncio.sleep(POLL_S)

    async def until_brokers_see_all(self) -> None:
        await until_all_see(map(self.address, BROKERS), [], lambda view: view.brokers >= set(BROKERS))

    async def until_warm(self, partitions: int) -> None:
        """Wait until klamm's standby knows so many partitions, if it follows them."""
        active = await self.controller()
        for controller, process in self._controllers.items() if self.warm else ():
            if controller != active:
                await process.until_warm(partitions, DEADLINE_S)

    async def until_gone(self, broker: int) -> float:
        """Wait for the time when its registration was found to be gone, in s since the Unix epoch."""
        path = broker_path(BrokerId(broker))
        async with asyncio.timeout(DEADLINE_S):
            while await self.zookeeper.exists(path) is not None:  # noqa: ASYNC110 (another process's)
                await asyncio.sleep(POLL_S)
        return time.time()

    async def shut_down(self, broker: int) -> float:
        """Controlled shutdown; when its process had ended."""
        self._java[broker].terminate()
        await asyncio.to_thread(self._java[broker].wait, DEADLINE_S)
        return time.time()

    def kill_broker(self, broker: int) -> None:
        self._java[broker].send_signal(signal.SIGKILL)
        self._java[broker].wait()

    def kill_controller(self, controller: int) -> None:
        """Kill a controller of klamm."""
        self._controllers.pop(controller).kill()

    async def sent_after_election(self, controller: int) -> float | None:
        """Find when the last request of a failover had been sent, in s after the election; None for Kafka's
        controllers.
        """
        if controller not in self._controllers:
            return None
        return failover_phases(await self._controllers[controller].metrics())["sent"] / 1000

    async def stop(self) -> None:
        for controller in self._controllers.values():
            controller.kill()
        for java in self._java.values():
            java.kill()
            java.wait()
        await self.zookeeper.close()
        await asyncio.to_thread(self._server.stop)

    def _check(self) -> None:
        for controller in self._controllers.values():
            controller.check_alive()
        for broker, java in self._java.items():
            if java.poll() not in {None, -signal.SIGKILL, 128 + signal.SIGTERM}:
                raise ProcessFailedError(f"broker {broker} ended with {java.returncode}; logs: {self.folder}")
