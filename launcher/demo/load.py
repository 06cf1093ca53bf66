"""The load of a demonstration: producers that number their records, a group that may read them, and the outcome."""

import asyncio
import contextlib
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from msgspec import Struct, field

from admin.consuming.record_history import Acknowledged, HistoryRule, RecordId, Senders, Stored, summarize

_STEP_S: Final = 0.02


class LoadOutcome(Struct, frozen=True):
    """Counts of records at the end of a load.

    `anomalies`: by the rule that they break; `duplicates`: stored more than once; `failed`: given up by a producer;
    `unread`: acknowledged, and not seen by the group. `replaced` counts producers that refused to continue, and
    `batches_retried` the batches that klamm's producer sent again.
    """

    acknowledged: int = 0
    anomalies: dict[HistoryRule, int] = field(default_factory=dict)
    duplicates: int = 0
    failed: int = 0
    unread: int = 0
    replaced: int = 0
    batches_retried: int = 0

    @property
    def lost(self) -> int:
        """The number of acknowledged records that are not stored."""
        return self.anomalies.get(HistoryRule.LOST, 0)

    @property
    def passed(self) -> bool:
        """Whether records were acknowledged, and each of them is stored as promised and was read."""
        return self.acknowledged > 0 and not self.anomalies and not self.unread


class RecordLoad(ABC):
    """Producers on one topic until `finish`, each at a steady rate, and a group that reads.

    `total`: how many records are sent in all, none before `allowed` is raised; without it as many as there is time for.
    """

    producers = 1
    members = 0
    per_step = 50

    def __init__(self, topic: str, total: int = 0) -> None:
        self.topic, self.allowed = topic, 0 if total else math.inf
        self._total, self._sent = total, Counter[str]()
        self._acknowledged: list[Acknowledged] = []
        self._idempotent: set[str] = set()
        self._seen: set[RecordId | None] = set()
        self._seen_more = asyncio.Event()
        self._failed = self._replaced = self._batches_retried = 0
        self._is_over = self._is_read = False
        self._producing: list[asyncio.Task[None]] = []

    @property
    def acknowledged(self) -> int:
        """The number of records acknowledged so far."""
        return len(self._acknowledged)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Produce until `finish`, and read as long as the block lasts."""
        async with asyncio.TaskGroup() as tasks:
            reading = [tasks.create_task(self._read()) for _ in range(self.members)]
            self._producing = [tasks.create_task(self._produce(str(number))) for number in range(self.producers)]
            try:
                yield
            finally:
                # A consumer that is in the middle of a rebalance may swallow that it is cancelled.
                self._is_over = self._is_read = True
                for task in reading:
                    task.cancel()

    async def stop(self, timeout_s: float) -> None:
        """Send what is left of the total, and wait for all acknowledgements. Raises TimeoutError."""
        self.allowed, self._is_over = self._total, True
        async with asyncio.timeout(timeout_s):
            await asyncio.gather(*self._producing)

    async def finish(self, timeout_s: float) -> LoadOutcome:
        """Stop, wait until the group has read everything, and compare with what is stored.

        Raises TimeoutError if a producer does not come to an end; a group that does not is in the outcome.
        """
        await self.stop(timeout_s)
        unread = {record.id for record in self._acknowledged} if self.members else set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while unread := unread - self._seen:
                    await self._seen_more.wait()
                    self._seen_more.clear()
        read = await self._read_all(timeout_s)
        stored = {p: [Stored(offset, RecordId.of(value)) for offset, value in records] for p, records in read.items()}
        found = summarize(self._acknowledged, stored, Senders(self._sent, self._idempotent))
        return LoadOutcome(
            acknowledged=self.acknowledged,
            anomalies=found.anomalies,
            duplicates=found.duplicates,
            failed=self._failed,
            unread=len(unread),
            replaced=self._replaced,
            batches_retried=self._batches_retried,
        )

    async def _ids(self, producer: str) -> AsyncIterator[RecordId]:
        """Yield the ids of the records to send, some in each step of time."""
        while not (self._is_over and self._sent.total() >= self.allowed):
            for _ in range(self.per_step):
                if self._sent.total() >= self.allowed:
                    break
                self._sent[producer] += 1
                yield RecordId(producer, self._sent[producer] - 1)
            await asyncio.sleep(_STEP_S)

    @abstractmethod
    async def _produce(self, producer: str) -> None:
        """Send a record for each of `_ids`, and keep what is acknowledged."""

    async def _read(self) -> None:
        """Read as a member of the group until `_is_read`, and keep what is seen."""
        raise NotImplementedError("a load with members reads")

    @abstractmethod
    async def _read_all(self, timeout_s: float) -> dict[int, list[tuple[int, bytes | None]]]:
        """Read the offsets and values of the whole topic, by partition, in the order of offsets."""
