"""The log cleaner of a real broker of Apache Kafka, on segments that were made for it."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.children import ProcessFailedError
from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from benchmarks.kafka_stand import JVM_OPTIONS
from broker_agent.log.checkpoints import CLEANER_OFFSETS, decode_offsets
from cluster.model.partition import TopicPartition
from cluster.znodes.configs import CONFIG_CHANGE_PREFIX, ConfigEntity, encode_config, encode_config_change
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.port import Create, SetData
from deploy.local.kafka_broker import KafkaBroker, prepare
from deploy.local.kafka_clients import DEADLINE_S, create_topics, until_all_see
from deploy.local.kafka_jars import find_kafka_jars
from deploy.local.processes import choose_free_ports

_HEAP_MB: Final = 1024
"""As Kafka's own scripts start a broker."""
_POLL_S: Final = 0.02
_SETTINGS: Final = {
    "log.cleaner.dedupe.buffer.size": 128 << 20,
    "log.cleaner.backoff.ms": 100,
    "auto.create.topics.enable": False,
}
_BROKER: Final = 1


class CleaningBroker:
    """A broker with one topic of one partition, whose data are in `folder`/data."""

    def __init__(self, folder: Path, version: str, tp: TopicPartition, segment_bytes: int) -> None:
        [self._port] = choose_free_ports(1)
        self._address, self._data = f"127.0.0.1:{self._port}", folder / "data"
        self._server = EmbeddedZooKeeper(folder / "zookeeper")
        self._folder, self._class_path = folder, find_kafka_jars(version)
        self._tp, self._segment_bytes = tp, segment_bytes
        self._java: subprocess.Popen[bytes] | None = None

    async def clean(self, whole: Path, active: int) -> dict[str, float]:
        """Let it clean a copy of the segments in `whole`, up to the offset `active`; returns the measures, memory in
        MB.
        """
        await asyncio.to_thread(self._server.start)
        zookeeper = KazooZooKeeper(self._server.address, session_timeout_ms=30_000, connection_timeout_ms=30_000)
        zookeeper.listen(lambda event: None)
        await zookeeper.start_session()
        try:
            await self._prepare(zookeeper, whole)
            return await self._measure(zookeeper, active)
        finally:
            if self._java is not None:
                self._java.kill()
                self._java.wait()
            await zookeeper.close()
            await asyncio.to_thread(self._server.stop)

    async def _prepare(self, zookeeper: KazooZooKeeper, whole: Path) -> None:
        """Create the topic, and give it the segments while the broker is down."""
        java = self._start()
        await self._until_serving()
        assert await create_topics(self._address, {self._tp.topic: 1}, 1) == [0], "the topic cannot be created"
        partition = self._data / str(self._tp)
        await self._until((partition / "partition.metadata").exists)
        await self._alter(zookeeper, "delete")
        java.terminate()
        await asyncio.to_thread(java.wait, DEADLINE_S)
        _replace_segments(partition, whole)
        self._start()
        await self._until_serving()

    async def _measure(self, zookeeper: KazooZooKeeper, active: int) -> dict[str, float]:
        assert self._java is not None, "it was started"
        pid, checkpoint = self._java.pid, self._data / CLEANER_OFFSETS
        before_mb, cpu_s, began_s = _peak_mb(pid), _cpu_s(pid), time.perf_counter()
        await self._alter(zookeeper, "compact")
        await self._until(lambda: _cleaned_up_to(checkpoint, self._tp) == active)
        return {
            "seconds": time.perf_counter() - began_s,
            "cpu_seconds": _cpu_s(pid) - cpu_s,
            "peak_mb": _peak_mb(pid),
            "before_mb": before_mb,
        }

    def _start(self) -> "subprocess.Popen[bytes]":
        it = KafkaBroker(
            id=_BROKER,
            port=self._port,
            zookeeper=self._server.address,
            data=self._data,
            state_changes=self._folder,
            settings=_SETTINGS,
            heap_mb=_HEAP_MB,
            jvm_options=JVM_OPTIONS,
            state_change_level="INFO",
        )
        command = prepare(it, self._folder, self._class_path)
        with (self._folder / "server.log").open("ab") as log:
            self._java = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
        return self._java

    async def _until_serving(self) -> None:
        await until_all_see([self._address], [], lambda view: view.brokers >= {_BROKER})

    async def _alter(self, zookeeper: KazooZooKeeper, policy: str) -> None:
        """Set the configs of the topic, as Kafka's tools did by ZooKeeper."""
        entity = ConfigEntity("topics", self._tp.topic)
        configs = {
            "cleanup.policy": policy,
            "segment.bytes": str(self._segment_bytes),
            "retention.ms": "-1",
            "min.cleanable.dirty.ratio": "0.01",
        }
        change = Create(CONFIG_CHANGE_PREFIX, encode_config_change(entity), sequential=True)
        results = await zookeeper.multi([SetData(entity.path, encode_config(configs)), change])
        assert all(result.ok for result in results), f"the configs of the topic cannot be written: {results}"

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not condition():
                if self._java is not None and self._java.poll() is not None:
                    raise ProcessFailedError(f"the broker ended with {self._java.returncode}; logs: {self._folder}")
                await asyncio.sleep(_POLL_S)


def _replace_segments(partition: Path, whole: Path) -> None:
    """Put other segments into a partition; indexes, snapshots and epochs are made again."""
    for path in partition.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in whole.glob("*.log"):
        shutil.copy(path, partition)


def _cleaned_up_to(checkpoint: Path, tp: TopicPartition) -> int | None:
    return decode_offsets(checkpoint.read_bytes() if checkpoint.exists() else None).get(tp)


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) / 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
