"""Metrics of data requests per topic, and requests that are refused."""

from collections.abc import Sequence

import pytest

from cluster.model.broker import BrokerId, Offset, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import FetchPartition, FetchRequest, ProducePartition, ProducePartitionResult, ProduceRequest
from simulator.record_batches import encode_client_batch
from tests.brokers.agents import TOPIC, TOPIC_ID, TP, AgentProcess, AgentWorld, virtually

BATCH = encode_client_batch(b"r" * 20, 3)


async def lead(world: AgentWorld, *partitions: TopicPartition) -> AgentProcess:
    await world.start(1)
    for tp in partitions:
        world.decide(1, (1,), tp=tp)
    await world.update_metadata()
    for tp in partitions:
        await world.tell(1, tp=tp)
    return world.agents[1]


async def produce(leader: AgentProcess, records: bytes, tp: TopicPartition = TP) -> ProducePartitionResult:
    response = await leader.handle(ProduceRequest(1, 1000, (ProducePartition(tp.topic, tp.partition, records),)))
    result: ProducePartitionResult = response.partitions[0]
    return result


def meters(leader: AgentProcess, names: Sequence[str]) -> list[int]:
    """Those of the topic, which must be the same as those of the broker."""
    of_topic = [leader.metrics.meter("kafka.server", "BrokerTopicMetrics", name, topic=TOPIC).count for name in names]
    of_broker = [leader.metrics.meter("kafka.server", "BrokerTopicMetrics", name).count for name in names]
    assert of_topic == of_broker
    return of_topic


@pytest.mark.rule("R6.16")
@virtually
async def test_a_fetch_that_had_to_wait_is_counted_once_and_only_consumers_count_as_readers() -> None:
    world = AgentWorld()
    leader = await lead(world, TP)
    await leader.fetch(0, max_wait_ms=100)
    assert meters(leader, ["TotalFetchRequestsPerSec", "BytesOutPerSec"]) == [1, 0]
    await produce(leader, BATCH)
    await leader.fetch(0)
    await leader.fetch(0, epoch=9)
    await leader.fetch(99)
    names = ["TotalFetchRequestsPerSec", "BytesOutPerSec", "FailedFetchRequestsPerSec"]
    assert meters(leader, names) == [4, len(BATCH), 1]
    await world.stop()


@pytest.mark.rule("R7.6", "R7.2")
@virtually
async def test_what_is_appended_counts_once_and_what_is_refused_by_its_reason() -> None:
    world = AgentWorld(message_max_bytes=200)
    leader = await lead(world, TP)
    once = encode_client_batch(b"r", 2, producer_id=7, producer_epoch=0, base_sequence=0)
    too_large = encode_client_batch(b"r" * 200, 1)
    for records in (BATCH, once, once, too_large, BATCH[:-1], BATCH[:16] + b"\1" + BATCH[17:], BATCH + BATCH):
        await produce(leader, records)
    await produce(leader, encode_client_batch(b"r", 1, producer_id=7, producer_epoch=0, base_sequence=9))
    await produce(leader, encode_client_batch(b"r", 1, producer_id=9))
    assert meters(leader, ["TotalProduceRequestsPerSec", "MessagesInPerSec", "BytesInPerSec"]) == [
        9,
        5,
        len(BATCH) + len(once),
    ]
    assert meters(leader, ["BytesRejectedPerSec", "InvalidMessageCrcRecordsPerSec"]) == [len(too_large), 1]
    names = ["InvalidMagicNumberRecordsPerSec", "InvalidOffsetOrSequenceRecordsPerSec", "FailedProduceRequestsPerSec"]
    assert meters(leader, names) == [1, 1, 4]  # Too large and corrupt are no unexpected errors.
    await world.stop()


@pytest.mark.rule("R7.2")
@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
@virtually
async def test_internal_topics_are_not_for_clients(topic: str) -> None:
    world = AgentWorld()
    internal = TopicPartition(topic, 0)
    leader = await lead(world, internal)
    assert (await produce(leader, BATCH, internal)).error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (await produce(leader, BATCH + BATCH, internal)).error_code is ErrorCode.INVALID_RECORD
    assert leader.offsets(internal) == (0, 0)
    await world.stop()


@pytest.mark.rule("R6.1", "R7.2")
@virtually
async def test_a_topic_id_that_exists_but_is_not_that_of_the_log_is_inconsistent() -> None:
    world = AgentWorld()
    leader = await lead(world, TP)
    other = TopicId("BAAAAAAAAAAAAAAAAAAAAQ")
    log = leader.partition().log
    assert log is not None
    log.set_topic_id(other)
    item = FetchPartition(TOPIC, TOPIC_ID, 0, Offset(0), 1 << 20)
    response = await leader.handle(FetchRequest(BrokerId(-1), (item,), 0, 1, 1 << 20))
    assert response.partitions[0].error_code is ErrorCode.INCONSISTENT_TOPIC_ID
    item = FetchPartition(TOPIC, None, 0, Offset(0), 1 << 20)
    response = await leader.handle(FetchRequest(BrokerId(-1), (item,), 0, 1, 1 << 20))
    assert response.partitions[0].error_code is ErrorCode.NONE
    await world.stop()
