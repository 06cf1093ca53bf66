"""Reads the event queue of the active controller from its metrics."""

import asyncio
import contextlib
from collections.abc import Sequence
from http.client import HTTPException
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from admin.cli.metrics_text import read_metrics

_TIMEOUT_S: Final = 2.0
_MANAGER: Final = "kafka_controller_controllereventmanager"
_ACTIVE: Final = "kafka_controller_kafkacontroller_activecontrollercount"
_QUANTILES: Final = {"0.5": "median", "0.99": "p99"}
QUEUE_METRICS: Final = ("size", *_QUANTILES.values())
"""The number of events that wait, and quantiles of the time that events waited, in ms."""


async def find_queue(addresses: Sequence[str], limit_s: float) -> dict[str, float] | None:
    """Read QUEUE_METRICS by name from the one of these addresses that is the active controller's; None if none is.

    All are asked at once.
    """
    timeout_s = min(_TIMEOUT_S, limit_s)
    for asked in asyncio.as_completed([asyncio.to_thread(_read_queue, address, timeout_s) for address in addresses]):
        if (queue := await asked) is not None:
            return queue
    return None


def _read_queue(address: str, timeout_s: float) -> dict[str, float] | None:
    with contextlib.suppress(OSError, ValueError, HTTPException):
        return parse_queue(read_metrics(address, timeout_s))
    return None


def parse_queue(text: str) -> dict[str, float] | None:
    """Parse QUEUE_METRICS by name; None if these are not the metrics of an active controller."""
    wanted = "\n".join(line for line in text.splitlines() if line.startswith((_MANAGER, _ACTIVE)))
    samples = [sample for family in text_string_to_metric_families(wanted) for sample in family.samples]
    if not any(s.name == _ACTIVE and s.value == 1 for s in samples):
        return None
    found = {}
    for sample in samples:
        if sample.name == f"{_MANAGER}_eventqueuesize":
            found["size"] = sample.value
        elif sample.name == f"{_MANAGER}_eventqueuetimems" and sample.labels.get("quantile") in _QUANTILES:
            found[_QUANTILES[sample.labels["quantile"]]] = sample.value
    return found
