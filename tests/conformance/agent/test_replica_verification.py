"""Replicas compared on line, on real agents: equal, different, lagging, silent, and while records are deleted."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, cast

from admin.connecting.client import AdminClient
from admin.consuming.record_batches import BatchBuilder
from admin.describing.replica_verification import (
    ReplicaReader,
    VerifiedPartition,
    compare_bytes,
    compare_compacted,
    strategy_of,
    verify_partition,
)
from cluster.aio.rate_limiter import RateLimiter
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.data import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    FetchRequest,
    ProducePartition,
    ProduceRequest,
)
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, until, virtually
from tests.brokers.producing import WorldClient

Change = Callable[[Any, Any], Any]


class ChangingClient(WorldClient):
    """Answers pass through `change`, as from brokers whose disks have changed what they stored."""

    def __init__(self, world: AgentWorld, change: Change = lambda _, answer: answer) -> None:
        super().__init__(world, Random(1))
        self._change = change

    async def ask_broker(self, address: str, request: Any, timeout_ms: int) -> Any:
        return self._change((address, request), await super().ask_broker(address, request, timeout_ms))


async def a_world(count: int = 40) -> AgentWorld:
    """Three replicas in sync, the first of which leads."""
    world = AgentWorld()
    await world.start(1, 2, 3)
    await world.create(1, [1, 2, 3])
    for _ in range(count):
        await world.agents[1].produce(3, acks=-1)
    await until(lambda: all(agent.offsets()[0] == 3 * count for agent in world.agents.values()))
    return world


def addresses(world: AgentWorld) -> dict[BrokerId, str]:
    return {BrokerId(b): agent.endpoint.address for b, agent in world.agents.items()}


async def verify(world: AgentWorld, client: WorldClient | None = None, rate: float | None = None) -> VerifiedPartition:
    asked = ChangingClient(world) if client is None else client
    reader = ReplicaReader(cast(AdminClient, asked), addresses(world), RateLimiter(rate), 2_000)
    return await verify_partition(reader, TP, [BrokerId(b) for b in (1, 2, 3)], compare_bytes)


def damage(broker: int, start: int, content: bytes) -> Change:
    """The bytes of the batch that begins at offset `start`, as this broker answers them."""

    def change(asked: tuple[str, Any], answer: Any) -> Any:
        address, request = asked
        if not isinstance(request, FetchRequest) or not address.startswith(f"broker-{broker}:"):
            return answer
        (data,) = answer.partitions
        at = data.records.find(start.to_bytes(8, "big"))
        if at < 0:
            return answer
        changed = data.records[: at + 12] + content + data.records[at + 12 + len(content) :]
        return type(answer)(answer.error_code, (type(data)(**{**_fields(data), "records": changed}),))

    return change


def _fields(data: Any) -> dict[str, Any]:
    return {name: getattr(data, name) for name in data.__struct_fields__}


@virtually
async def test_replicas_in_sync_are_equal_up_to_the_high_watermark() -> None:
    world = await a_world()
    found = await verify(world)
    assert (found.replicas, found.from_offset, found.to_offset) == ((1, 2, 3), 0, 120)
    assert (found.difference, found.unread) == (None, {})
    await world.stop()


@virtually
async def test_a_follower_that_lags_is_compared_as_far_as_it_is() -> None:
    world = await a_world()
    agent = world.agents[3]
    for task in agent.agent._background:
        task.cancel()
    agent.agent.fetchers.close()
    await world.agents[1].produce(3)
    found = await verify(world)
    assert (found.to_offset, found.difference, found.unread) == (120, None, {})
    await world.stop()


@virtually
async def test_the_first_batch_that_differs_is_named_and_the_latest_epoch_is_right() -> None:
    world = await a_world()
    # Leader epoch 7, where the leader has 0; the checksum does not cover it.
    found = await verify(world, ChangingClient(world, damage(2, 60, (7).to_bytes(4, "big"))))
    assert found.difference is not None
    assert (found.difference.offset, found.difference.right, found.difference.wrong) == (60, (2,), (1, 3))
    assert found.to_offset == 60
    await world.stop()


@virtually
async def test_a_damaged_batch_is_wrong() -> None:
    world = await a_world()
    found = await verify(world, ChangingClient(world, damage(3, 90, b"\0\0\0\0\2\1\2\3\4")))
    assert found.difference is not None
    assert (found.difference.offset, found.difference.right, found.difference.wrong) == (90, (1, 2), (3,))
    await world.stop()


@virtually
async def test_a_difference_that_is_gone_at_a_second_look_is_none() -> None:
    world = await a_world()
    change = damage(3, 90, b"\0\0\0\7")
    answers: list[Any] = []

    def once(asked: Any, answer: Any) -> Any:
        changed = change(asked, answer)
        if changed is not answer:
            answers.append(changed)
        return changed if len(answers) <= 1 else answer

    found = await verify(world, ChangingClient(world, once))
    assert answers
    assert (found.difference, found.to_offset) == (None, 120)
    await world.stop()


@virtually
async def test_what_cannot_be_read_is_said_and_the_others_are_compared() -> None:
    world = await a_world()
    await world.agents.pop(3).crash()
    found = await verify(world)
    assert found.replicas == (1, 2)
    assert found.unread == {3: "it is not registered: it does not run, or has no session"}
    world.network.cut("client:0", world.agents[2].endpoint.address)
    found = await verify(world)
    assert (found.replicas, list(found.unread)) == ((1,), [2, 3])
    assert found.from_offset == found.to_offset
    world.network.heal_all()
    await world.stop()


@virtually
async def test_log_starts_that_move_meanwhile_are_no_difference() -> None:
    world = await a_world()
    client = ChangingClient(world)
    reader = ReplicaReader(cast(AdminClient, client), addresses(world), RateLimiter(3_000), 2_000)
    verifying = asyncio.create_task(verify_partition(reader, TP, [BrokerId(b) for b in (1, 2, 3)], compare_bytes))
    await asyncio.sleep(0.05)
    item = DeleteRecordsPartition(TOPIC, 0, Offset(100))
    deleted = await world.agents[1].handle(DeleteRecordsRequest(10_000, (item,)))
    assert deleted.partitions[0].error_code is ErrorCode.NONE
    found = await verifying
    assert (found.difference, found.unread, found.to_offset) == (None, {}, 120)
    await world.stop()


@virtually
async def test_the_throttle_is_kept_to() -> None:
    world = await a_world()
    loop = asyncio.get_running_loop()
    began = loop.time()
    await verify(world)
    quick_s = loop.time() - began
    client = ChangingClient(world)
    reader = ReplicaReader(cast(AdminClient, client), addresses(world), RateLimiter(5_000), 2_000)
    began = loop.time()
    await verify_partition(reader, TP, [BrokerId(b) for b in (1, 2, 3)], compare_bytes)
    assert loop.time() - began >= reader.size / 5_000 > quick_s
    await world.stop()


@virtually
async def test_a_compacted_topic_is_compared_by_the_last_value_of_each_key() -> None:
    world = await a_world(count=0)
    for key in (b"a", b"b", b"a"):
        await _produce_keyed(world.agents[1], key)
    await until(lambda: all(agent.offsets()[0] == 3 for agent in world.agents.values()))
    reader = ReplicaReader(cast(AdminClient, ChangingClient(world)), addresses(world), RateLimiter(), 2_000)
    assert strategy_of("compact,delete") is compare_compacted
    assert strategy_of("delete") is compare_bytes
    found = await verify_partition(reader, TP, [BrokerId(b) for b in (1, 2, 3)], compare_compacted)
    assert (found.difference, found.to_offset) == (None, 3)
    await world.stop()


async def _produce_keyed(agent: AgentProcess, key: bytes) -> None:
    builder = BatchBuilder(10_000)
    builder.append(1, key, b"v")
    await agent.handle(ProduceRequest(-1, 5_000, (ProducePartition(TOPIC, 0, builder.build()),)))
