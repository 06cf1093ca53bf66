"""The client library's idempotent producer against real agents: each record is stored once, and in order."""

import asyncio
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from admin.producing.accumulator import ProducerOptions
from cluster.model.errors import ErrorCode
from cluster.requests.data import ProducePartition, ProduceRequest
from simulator.record_batches import encode_client_batch
from simulator.virtual_time_loop import VirtualTimeLoop
from tests.brokers.agents import TOPIC, AgentWorld, virtually
from tests.brokers.producing import Sent, WorldClient, stored_numbers
from tests.conformance.agent.test_replication_throttles import Operator
from tests.examples import examples

SMALL = ProducerOptions(batch_size=150, linger_ms=1, request_timeout_ms=2_000)
PLAIN = ProducerOptions(batch_size=150, linger_ms=1, request_timeout_ms=2_000, enable_idempotence=False)
COUNT = 400


async def a_world(*brokers: int) -> AgentWorld:
    world = AgentWorld()
    await world.start(*brokers)
    await world.create(1, brokers)
    return world


async def move_leader(world: AgentWorld, to: int) -> None:
    (state,) = world.states.values()
    world.decide(to, state.isr)
    await world.update_metadata()
    await world.tell(*world.agents)


@pytest.mark.rule("R7.21", "P34", "R7.6")
@virtually
async def test_records_whose_answers_are_lost_are_stored_once_and_in_order() -> None:
    world = await a_world(1, 2)
    client = WorldClient(world, Random(3), losses=0.3)
    sent = Sent(world, client, SMALL)
    async with sent.producer:
        await sent.send(0, COUNT)
    assert client.lost > 3
    assert sent.producer.totals.acknowledged == COUNT
    assert await stored_numbers(world, 1) == list(range(COUNT))
    await world.stop()


@virtually
async def test_without_idempotence_the_same_losses_store_records_twice() -> None:
    world = await a_world(1, 2)
    client = WorldClient(world, Random(3), losses=0.3)
    sent = Sent(world, client, PLAIN)
    async with sent.producer:
        await sent.send(0, COUNT)
    assert client.lost > 3
    assert len(await stored_numbers(world, 1)) > COUNT
    assert client.producer_ids.requests == []
    await world.stop()


@virtually
async def test_five_batches_are_on_their_way_at_once() -> None:
    world = await a_world(1)
    client = WorldClient(world, Random(1))
    sent = Sent(world, client, SMALL)
    async with sent.producer:
        await sent.send(0, 1)
        await sent.producer.flush()
        client.delay_s = 1.0
        await sent.send(1, 100)
        (queue,) = sent.producer._accumulator.waiting()
        most = 0
        while queue.batches:
            most = max(most, sum(batch.is_on_wire for batch in queue.batches))
            sent.producer._flushing = True
            await asyncio.sleep(0.01)
    assert most == 5
    assert await stored_numbers(world, 1) == list(range(101))
    await world.stop()


def run_with_faults(seed: int, losses: float, delay_ms: int, moves: int) -> None:
    async def main() -> None:
        world = await a_world(1, 2, 3)
        random = Random(seed)
        client = WorldClient(world, random, losses=losses, delay_s=delay_ms / 1000)
        sent = Sent(world, client, replace(SMALL, delivery_timeout_ms=3_600_000))
        leader = 1
        async with sent.producer:
            for part in range(moves + 1):
                await sent.send(part * COUNT, COUNT)
                if part < moves:
                    await asyncio.sleep(random.uniform(0, 0.2))
                    leader = random.choice([broker for broker in (1, 2, 3) if broker != leader])
                    await move_leader(world, leader)
            await asyncio.sleep(1)
            client.losses = 0.0
        total = (moves + 1) * COUNT
        assert sent.failed == []
        assert await stored_numbers(world, leader) == list(range(total))
        offsets = {d.base_offset + n: int(v or b"") for d in sent.deliveries for n, v in enumerate(d.values)}
        assert all(offset == number for offset, number in offsets.items()), "each is where its answer says"
        await world.stop()

    VirtualTimeLoop(max_steps=3_000_000).run_until_complete(main())


@pytest.mark.rule("R7.21", "P34")
@examples(10, deep=25)
@given(
    seed=st.integers(0, 10_000),
    losses=st.sampled_from([0.0, 0.1, 0.5]),
    delay_ms=st.sampled_from([0, 5, 300, 4_000]),
    moves=st.integers(0, 3),
)
def test_lost_answers_overtaking_requests_and_new_leaders_leave_each_record_once_and_in_order(
    seed: int, losses: float, delay_ms: int, moves: int
) -> None:
    run_with_faults(seed, losses, delay_ms, moves)


@virtually
async def test_a_batch_above_the_limit_is_split_and_stored_once() -> None:
    world = AgentWorld(message_max_bytes=400)
    await world.start(1)
    await world.create(1, [1])
    client = WorldClient(world, Random(5), losses=0.3)
    sent = Sent(world, client, ProducerOptions(batch_size=3_000, linger_ms=1, request_timeout_ms=2_000))
    async with sent.producer:
        await sent.send(0, COUNT)
    assert sent.failed == []
    assert await stored_numbers(world, 1) == list(range(COUNT))
    await world.stop()


@virtually
async def test_a_fenced_producer_says_so_and_continues_with_another_id() -> None:
    world = await a_world(1)
    client = WorldClient(world, Random(5))
    sent = Sent(world, client, SMALL)
    async with sent.producer:
        await sent.send(0, 1)
        await sent.producer.flush()
        stolen = encode_client_batch(b"9", timestamp=1, producer_id=0, producer_epoch=5, base_sequence=0)
        await world.agents[1].handle(ProduceRequest(1, 1_000, (ProducePartition(TOPIC, 0, stolen),)))
        await sent.send(1, 1)
        await sent.producer.flush()
        await sent.send(2, 1)
    assert sent.failed == [1]
    assert "orders-0: this producer, id 0 in epoch 0, is fenced" in str(sent.producer.totals.first_error)
    assert (await stored_numbers(world, 1))[-1] == 2
    await world.stop()


@virtually
async def test_without_a_producer_id_records_fail_at_their_deadline_and_it_is_said_why() -> None:
    world = AgentWorld(request_timeout_ms=1_000)
    await world.start(1)
    await world.create(1, [1])
    client = WorldClient(world, Random(5))
    client.producer_ids.code = ErrorCode.STALE_BROKER_EPOCH
    sent = Sent(world, client, ProducerOptions(delivery_timeout_ms=5_000))
    async with sent.producer:
        await sent.send(0, 1)
    assert sent.failed == [0]
    assert "no producer id: broker-1:9092 answers COORDINATOR_LOAD_IN_PROGRESS" in str(sent.producer.totals.first_error)
    await world.stop()


@virtually
async def test_records_that_run_out_of_time_leave_the_later_ones_stored_once() -> None:
    world = await a_world(1)
    client = WorldClient(world, Random(5))
    options = ProducerOptions(batch_size=150, linger_ms=1, request_timeout_ms=500, delivery_timeout_ms=1_000)
    sent = Sent(world, client, options)
    async with sent.producer:
        await sent.send(0, 1)
        await sent.producer.flush()
        client.losses = 1.0
        await sent.send(1, 50)
        await sent.producer.flush()
        client.losses = 0.0
        await sent.send(51, 50)
    stored = await stored_numbers(world, 1)
    assert stored == sorted(set(stored)), "none twice, none before an earlier one"
    assert set(range(101)) - set(sent.failed) <= set(stored)
    assert set(sent.failed) <= set(range(1, 51))
    await world.stop()


class WaitingClient(WorldClient):
    """Asserts that nothing is produced while an answer before it asked to wait."""

    throttled_until = 0.0
    throttled = 0

    async def ask_broker(self, address: str, request: Any, timeout_ms: int) -> Any:
        loop = asyncio.get_running_loop()
        assert not isinstance(request, ProduceRequest) or loop.time() >= self.throttled_until
        answer = await super().ask_broker(address, request, timeout_ms)
        if isinstance(request, ProduceRequest) and answer.throttle_time_ms:
            self.throttled += 1
            self.throttled_until = loop.time() + answer.throttle_time_ms / 1000
        return answer


@pytest.mark.rule("R18.6", "R7.21")
@virtually
async def test_a_producer_over_its_quota_sends_nothing_while_it_is_throttled() -> None:
    world = await a_world(1)
    await Operator(world).set("clients/<default>", producer_byte_rate="500")
    client = WaitingClient(world, Random(3))
    sent = Sent(world, client, SMALL)
    async with sent.producer:
        await sent.send(0, COUNT)
    assert client.throttled > 10
    assert sent.producer.totals.acknowledged == COUNT
    assert await stored_numbers(world, 1) == list(range(COUNT))
    await world.stop()
