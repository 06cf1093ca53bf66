"""Partitions with recent records are fetched apart from the long poll for idle ones."""

import asyncio
from typing import Any

import pytest

from broker_agent.node import AgentNode
from cluster.model.partition import TopicPartition
from cluster.requests.context import RequestContext
from cluster.requests.data import FetchRequest
from tests.brokers.agents import TP, AgentWorld, until, virtually

PARTITIONS = [TopicPartition(TP.topic, number) for number in range(20)]


class Doorkeeper:
    """Stands before an agent and counts the partitions of each follower's fetch."""

    def __init__(self, node: AgentNode) -> None:
        self.node = node
        self.sizes: list[int] = []

    async def handle(self, context: RequestContext, request: Any) -> Any:
        if isinstance(request, FetchRequest) and request.replica_id >= 0:
            self.sizes.append(len(request.partitions))
        return await self.node.handle(context, request)


async def following() -> tuple[AgentWorld, Doorkeeper]:
    """Broker 2 follows broker 1 in all partitions."""
    world = AgentWorld(replica_fetch_backoff_ms=50)
    await world.start(1, 2)
    endpoint = Doorkeeper(world.agents[1].node)
    world.network.detach(world.agents[1].endpoint)
    world.network.attach(world.agents[1].endpoint, endpoint)
    for tp in PARTITIONS:
        world.decide(1, (1, 2), tp=tp)
    await world.update_metadata()
    for tp in PARTITIONS:
        await world.tell(1, 2, tp=tp)
    await asyncio.sleep(1)
    endpoint.sizes.clear()
    return world, endpoint


@pytest.mark.rule("R5.1", "R5.11")
@virtually
async def test_a_record_costs_what_the_busy_partitions_cost() -> None:
    world, endpoint = await following()
    for _ in range(10):
        await world.agents[1].produce(1, acks=-1)
    assert world.agents[2].offsets()[1] == 10
    assert endpoint.sizes.count(1) >= 10
    assert len([size for size in endpoint.sizes if size > 1]) <= 3
    await world.agents[1].produce(1, tp=PARTITIONS[7])
    await until(lambda: world.agents[2].offsets(PARTITIONS[7])[1] == 1)
    endpoint.sizes.clear()
    for _ in range(10):
        await world.agents[1].produce(1, acks=-1)
    assert {size for size in endpoint.sizes if size < 10} == {2}
    await world.stop()


@pytest.mark.rule("R5.1", "P39")
@virtually
async def test_what_has_become_quiet_shares_one_long_poll_again() -> None:
    world, endpoint = await following()
    await world.agents[1].produce(1, acks=-1)
    await asyncio.sleep(8)
    endpoint.sizes.clear()
    await asyncio.sleep(5)
    assert set(endpoint.sizes) == {len(PARTITIONS)}
    assert world.agents[2].offsets() == world.agents[1].offsets() == (1, 1)
    await world.stop()


@pytest.mark.rule("R5.3", "R5.8")
@virtually
async def test_a_busy_partition_follows_the_next_order_like_any_other() -> None:
    world, _ = await following()
    await world.agents[1].produce(1, acks=-1)
    world.decide(1, (1, 2))
    await world.tell(2, 1)
    state = world.agents[2].agent.fetchers.state(TP)
    assert state is not None
    assert state.leader_epoch == 1
    await world.agents[1].produce(1, acks=-1)
    assert world.agents[2].offsets()[1] == 2
    await world.stop_replica(2)
    assert world.agents[2].agent.fetchers.state(TP) is None
    await world.agents[1].produce(1)
    await asyncio.sleep(8)
    assert world.agents[2].offsets()[1] == 2
    await world.stop()
