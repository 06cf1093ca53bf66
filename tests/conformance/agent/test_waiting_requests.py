"""When high watermarks advance, which delayed requests complete, and what acks wait for."""

import asyncio

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import ProducePartition, ProduceRequest, ProduceResponse
from simulator.record_batches import encode_client_batch
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, until, virtually

OTHER = TopicPartition(TOPIC, 1)


async def lead(world: AgentWorld, *isr: int, tp: TopicPartition = TP) -> AgentProcess:
    """Agent 1 leads; the other members of the ISR live only in the controller's words, and a test plays them."""
    if not world.agents:
        await world.start(1)
    leader = world.agents[1]
    world.decide(1, isr, tp=tp)
    absent = [broker for broker in isr if broker not in world.agents]
    world.agents.update(dict.fromkeys(absent, leader))
    await world.update_metadata(to=[1])
    for broker in absent:
        del world.agents[broker]
    await world.tell(1, tp=tp)
    return leader


def gauges(process: AgentProcess, operation: str) -> tuple[float, float]:
    """(entries in the lists of the purgatory, operations with a running timer)."""
    names, type_ = ("PurgatorySize", "NumDelayedOperations"), "DelayedOperationPurgatory"
    size, timers = (process.metrics.gauge("kafka.server", type_, n, delayedOperation=operation) for n in names)
    return size.value, timers.value


@pytest.mark.rule("R6.19", "R7.9")
@virtually
async def test_the_high_watermark_is_computed_at_an_append_a_fetch_an_election_and_an_isr_change() -> None:
    world = AgentWorld(replica_lag_time_max_ms=2000)
    leader = await lead(world, 1)
    await leader.produce(2)
    assert leader.offsets() == (2, 2)  # Alone in the ISR: at once.
    world.decide(1, (1, 2), replicas=(1, 2))
    await world.tell(1)
    await leader.produce(2)
    assert leader.offsets() == (2, 4)
    await leader.fetch(3, replica=2, epoch=1)
    assert leader.offsets() == (3, 4)
    world.decide(1, (1,))
    await world.tell(1)
    assert leader.offsets() == (4, 4)  # Elected with an ISR that has everything.
    world.decide(1, (1, 2))
    await world.tell(1)
    await leader.produce(1)
    assert leader.offsets() == (4, 5)
    await until(lambda: leader.partition().isr == (1,))
    assert leader.offsets() == (5, 5)  # The shrink was committed.
    await world.stop()


@pytest.mark.rule("R7.9", "R13.9")
@virtually
async def test_an_append_wakes_followers_and_one_that_commits_wakes_everybody() -> None:
    world = AgentWorld()
    leader = await lead(world, 1, 2)
    async with asyncio.TaskGroup() as group:
        follower = group.create_task(leader.fetch(0, replica=2, epoch=0, max_wait_ms=9000))
        consumer = group.create_task(leader.fetch(0, max_wait_ms=9000))
        await asyncio.sleep(0.1)
        producer = group.create_task(leader.produce(5, acks=-1, timeout_ms=9000))
        await asyncio.sleep(0.001)
        assert (follower.done(), consumer.done(), producer.done()) == (True, False, False)
        world.decide(1, (1,))
        await world.tell(1)
        await asyncio.sleep(0.001)
        assert (consumer.result().records, producer.result().error_code) == (follower.result().records, ErrorCode.NONE)
    async with asyncio.TaskGroup() as group:
        consumer = group.create_task(leader.fetch(5, max_wait_ms=9000))
        await asyncio.sleep(0.1)
        await leader.produce(1)
        await asyncio.sleep(0.001)
        assert consumer.done()
    await world.stop()


@pytest.mark.rule("R7.11", "R7.12", "R7.13", "R7.3")
@virtually
async def test_an_acknowledgement_waits_for_the_last_offset_of_what_was_appended_and_for_nothing_else() -> None:
    world = AgentWorld()
    leader = await lead(world, 1, 2)
    await lead(world, 1, 2, tp=OTHER)
    batch = encode_client_batch(b"r", 4)
    items = (
        ProducePartition(TOPIC, 0, batch),
        ProducePartition(TOPIC, 1, batch[:-1]),
        ProducePartition("nowhere", 0, batch),
    )
    waiting = asyncio.ensure_future(leader.handle(ProduceRequest(-1, 5000, items)))
    await asyncio.sleep(0.01)
    assert gauges(leader, "Produce") == (1, 1)
    await leader.fetch(3, replica=2, epoch=0)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await leader.fetch(4, replica=2, epoch=0)
    response: ProduceResponse = await waiting
    assert [(r.error_code, r.base_offset) for r in response.partitions] == [
        (ErrorCode.NONE, 0),
        (ErrorCode.CORRUPT_MESSAGE, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    both = (ProducePartition(TOPIC, 0, batch), ProducePartition(TOPIC, 1, batch))
    waiting = asyncio.ensure_future(leader.handle(ProduceRequest(-1, 5000, both)))
    await asyncio.sleep(0.01)
    await leader.fetch(4, replica=2, epoch=0, tp=OTHER)
    response = await waiting
    assert [r.error_code for r in response.partitions] == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    assert leader.offsets() == (4, 8)  # What timed out stays, and may still be committed.
    assert leader.metrics.meter("kafka.server", "DelayedProduceMetrics", "ExpiresPerSec").count == 1
    nothing_appended = await leader.handle(ProduceRequest(-1, 5000, items[1:]))
    codes = [r.error_code for r in nothing_appended.partitions]
    assert codes == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    await world.stop()


@pytest.mark.rule("R7.14")
@virtually
async def test_a_leader_elected_again_goes_on_waiting_and_acknowledges_when_the_offset_is_committed() -> None:
    world = AgentWorld()
    leader = await lead(world, 1, 2)
    waiting = asyncio.ensure_future(leader.produce(3, acks=-1, timeout_ms=20_000))
    await asyncio.sleep(0.01)
    world.decide(1, (1, 2))
    await world.tell(1)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await leader.fetch(3, replica=2, epoch=1)
    assert (await waiting).error_code is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("R7.12")
@virtually
async def test_what_was_committed_by_too_few_is_answered_so() -> None:
    world = AgentWorld()
    leader = await lead(world, 1, 2)
    log = leader.partition().log
    assert log is not None
    waiting = asyncio.ensure_future(leader.produce(3, acks=-1, timeout_ms=20_000))
    await asyncio.sleep(0.01)
    await leader.fetch(1, replica=2, epoch=0)
    # The offset is committed in the same moment in which the topic begins to demand more than there are.
    log.set_high_watermark(log.log_end_offset)
    leader.partition().assignment = replace(leader.partition().assignment, replicas=tuple(map(BrokerId, (1, 2, 3))))
    log.config = replace(log.config, min_insync_replicas=3)
    leader.agent.manager.complete_delayed(TP)
    result = await waiting
    assert (result.error_code, result.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0)
    refused = await leader.produce(1, acks=-1)
    assert refused.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (await leader.produce(1, acks=1)).error_code is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("R13.3", "P36")
@virtually
async def test_what_happens_while_a_request_goes_to_wait_is_not_missed() -> None:
    world = AgentWorld()
    leader = await lead(world, 1, 2)
    loop = asyncio.get_running_loop()
    started = loop.time()
    for end in range(1, 40, 2):
        # In one and the same step of the loop a producer goes to wait and its record is fetched away ...
        result, _ = await asyncio.gather(
            leader.produce(1, acks=-1, timeout_ms=5000), leader.fetch(end, replica=2, epoch=0)
        )
        assert result.error_code is ErrorCode.NONE
        # ... and a follower goes to wait and its record comes.
        data, producing = await asyncio.gather(
            leader.fetch(end, replica=2, epoch=0, max_wait_ms=5000), leader.produce(1, acks=1)
        )
        assert (len(data.records) > 0, producing.base_offset) == (True, end)
    assert loop.time() - started < 1
    assert (gauges(leader, "Produce"), gauges(leader, "Fetch")) == ((0, 0), (0, 0))
    await world.stop()


@pytest.mark.rule("R13.7", "R0.4")
@virtually
async def test_nobody_is_woken_in_the_middle_of_a_role_change() -> None:
    world = AgentWorld()
    leader = await lead(world, 1, 2)
    partition, tested = leader.partition(), list[bool]()

    def record(_: TopicPartition) -> bool:
        tested.append(partition.is_changing_role)
        return False

    purgatories = (leader.agent.manager.produce_purgatory, leader.agent.manager.fetch_purgatory)
    waits = [asyncio.ensure_future(purgatory.wait(record, (TP,), 60_000)) for purgatory in purgatories]
    await leader.produce(2)
    for state in (world.decide(1, (1,)), world.decide(2, (1, 2)), world.decide(1, (1,))):
        world.states[TP] = state
        await world.update_metadata(1, to=[1])
        await world.tell(1)
    await leader.produce(2)
    await world.stop_replica(1, delete=True, epoch=-2)
    assert len(tested) >= 6
    assert not any(tested)
    for waiting in waits:
        waiting.cancel()
    await world.stop()


@pytest.mark.rule("R13.8", "R13.6")
@virtually
async def test_produce_and_fetch_wait_in_purgatories_of_their_own() -> None:
    world = AgentWorld()
    leader = await lead(world, 1, 2)
    producing = asyncio.ensure_future(leader.produce(1, acks=-1, timeout_ms=500))
    await asyncio.sleep(0.01)
    assert (gauges(leader, "Produce"), gauges(leader, "Fetch")) == ((1, 1), (0, 0))
    fetching = asyncio.ensure_future(leader.fetch(1, replica=2, epoch=0, max_wait_ms=500))
    await asyncio.sleep(0.01)
    assert (await producing).error_code is ErrorCode.NONE
    assert (gauges(leader, "Produce"), gauges(leader, "Fetch")) == ((0, 0), (1, 1))
    await fetching
    expired = leader.metrics.meter("kafka.server", "DelayedFetchMetrics", "ExpiresPerSec", fetcherType="follower")
    assert (gauges(leader, "Fetch"), expired.count) == ((0, 0), 1)
    await world.stop()
