"""Brokers of Apache Kafka in ZooKeeper mode under their own controller, and candidates of klamm beside them."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.local.kafka_broker import STARTED, KafkaBroker, prepare
from deploy.local.kafka_jars import NEWEST, protocol_of
from deploy.local.processes import choose_free_ports
from tests.kafka.broker import kafka_class_path
from tests.kafka.tools import tool_command
from tests.processes.local_clusters import eventually


class KafkaCluster:
    """`brokers`: id -> address; `controllers`: id -> address of the Kafka listener; `grpc`: for klamm's commands.

    `host`: of all Kafka listeners.
    """

    host = "127.0.0.1"

    def __init__(self, folder: Path, zookeeper: str, version: str = NEWEST) -> None:
        self.zookeeper, self.version = zookeeper, version
        self.brokers: dict[int, str] = {}
        self.controllers: dict[int, str] = {}
        self.grpc: dict[int, str] = {}
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start_brokers(self, count: int, settings: Mapping[str, Any] = {}, security: str = "PLAINTEXT") -> None:
        """`security`: the protocol of their listener. Returns when all of them serve."""
        for id_, port in enumerate(choose_free_ports(count), start=1):
            self.brokers[id_] = f"{self.host}:{port}"
            self.start_broker(id_, settings, security)
        for id_ in self.brokers:
            eventually(lambda id_=id_: STARTED in self.log(f"kafka-{id_}"), f"broker {id_} serves")

    def start_broker(self, id_: int, settings: Mapping[str, Any], security: str = "PLAINTEXT") -> None:
        """For the first time, or again, on the data that it has."""
        folder, address = self._folder / f"kafka-{id_}", self.brokers[id_]
        of_it = {
            key: value.replace("{}", address) if isinstance(value, str) else value for key, value in settings.items()
        }
        of_it = {"listeners": f"{security}://{address}", **of_it}
        port = int(address.rpartition(":")[2])
        broker = KafkaBroker(id_, port, self.zookeeper, folder / "data", folder / "logs", of_it, heap_mb=256)
        self.start(f"kafka-{id_}", prepare(broker, folder / "config", kafka_class_path(self.version)))

    def start_candidate(self, id_: int, security: str = "PLAINTEXT", **settings: object) -> None:
        """A controller of klamm for these brokers; it takes `/controller` only when the cluster is adopted.

        `security`: the protocol of its Kafka listener.
        """
        listen, control, kafka = choose_free_ports(3)
        self.controllers[id_], self.grpc[id_] = f"{self.host}:{kafka}", f"127.0.0.1:{listen}"
        given = {
            "klamm.broker.protocol": "kafka",
            "inter.broker.protocol.version": protocol_of(self.version),
            "klamm.kafka.listeners": f"{security}://{self.host}:{kafka}",
            **settings,
        }
        fields = {
            "id": id_,
            "zookeeper": self.zookeeper,
            "listen": f"127.0.0.1:{listen}",
            "control_listen": f"127.0.0.1:{control}",
            "data": str(self._folder / f"controller-{id_}"),
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
        lines += ["[settings]", *(f'"{key}" = {json.dumps(value)}' for key, value in given.items())]
        path = self._folder / f"controller-{id_}.toml"
        path.write_text("\n".join(lines))
        self.start(f"controller-{id_}", [sys.executable, "-m", "controller", "--config", str(path)])

    def start_tool(self, name: str, tool: str, arguments: Sequence[str]) -> None:
        """One of Kafka's own programs; what it prints is its log."""
        self.start(name, tool_command(self.version, tool, arguments, self._folder))

    def is_running(self, name: str) -> bool:
        return self._processes[name].poll() is None

    def log(self, name: str) -> str:
        return self._log(name).read_text()

    def stop(self, name: str) -> None:
        """As by SIGTERM; `name`: such as `controller-901`."""
        process = self._processes.pop(name)
        process.terminate()
        process.wait(60)

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def end(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def start(self, name: str, command: list[str]) -> None:
        """A process of this cluster; what it prints is its log."""
        with self._log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


@contextmanager
def kafka_cluster(folder: Path, zookeeper: str, brokers: int, version: str = NEWEST) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(folder, zookeeper, version)
    try:
        cluster.start_brokers(brokers)
        yield cluster
    finally:
        cluster.end()
