"""Verifies the checksums of all stored batches in the background, at a limited rate (scrub).

Source: klamm; Kafka verifies none until a client reads them. R9.30
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from broker_agent.log.log_directories import LogDirectories
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log_damage import LogDamage
from cluster.aio.rate_limiter import RateLimiter
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.errors import StorageError

_METRICS: Final = ("kafka.log", "LogScrub")
_log = structlog.stdlib.get_logger()


class LogScrub:
    """One pass over all logs after another; a restarted process begins a new pass.

    `on_damage` is called with a damaged log; the pass then continues with the next one.
    """

    def __init__(
        self,
        logs: LogDirectories,
        settings: Settings,
        metrics: Metrics,
        on_damage: Callable[[PartitionLog, LogDamage], None],
    ) -> None:
        self._logs = logs
        self._on_damage = on_damage
        self._limiter = RateLimiter(settings.klamm_log_scrub_bytes_per_second or None)
        self._initial_delay_s = settings.log_initial_task_delay_ms / 1000
        self._interval_s = settings.klamm_log_scrub_interval_ms / 1000
        self._verified = metrics.meter(*_METRICS, "BytesVerifiedPerSec")
        self._found = metrics.meter(*_METRICS, "DamagedReplicasPerSec")

    async def run(self) -> None:
        """Verify until cancelled; returns at once if the rate is 0."""
        if self._limiter.bytes_per_second is None:
            return
        await asyncio.sleep(self._initial_delay_s)
        while True:
            await self.verify_all()
            await asyncio.sleep(self._interval_s)

    async def verify_all(self) -> None:
        """Verify each log once. A log that fails meanwhile is left out."""
        for topic_partition in [*self._logs.all_logs()]:
            log = self._logs.get(topic_partition)
            if log is None:
                continue
            try:
                damage = await log.verify(self._pace)
            except StorageError as error:
                _log.warning("Verifying a log failed", partition=str(topic_partition), why=str(error))
                continue
            if damage is not None:
                self._found.mark()
                self._on_damage(log, damage)

    async def _pace(self, size: int) -> None:
        self._verified.mark(size)
        await self._limiter.pass_bytes(size)
