"""Records how Apache Kafka compacts a log: its segments before and after, into tests/recorded/compaction.

`python -m tests.kafka.compaction` makes the recording anew. A topic is filled by idempotent and transactional producers
with every codec, then compacted; a second time after more records came and the time of the tombstones was over.
"""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from deploy.local.kafka_jars import NEWEST
from tests.kafka.broker import kafka_broker
from tests.timeouts import TIMEOUT_S

RECORDED = Path(__file__).parents[1] / "recorded" / "compaction" / NEWEST
TOPIC = "compacted"
CODECS = (None, "gzip", "snappy", "lz4", "zstd")
SEGMENT_BYTES = 4000
DELETE_RETENTION_MS = 1
CLEANER = {
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class Recorder:
    """A broker's folder of the partition, and what is written to it."""

    def __init__(self, address: str, data: Path) -> None:
        self._address, self._data = address, data
        self._random = Random(1)
        self._written = 0

    async def record(self) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._address)
        await self._until_started(admin)
        configs = {"cleanup.policy": "delete", "segment.bytes": str(SEGMENT_BYTES)}
        await admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs=configs)])
        await self._fill(60)
        self._save("before-1")
        await self._compact(admin)
        self._save("after-1")
        await self._configure(admin, {"cleanup.policy": "delete"})
        await self._fill(20)
        self._save("before-2")
        await self._compact(admin)
        self._save("after-2")
        await admin.close()

    async def _until_started(self, admin: AIOKafkaAdminClient) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                await admin.start()
                return
            except Exception:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.5)

    async def _fill(self, rounds: int) -> None:
        for number in range(rounds):
            options: dict[str, Any] = {"enable_idempotence": True, "linger_ms": 50}
            options["compression_type"] = CODECS[number % len(CODECS)]
            if number % 4 == 1:
                await self._send_in_transaction(options, f"t{number % 8}", commits=number % 8 != 5)
                continue
            async with AIOKafkaProducer(bootstrap_servers=self._address, **options) as producer:
                await self._send(producer)

    async def _send_in_transaction(self, options: dict[str, Any], name: str, *, commits: bool) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self._address, transactional_id=name, **options) as producer:
            await producer.begin_transaction()
            await self._send(producer)
            await (producer.commit_transaction() if commits else producer.abort_transaction())

    async def _send(self, producer: AIOKafkaProducer) -> None:
        sent = []
        for _ in range(self._random.randint(1, 12)):
            self._written += 1
            key = f"key {self._random.randint(0, 39)}".encode()
            value = None if self._random.random() < 0.2 else f"value {self._written} ".encode() * 3
            sent.append(await producer.send(TOPIC, value, key, headers=[("n", str(self._written).encode())]))
        await asyncio.gather(*sent)

    async def _configure(self, admin: AIOKafkaAdminClient, configs: dict[str, str]) -> None:
        whole = {"segment.bytes": str(SEGMENT_BYTES), "delete.retention.ms": str(DELETE_RETENTION_MS), **configs}
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, TOPIC, configs=whole)])

    async def _compact(self, admin: AIOKafkaAdminClient) -> None:
        """Have everything but the active segment compacted once."""
        active = int(sorted(self._folder.glob("*.log"))[-1].stem)
        await self._configure(admin, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
        await self._until(lambda: self._cleaned_up_to() == active, f"compacted up to {active}")
        await self._until(lambda: not list(self._folder.glob("*.swap")), "segments are replaced")

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, what
            await asyncio.sleep(0.05)

    @property
    def _folder(self) -> Path:
        return self._data / f"{TOPIC}-0"

    def _cleaned_up_to(self) -> int | None:
        checkpoint = self._data / "cleaner-offset-checkpoint"
        lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
        return next((int(line.split()[2]) for line in lines if line.startswith(f"{TOPIC} 0 ")), None)

    def _save(self, name: str) -> None:
        folder = RECORDED / name
        folder.mkdir(parents=True)
        for path in sorted(self._folder.glob("*.log")):
            shutil.copy(path, folder)
        about = {"at_ms": time.time_ns() // 1_000_000, "cleaned_up_to": self._cleaned_up_to()}
        (folder / "about.json").write_text(json.dumps(about) + "\n")


def main() -> None:
    """Make the recording anew."""
    shutil.rmtree(RECORDED, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder, kafka_broker(Path(folder) / "kafka", CLEANER) as address:
        asyncio.run(Recorder(address, Path(folder) / "kafka" / "data").record())


if __name__ == "__main__":
    main()
