"""Where the time of a request went, by the clock of the event loop."""

import asyncio
from contextlib import suppress

import pytest

from broker_agent.replication.purgatory import Purgatory
from cluster.metrics.registry import Metrics
from cluster.metrics.requests import RequestMetrics
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from simulator.cluster import simulate

TP = TopicPartition("t", 0)
PARTS = (
    "RequestQueueTimeMs",
    "LocalTimeMs",
    "RemoteTimeMs",
    "ThrottleTimeMs",
    "ResponseQueueTimeMs",
    "ResponseSendTimeMs",
)


def spent(metrics: Metrics, api: str) -> dict[str, float]:
    timers = {name: metrics.timer("kafka.network", "RequestMetrics", name, request=api) for name in PARTS}
    assert {timer.count for timer in timers.values()} == {1}
    parts = {name: timer.sum for name, timer in timers.items()}
    total = metrics.timer("kafka.network", "RequestMetrics", "TotalTimeMs", request=api)
    assert sum(parts.values()) == pytest.approx(total.sum)
    return {name: round(took, 6) for name, took in parts.items() if took}


def test_waiting_processing_and_sending_are_distinguished() -> None:
    async def main() -> None:
        metrics = Metrics()
        requests, purgatory = RequestMetrics(metrics), Purgatory("Fetch", metrics)
        with requests.measure("Fetch", 100) as measured:
            measured.api = "FetchConsumer"
            await asyncio.sleep(0.01)
            # Also in a task of its own, as when several requests are served as one.
            await asyncio.create_task(purgatory.wait(lambda _: False, (TP,), timeout_ms=30))
            measured.handled(ErrorCode.OFFSET_OUT_OF_RANGE)
            await asyncio.sleep(0.002)
        assert spent(metrics, "FetchConsumer") == {"LocalTimeMs": 10, "RemoteTimeMs": 30, "ResponseSendTimeMs": 2}
        # Nobody's request: counted nowhere.
        await purgatory.wait(lambda _: False, (TP,), timeout_ms=1)
        assert spent(metrics, "FetchConsumer")["RemoteTimeMs"] == 30
        tags = {"request": "FetchConsumer", "error": "OFFSET_OUT_OF_RANGE"}
        assert metrics.meter("kafka.network", "RequestMetrics", "ErrorsPerSec", **tags).count == 1
        assert metrics.histogram("kafka.network", "RequestMetrics", "RequestBytes", request="FetchConsumer").sum == 100

    simulate(main)


def test_a_request_that_fails_counts_with_its_error_and_all_its_time() -> None:
    async def main() -> None:
        metrics = Metrics()
        with suppress(ValueError), RequestMetrics(metrics).measure("Produce", 7) as measured:
            await asyncio.sleep(0.005)
            measured.error_code = ErrorCode.CORRUPT_MESSAGE
            raise ValueError
        assert spent(metrics, "Produce") == {"LocalTimeMs": 5}
        tags = {"request": "Produce", "error": "CORRUPT_MESSAGE"}
        assert metrics.meter("kafka.network", "RequestMetrics", "ErrorsPerSec", **tags).count == 1

    simulate(main)


def test_no_response_ever_waits_in_a_queue() -> None:
    metrics = Metrics()
    RequestMetrics(metrics)
    shown = {family.name: family.samples[0].value for family in metrics.collect()}
    assert shown == {"kafka_network_requestchannel_responsequeuesize": 0}


def test_the_time_for_which_a_client_is_throttled_is_counted_beside_the_request() -> None:
    async def main() -> None:
        metrics = Metrics()
        with RequestMetrics(metrics).measure("Produce", 7) as measured:
            measured.handled(ErrorCode.NONE, throttle_time_ms=40)
        timers = (
            metrics.timer("kafka.network", "RequestMetrics", n, request="Produce")
            for n in ("ThrottleTimeMs", "TotalTimeMs")
        )
        assert [timer.sum for timer in timers] == [40, 0]

    simulate(main)
