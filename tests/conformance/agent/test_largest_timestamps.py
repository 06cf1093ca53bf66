"""ListOffsets finds the record with the largest timestamp and the first since a time, exactly, and the earliest record
that is stored here.
"""

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from broker_agent.log.partition_log import PartitionLog
from broker_agent.requests.timed_records import find_newest_record
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ErrorCode, LogAppendError
from cluster.requests.data import (
    EARLIEST_LOCAL_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ProducePartition,
    ProduceRequest,
)
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, virtually
from tests.conformance.agent.test_data_requests import lead_alone

NOTHING = (ErrorCode.NONE, -1, -1, -1)


def batch_of(*timestamps: int, codec: int = 0, offsets: tuple[int, ...] = ()) -> bytes:
    """A batch with a record for each time; `offsets`: where some were compacted away."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset, timestamp in zip(offsets or range(len(timestamps)), timestamps, strict=True):
        builder.append(offset, timestamp, b"key", b"value" * 10, [])
    return bytes(builder.build())


async def produce(process: AgentProcess, *batches: bytes) -> None:
    for batch in batches:
        answer = await process.handle(ProduceRequest(1, 1000, (ProducePartition(TOPIC, 0, batch),)))
        assert answer.partitions[0].error_code is ErrorCode.NONE, answer


async def ask(process: AgentProcess, timestamp: int = MAX_TIMESTAMP, replica: int = -1) -> tuple[ErrorCode, ...]:
    """(error, timestamp, offset, leader epoch)."""
    item = ListOffsetsPartition(TOPIC, TP.partition, timestamp)
    result = (await process.handle(ListOffsetsRequest(BrokerId(replica), (item,)))).partitions[0]
    return result.error_code, result.timestamp, result.offset, result.leader_epoch


def log_of(process: AgentProcess) -> PartitionLog:
    log = process.partition().log
    assert log is not None
    return log


@pytest.mark.rule("R6.24")
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@virtually
async def test_the_largest_timestamp_is_found_to_the_record(codec: int) -> None:
    world = AgentWorld()
    process = await lead_alone(world)
    now = world.clock.now_ms()
    assert await ask(process) == NOTHING
    await produce(process, batch_of(now, now + 1), batch_of(now + 2, now + 9, now + 9, now, codec=codec), batch_of(now))
    # Of two records with the same time the first.
    assert await ask(process) == (ErrorCode.NONE, now + 9, 3, 0)
    await produce(process, batch_of(now + 9), batch_of(now + 8, now + 10))
    assert await ask(process) == (ErrorCode.NONE, now + 10, 9, 0)
    await world.stop()


@pytest.mark.rule("R6.24")
@virtually
async def test_it_is_found_in_whichever_segment_it_is() -> None:
    world = AgentWorld(log_segment_bytes=300)
    process = await lead_alone(world)
    now = world.clock.now_ms()
    await produce(process, *(batch_of(now + time, now) for time in (1, 2, 9, 3, 9, 4, 5)))
    assert len(log_of(process).segments) > 3
    assert await ask(process) == (ErrorCode.NONE, now + 9, 4, 0)
    log_of(process).raise_log_start_offset(Offset(6))
    assert await ask(process) == (ErrorCode.NONE, now + 9, 8, 0)
    log_of(process).raise_log_start_offset(Offset(9))
    assert await ask(process) == (ErrorCode.NONE, now + 5, 12, 0)
    await world.stop()


@pytest.mark.rule("R6.21")
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@virtually
async def test_a_time_is_found_to_the_record(codec: int) -> None:
    world = AgentWorld()
    process = await lead_alone(world)
    now = world.clock.now_ms()
    await produce(process, batch_of(now, now + 1), batch_of(now + 2, now + 9, now + 5, now + 9, codec=codec))
    assert await ask(process, now + 1) == (ErrorCode.NONE, now + 1, 1, 0)
    assert await ask(process, now + 3) == (ErrorCode.NONE, now + 9, 3, 0)
    assert await ask(process, now + 10) == NOTHING
    # What is below the log start is gone: of the same batch, the next record that is as late.
    log_of(process).raise_log_start_offset(Offset(4))
    assert await ask(process, now + 3) == (ErrorCode.NONE, now + 5, 4, 0)
    assert await ask(process, now + 6) == (ErrorCode.NONE, now + 9, 5, 0)
    await world.stop()


@pytest.mark.rule("R6.21")
@virtually
async def test_a_batch_of_which_only_deleted_records_are_so_late_is_passed() -> None:
    world = AgentWorld()
    process = await lead_alone(world)
    now = world.clock.now_ms()
    await produce(process, batch_of(now + 9, now, now + 1), batch_of(now + 2), batch_of(now + 7, now + 8))
    log_of(process).raise_log_start_offset(Offset(1))
    assert await ask(process, now + 8) == (ErrorCode.NONE, now + 8, 5, 0)
    assert await ask(process, now + 9) == NOTHING
    await world.stop()


@pytest.mark.rule("R6.24")
@virtually
async def test_consumers_are_not_given_what_is_not_committed() -> None:
    world = AgentWorld()
    process = await lead_alone(world, 2)
    now = world.clock.now_ms()
    await produce(process, batch_of(now))
    assert await ask(process) == NOTHING
    assert await ask(process, replica=-2) == (ErrorCode.NONE, now, 0, 0)
    world.decide(1, [1, 2])
    await world.tell(1)
    assert (await ask(process))[0] is ErrorCode.OFFSET_NOT_AVAILABLE
    world.decide(2, [1, 2])
    await world.tell(1)
    assert (await ask(process))[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await world.stop()


@pytest.mark.rule("R6.24")
@virtually
async def test_with_times_of_the_append_it_is_the_first_record_of_the_newest_batch() -> None:
    world = AgentWorld(log_message_timestamp_type="LogAppendTime")
    process = await lead_alone(world)
    await produce(process, batch_of(5, 9, 7))
    assert await ask(process) == (ErrorCode.NONE, log_of(process).segments.active.largest_timestamp, 0, 0)
    await world.stop()


@pytest.mark.rule("R6.24")
@virtually
async def test_without_timestamps_there_is_none() -> None:
    world = AgentWorld()
    process = await lead_alone(world)
    await produce(process, batch_of(-1, -1))
    assert await ask(process) == NOTHING
    await world.stop()


@pytest.mark.rule("R6.21")
@virtually
async def test_the_earliest_local_record_is_the_earliest_one() -> None:
    world = AgentWorld()
    process = await lead_alone(world)
    await produce(process, batch_of(-1, -1))
    log_of(process).raise_log_start_offset(Offset(1))
    assert await ask(process, EARLIEST_LOCAL_TIMESTAMP) == (ErrorCode.NONE, -1, 1, 0)
    await world.stop()


@pytest.mark.rule("R6.24")
def test_a_compacted_batch_has_gaps_between_its_offsets() -> None:
    found = find_newest_record(batch_of(5, 9, 7, offsets=(0, 4, 6)), Offset(0), 1 << 20)
    assert found == (9, 4)
    assert find_newest_record(batch_of(5, 9, 7, offsets=(0, 4, 6)), Offset(5), 1 << 20) == (7, 6)
    assert find_newest_record(batch_of(5, 9), Offset(2), 1 << 20) is None


@pytest.mark.rule("R6.24")
@pytest.mark.parametrize(("attributes", "body"), [(1, b"not gzip"), (7, b""), (0, b"\x10\x00")])
def test_a_batch_that_cannot_be_read_is_corrupt(attributes: int, body: bytes) -> None:
    header = bytearray(batch_of(5)[:61])
    header[22] = attributes
    with pytest.raises(LogAppendError) as refused:
        find_newest_record(bytes(header) + body, Offset(0), 1 << 20)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert refused.value.why.startswith("the batch at offset 0 cannot be read")
