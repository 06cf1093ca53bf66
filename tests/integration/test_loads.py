"""Measured loads, over real gRPC against nodes that answer by a script."""

from collections.abc import AsyncIterator

import pytest

from admin.connecting.client import AdminClient
from admin.consuming.consume_load import ConsumeLoad, ConsumePlan
from admin.consuming.record_history import HistoryRule
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.produce_load import ProduceLoad, ProduceMeasures, ProducePlan
from cluster.aio.clock import SystemClock
from cluster.model.errors import ApiError, ErrorCode
from tests.controllers.scripted_cluster import TOPIC, ScriptedCluster, served_cluster
from tests.timeouts import TIMEOUT_S

SIZE = 64


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with served_cluster() as served:
        yield served


@pytest.fixture
async def client(cluster: ScriptedCluster) -> AsyncIterator[AdminClient]:
    async with AdminClient([s.address for s in cluster.servers.values()], timeout_ms=TIMEOUT_S * 1000) as connected:
        yield connected


async def produced(client: AdminClient, records: int, **plan: object) -> ProduceMeasures:
    made = ProducePlan(topic=TOPIC, records=records, record_size=SIZE, **plan)  # type: ignore[arg-type]
    return await ProduceLoad(Topology(client), SystemClock(), made, lambda _: None).run()


async def test_each_record_has_the_size_and_is_measured_but_for_the_first_ones(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    found = await produced(client, 1_000, warmup=100)
    assert (found.records, found.failed, found.idempotent) == (900, 0, True)
    assert found.mb == round(900 * SIZE / 2**20, 2)
    assert 0 < found.latency_ms.p50 <= found.latency_ms.p999 <= found.latency_ms.max
    values = [value for partition in cluster.ends for value in cluster.values(partition)]
    assert {len(value) for value in values} == {SIZE}
    assert len(set(values)) == 1_000


async def test_the_throughput_is_kept_to(client: AdminClient) -> None:
    found = await produced(client, 300, throughput=600.0)
    assert found.records_per_s < 700


async def test_what_was_stored_once_is_verified_between_records_of_others(
    cluster: ScriptedCluster, client: AdminClient
) -> None:
    await produced(client, 50)
    cluster.lose_answers = 2
    found = await produced(client, 2_000, is_verified=True, options=ProducerOptions(batch_size=1_000))
    assert found.batches_retried > 0
    assert found.verified is not None
    assert (found.verified.anomalies, found.verified.duplicates) == ({}, 0)


async def test_what_was_stored_twice_or_lost_is_counted(cluster: ScriptedCluster, client: AdminClient) -> None:
    cluster.lose_answers = 1
    options = ProducerOptions(batch_size=1_000, enable_idempotence=False)
    found = await produced(client, 2_000, is_verified=True, options=options)
    assert found.verified is not None
    assert found.verified.duplicates > 0

    cluster.forgets = 1
    found = await produced(client, 2_000, is_verified=True, options=options)
    assert found.verified is not None
    assert found.verified.anomalies[HistoryRule.LOST] > 0


async def test_records_that_fail_are_counted_and_not_measured(cluster: ScriptedCluster, client: AdminClient) -> None:
    cluster.refusals = [lambda _: ErrorCode.INVALID_RECORD]
    found = await produced(client, 1_000, options=ProducerOptions(batch_size=1_000))
    assert found.failed > 0
    assert found.records + found.failed == 1_000


async def test_an_unknown_topic_is_refused_by_name(client: AdminClient) -> None:
    plan = ProducePlan(topic="nowhere", records=1, record_size=SIZE)
    with pytest.raises(ApiError, match="'nowhere' does not exist"):
        await ProduceLoad(Topology(client), SystemClock(), plan, lambda _: None).run()
    consume = ConsumePlan(topic="nowhere")
    with pytest.raises(ApiError, match="'nowhere' does not exist"):
        await ConsumeLoad(Topology(client), SystemClock(), consume, lambda _: None).run(TIMEOUT_S)


async def test_a_topic_is_read_to_its_end_or_as_far_as_asked_for(client: AdminClient) -> None:
    await produced(client, 1_000)
    found = await ConsumeLoad(Topology(client), SystemClock(), ConsumePlan(topic=TOPIC), lambda _: None).run(TIMEOUT_S)
    assert (found.records, found.is_complete, found.mb) == (1_000, True, round(1_000 * SIZE / 2**20, 2))
    assert found.end_ms >= found.start_ms
    plan = ConsumePlan(topic=TOPIC, records=100)
    assert (await ConsumeLoad(Topology(client), SystemClock(), plan, lambda _: None).run(TIMEOUT_S)).records == 100


async def test_reading_ends_when_too_few_records_come(client: AdminClient) -> None:
    await produced(client, 100)
    records, idle_s = 0, 0.25
    # A busy machine may need longer for those that are there.
    while records < 100:
        idle_s *= 2
        plan = ConsumePlan(topic=TOPIC, records=101, idle_s=idle_s)
        found = await ConsumeLoad(Topology(client), SystemClock(), plan, lambda _: None).run(TIMEOUT_S)
        assert (found.records <= 100, found.is_complete) == (True, False)
        records = found.records
