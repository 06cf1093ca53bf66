"""Quotas of clients on a real agent: who is over one is throttled, with the time in the answer."""

import asyncio
from typing import Any

import pytest

from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.context import RequestContext
from cluster.requests.data import FetchPartition, FetchRequest, FetchResponse, ProducePartition, ProduceRequest
from simulator.record_batches import encode_client_batch
from tests.brokers.agents import TOPIC, TOPIC_ID, AgentProcess, AgentWorld, virtually
from tests.conformance.agent.test_data_requests import lead_alone
from tests.conformance.agent.test_replication_throttles import Operator

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
SIZE = 1000


class Client:
    """One connection of a client."""

    def __init__(self, process: AgentProcess, client_id: str, connection: str = "ipv4:1.2.3.4:5") -> None:
        self.process, self.context = process, RequestContext(peer=connection, client_id=client_id)

    async def ask(self, request: Any) -> tuple[Any, float]:
        """The response, and the seconds it took."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        return await self.process.node.handle(self.context, request), loop.time() - start

    async def produce(self) -> tuple[int, float]:
        """Produce SIZE bytes; the throttle time in ms, and the seconds it took."""
        batch = encode_client_batch(b"x" * (SIZE - 100), timestamp=self.process.world.clock.now_ms())
        batch = encode_client_batch(b"x" * (2 * SIZE - 100 - len(batch)), timestamp=self.process.world.clock.now_ms())
        assert abs(len(batch) - SIZE) < 5
        response, took_s = await self.ask(ProduceRequest(1, 1000, (ProducePartition(TOPIC, 0, batch),)))
        assert response.partitions[0].error_code is ErrorCode.NONE
        return response.throttle_time_ms, took_s

    async def fetch(
        self, offset: int = 0, *, replica: int = -1, max_bytes: int = SIZE + 50
    ) -> tuple[FetchResponse, float]:
        item = FetchPartition(TOPIC, TOPIC_ID, 0, Offset(offset), 1 << 20)
        response, took_s = await self.ask(FetchRequest(BrokerId(replica), (item,), 0, 1, max_bytes))
        return response, took_s


def size_of(response: FetchResponse) -> int:
    return sum(len(item.records) for item in response.partitions)


async def world_with_quota(**configs: str) -> tuple[AgentWorld, AgentProcess, Operator]:
    world = AgentWorld()
    process = await lead_alone(world)
    operator = Operator(world)
    await operator.set("clients/app", **configs)
    return world, process, operator


@pytest.mark.rule("R18.6")
@virtually
async def test_a_producer_over_its_quota_is_throttled_before_its_next_request() -> None:
    world, process, _ = await world_with_quota(**{PRODUCER: "200"})
    client = Client(process, "app")
    # 2,000 bytes fit into the window of ten seconds.
    assert await client.produce() == (0, 0)
    assert await client.produce() == (pytest.approx(0, abs=50), 0)
    throttled_ms, took_s = await client.produce()
    assert throttled_ms == pytest.approx(5000, rel=0.02)
    assert took_s == 0
    # Everything that it sends meanwhile waits, and other connections and clients do not.
    assert await Client(process, "other").produce() == (0, 0)
    assert await Client(process, "").produce() == (0, 0)
    _, waited_s = await client.produce()
    assert waited_s == pytest.approx(throttled_ms / 1000)
    await world.stop()


@pytest.mark.rule("R18.7")
@virtually
async def test_a_consumer_over_its_quota_gets_its_records_later() -> None:
    world, process, _ = await world_with_quota(**{CONSUMER: "200"})
    for _ in range(4):
        await Client(process, "").produce()
    client = Client(process, "app")
    for offset in (0, 1):
        response, _ = await client.fetch(offset)
        assert (size_of(response) > 0, response.throttle_time_ms) == (True, pytest.approx(0, abs=50))
    response, _ = await client.fetch(2)
    assert (response.partitions, response.throttle_time_ms) == ((), pytest.approx(5000, rel=0.02))
    waited_s = 0.0
    while not size_of(response):
        response, took_s = await client.fetch(2)
        waited_s += took_s
    assert 4.8 < waited_s < 16
    # Followers have quotas of their own.
    assert (await Client(process, "app", "ipv4:9.9.9.9:9").fetch(0, replica=2))[0].throttle_time_ms == 0
    await world.stop()


@pytest.mark.rule("R18.7")
@virtually
async def test_a_batch_larger_than_the_window_is_sent_after_a_window_without_any() -> None:
    world, process, _ = await world_with_quota(**{CONSUMER: "10"})
    for _ in range(2):
        await Client(process, "").produce()
    client = Client(process, "app")
    first, _ = await client.fetch(0)
    assert size_of(first) > 0
    assert first.throttle_time_ms > 0
    second, waited_s = await client.fetch(1)
    assert waited_s == pytest.approx(first.throttle_time_ms / 1000)
    assert size_of(second) > 0
    await world.stop()


@pytest.mark.rule("R18.8")
@virtually
async def test_the_quota_of_a_client_is_before_the_default_and_both_change_while_it_runs() -> None:
    world, process, operator = await world_with_quota(**{PRODUCER: "1000000"})
    await operator.set("clients/<default>", **{PRODUCER: "1", CONSUMER: "not a number"})
    assert await Client(process, "app").produce() == (0, 0)
    assert (await Client(process, "other", "ipv4:2:2").produce())[0] > 0
    assert (await Client(process, "", "ipv4:3:3").produce())[0] > 0
    await operator.set("clients/app")
    assert (await Client(process, "app", "ipv4:4:4").produce())[0] > 0
    await operator.set("clients/<default>")
    assert await Client(process, "other", "ipv4:5:5").produce() == (0, 0)
    # Names are in paths as Kafka has them there.
    await operator.set("clients/my%20app%2F1", **{PRODUCER: "1"})
    assert (await Client(process, "my app/1", "ipv4:6:6").produce())[0] > 0
    # A new session reads them all.
    process.agent._setting_changes.start_session()
    await asyncio.sleep(1)
    assert (await Client(process, "my app/1", "ipv4:7:7").produce())[0] > 0
    await world.stop()
