"""Requests of many items let others have their turn, and what happens in between is not missed."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from broker_agent.replication.purgatory import Purgatory
from cluster.aio.slices import SLICE
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerId, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.control import UpdateMetadataPartitionState, UpdateMetadataRequest, UpdateMetadataTopicState
from cluster.requests.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from simulator.record_batches import encode_client_batch
from tests.brokers.agents import TOPIC, TOPIC_ID, TP, AgentProcess, AgentWorld, until, virtually
from tests.conformance.agent.test_data_requests import lead_alone
from tests.turns import turns_during

PARTS = 10


def produce_of(process: AgentProcess, *partitions: int, acks: int = 1, timeout_ms: int = 30_000) -> ProduceRequest:
    batch = encode_client_batch(b"r", timestamp=process.world.clock.now_ms())
    return ProduceRequest(acks, timeout_ms, tuple(ProducePartition(TOPIC, n, batch) for n in partitions))


@pytest.mark.rule("BD-9")
@virtually
async def test_a_produce_of_many_items_is_appended_in_slices() -> None:
    world = AgentWorld()
    process = await lead_alone(world)
    assert await turns_during(process.handle(produce_of(process, *[0] * SLICE))) < 5
    for partitions in ([0] * PARTS * SLICE, range(PARTS * SLICE)):
        assert await turns_during(process.handle(produce_of(process, *partitions))) >= PARTS
    assert process.offsets() == (11 * SLICE + 1, 11 * SLICE + 1)
    await world.stop()


@pytest.mark.rule("R7.4", "R7.14", "BD-9")
@virtually
async def test_leadership_that_is_lost_and_regained_between_two_slices_acknowledges_nothing_from_before() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, (1, 2))
    leader = world.agents[1]
    # Its follower does not fetch, so that nothing is acknowledged yet.
    world.network.detach(leader.endpoint)
    producing = asyncio.ensure_future(leader.handle(produce_of(leader, *[0] * 2, *[9] * 10 * SLICE, acks=-1)))
    await until(lambda: leader.offsets()[1] == 2)
    assert not producing.done()
    for broker in (2, 1):
        world.decide(broker, (1, 2))
        await leader.handle(world.leader_and_isr(world.states[TP], broker_epoch=leader.epoch))
    log = leader.partition().log
    assert log is not None
    log.set_high_watermark(log.log_end_offset)
    response: ProduceResponse = await producing
    assert [r.error_code for r in response.partitions[:2]] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    await world.stop()


@pytest.mark.rule("R7.11", "R7.12", "BD-9")
@virtually
async def test_many_partitions_are_acknowledged_by_their_followers() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    partitions = [TopicPartition(TOPIC, number) for number in range(3 * SLICE)]
    for tp in partitions:
        world.decide(1, (1, 2), tp=tp)
    await world.update_metadata()
    for broker in (1, 2):
        await world.tell_together(broker, *partitions)
    response: ProduceResponse = await world.agents[1].handle(
        produce_of(world.agents[1], *(tp.partition for tp in partitions), acks=-1)
    )
    assert {result.error_code for result in response.partitions} == {ErrorCode.NONE}
    assert {world.agents[1].offsets(tp) for tp in partitions} == {(1, 1)}
    at_once: ProduceResponse = await world.agents[1].handle(
        produce_of(world.agents[1], *(tp.partition for tp in partitions), acks=-1, timeout_ms=0)
    )
    assert {result.error_code for result in at_once.partitions} == {ErrorCode.REQUEST_TIMED_OUT}
    world.network.detach(world.agents[1].endpoint)
    late: ProduceResponse = await world.agents[1].handle(
        produce_of(world.agents[1], *(tp.partition for tp in partitions), acks=-1, timeout_ms=100)
    )
    assert {result.error_code for result in late.partitions} == {ErrorCode.REQUEST_TIMED_OUT}
    await world.stop()


@pytest.mark.rule("R7.11", "BD-9")
@virtually
async def test_many_partitions_without_followers_are_acknowledged_without_waiting() -> None:
    world = AgentWorld()
    await world.start(1)
    partitions = [TopicPartition(TOPIC, number) for number in range(3 * SLICE)]
    for tp in partitions:
        world.decide(1, (1,), tp=tp)
    await world.update_metadata()
    await world.tell_together(1, *partitions)
    response: ProduceResponse = await world.agents[1].handle(
        produce_of(world.agents[1], *(tp.partition for tp in partitions), acks=-1, timeout_ms=0)
    )
    assert {result.error_code for result in response.partitions} == {ErrorCode.NONE}
    await world.stop()


@pytest.mark.rule("R13.3", "BD-9")
@virtually
async def test_an_operation_with_many_keys_is_tested_in_slices_once_it_is_watched() -> None:
    purgatory, tested = Purgatory("Produce", Metrics()), set[TopicPartition]()
    keys = [TopicPartition(TOPIC, number) for number in range(PARTS * SLICE)]

    def have_all_been_tested(key: TopicPartition) -> bool:
        tested.add(key)
        return len(tested) == len(keys)

    waiting = asyncio.ensure_future(purgatory.wait(have_all_been_tested, keys, 1000))
    await asyncio.sleep(0)
    assert 0 < len(tested) < len(keys)
    # What changes between two slices is tested at once.
    purgatory.check_and_complete(keys[-1])
    assert keys[-1] in tested
    assert await turns_during(asyncio.wait_for(waiting, 1)) >= PARTS - 1
    assert waiting.result() is True


@pytest.mark.rule("R4.13", "BD-9")
@pytest.mark.parametrize("named", [True, False])
@virtually
async def test_metadata_of_many_topics_and_partitions_are_described_in_slices(named: bool) -> None:
    world = AgentWorld()
    process = await lead_alone(world)
    one = BrokerId(1)

    def state(number: int) -> UpdateMetadataPartitionState:
        return UpdateMetadataPartitionState(number, world.controller_epoch, one, LeaderEpoch(0), (one,), 0, (one,))

    topics = (UpdateMetadataTopicState(TOPIC, TOPIC_ID, tuple(map(state, range(PARTS * SLICE)))),)
    plain = world.metadata()
    await process.handle(
        UpdateMetadataRequest(
            plain.controller_id, plain.controller_epoch, plain.broker_epoch, topics, plain.live_brokers
        )
    )
    request = MetadataRequest(tuple(f"t{number}" for number in range(PARTS * SLICE)) if named else None)
    assert await turns_during(process.handle(request)) >= PARTS
    described = (await process.handle(request)).topics
    assert len(described) == (PARTS * SLICE if named else 1)
    assert named or [p.partition_index for p in described[0].partitions] == list(range(PARTS * SLICE))
    await world.stop()


@pytest.mark.rule("R6.15", "BD-9")
@virtually
async def test_a_fetch_of_many_partitions_goes_to_wait_and_is_woken_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    world = AgentWorld()
    await world.start(1)
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTS * SLICE)]
    for tp in partitions:
        world.decide(1, (1,), tp=tp)
    await world.update_metadata()
    await world.tell_together(1, *partitions)
    process = world.agents[1]
    looked_up, compared = (Steps(process, monkeypatch, name) for name in ("lookup", "online"))
    items = tuple(FetchPartition(TOPIC, TOPIC_ID, tp.partition, Offset(0), 1 << 20) for tp in partitions)
    fetching = asyncio.ensure_future(process.handle(FetchRequest(BrokerId(-1), items, 30_000, 100, 1 << 20)))
    await asyncio.sleep(1)
    # Read, and tested once it is watched; not a third time.
    assert (looked_up.most, looked_up.all) == (SLICE, 2 * len(partitions))
    # Too little wakes nobody, and is not kept in memory while the request waits.
    await process.produce(1, tp=partitions[7])
    assert not fetching.done()
    await process.produce(2, tp=partitions[7])
    looked_up.all = compared.most = 0
    response: FetchResponse = await fetching
    assert [len(data.records) > 0 for data in response.partitions] == [n == 7 for n in range(len(partitions))]
    # Of all that it waited for, only what changed was read again; the others are lookups of the produce request.
    assert looked_up.all < 10
    assert compared.most <= SLICE + 1
    await world.stop()


class Steps:
    """Counts calls of a method of the replica manager: `all` together, and at the `most` in one turn of the loop."""

    def __init__(self, process: AgentProcess, patch: pytest.MonkeyPatch, name: str) -> None:
        self.most = self.all = self._of_turn = 0
        manager = process.agent.manager
        patch.setattr(manager, name, self._counted(getattr(manager, name)))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            if not self._of_turn:
                asyncio.get_running_loop().call_soon(self._end_turn)
            self._of_turn += 1
            return function(*args)

        return counted

    def _end_turn(self) -> None:
        self.most, self.all = max(self.most, self._of_turn), self.all + self._of_turn
        self._of_turn = 0
