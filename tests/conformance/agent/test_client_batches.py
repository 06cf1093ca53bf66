"""Batches of clients at the leader: what is refused, and that validating one keeps the order of all."""

import asyncio
import zlib
from random import Random

import pytest
from msgspec.structs import replace

from broker_agent.requests.batch_validation import AT_ONCE_MAX
from cluster.model.errors import ErrorCode
from cluster.requests.data import ProducePartition, ProducePartitionResult, ProduceRequest
from simulator.record_batches import encode_batch, encode_client_batch, encode_records
from tests.brokers.agents import TOPIC, AgentProcess, AgentWorld, virtually
from tests.conformance.agent.test_metrics import scrape

RANDOM = Random(7).randbytes(40)
LARGE = AT_ONCE_MAX + 1


async def lead(world: AgentWorld) -> AgentProcess:
    await world.start(1)
    world.decide(1, [1])
    await world.update_metadata()
    await world.tell(1)
    return world.agents[1]


async def send(leader: AgentProcess, *batches: bytes, acks: int = 1) -> list[ProducePartitionResult]:
    items = tuple(ProducePartition(TOPIC, 0, records) for records in batches)
    return list((await leader.handle(ProduceRequest(acks, 1000, items))).partitions)


@pytest.mark.rule("R7.16", "R7.3")
@virtually
async def test_batches_whose_records_are_rubbish_are_refused_and_leave_no_offset() -> None:
    world = AgentWorld()
    leader = await lead(world)
    gzipped = zlib.compress(encode_records(b"v", 3), wbits=31)
    cases = [
        (encode_batch(b"", 1), ErrorCode.INVALID_RECORD),
        (encode_batch(RANDOM, 3), ErrorCode.INVALID_RECORD),
        (encode_batch(b"", 2**31 - 1), ErrorCode.INVALID_RECORD),
        (encode_batch(encode_records(b"v", 3), 4), ErrorCode.INVALID_RECORD),
        (encode_batch(encode_records(b"v", 3), 2), ErrorCode.INVALID_RECORD),
        (encode_batch(RANDOM, 3, attributes=1), ErrorCode.INVALID_RECORD),
        (encode_batch(gzipped[:-1], 3, attributes=1), ErrorCode.INVALID_RECORD),
        (encode_batch(gzipped, 3, attributes=2), ErrorCode.INVALID_RECORD),
        (encode_batch(gzipped, 3, attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (encode_batch(gzipped, 3, attributes=1), ErrorCode.NONE),
        (encode_client_batch(b"good"), ErrorCode.NONE),
    ]
    results = [result for records, _ in cases for result in await send(leader, records)]
    assert [result.error_code for result in results] == [code for _, code in cases]
    assert all(result.error_message for result in results[:-2])
    assert [result.base_offset for result in results[-2:]] == [0, 3]
    assert [[e.batch_index for e in result.record_errors] for result in results[:5]] == [[0], [0], [0], [3], [1]]
    assert leader.offsets() == (4, 4)
    await world.stop()


@pytest.mark.rule("R7.17")
@virtually
async def test_a_bomb_is_too_large() -> None:
    world = AgentWorld(klamm_max_decompressed_batch_bytes=10_000)
    leader = await lead(world)
    largest, larger = encode_client_batch(bytes(9_900), gzip=True), encode_client_batch(bytes(10_000), gzip=True)
    [accepted, refused] = await send(leader, largest, larger)
    assert (accepted.error_code, refused.error_code) == (ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE)
    assert "klamm.max.decompressed.batch.bytes" in refused.error_message
    await world.stop()


@pytest.mark.rule("R7.16")
@virtually
async def test_records_without_keys_are_counted_on_a_compacted_topic() -> None:
    world = AgentWorld()
    leader = await lead(world)
    log = leader.partition().log
    assert log is not None
    log.config = replace(log.config, cleanup_policy="compact")
    [result] = await send(leader, encode_client_batch(b"v", 2))
    assert result.error_code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == [0, 1]
    counted = [v for n, v in scrape(leader.metrics).items() if "nokeycompactedtopicrecords" in n]
    assert counted
    assert all(value == 1 for value in counted)
    await world.stop()


def numbered(sequence: int, kind: int) -> bytes:
    """Batches that take no time, some time as they are compressed, and some time as they are large."""
    value = bytes(LARGE) if kind == 2 else b"v"
    return encode_client_batch(value, producer_id=9, producer_epoch=0, base_sequence=sequence, gzip=kind == 1)


@pytest.mark.rule("R7.18", "R7.6")
@pytest.mark.parametrize("seed", range(5))
def test_the_batches_of_an_idempotent_producer_are_appended_as_they_arrive(seed: int) -> None:
    @virtually
    async def check() -> None:
        world, random = AgentWorld(), Random(seed)
        leader = await lead(world)
        batches = [numbered(sequence, random.randrange(3)) for sequence in range(30)]
        results = await asyncio.gather(*(send(leader, records) for records in batches))
        assert [result.error_code for [result] in results] == [ErrorCode.NONE] * 30
        assert [result.base_offset for [result] in results] == list(range(30))
        await world.stop()

    check()


@pytest.mark.rule("R7.18", "R7.6")
@virtually
async def test_a_request_given_up_while_it_waits_lets_nobody_pass_those_before_it() -> None:
    world = AgentWorld()
    leader = await lead(world)
    requests = [asyncio.ensure_future(send(leader, numbered(n, 1))) for n in (0, 1, 2)]
    requests.append(asyncio.ensure_future(send(leader, encode_client_batch(b"last"))))
    await asyncio.sleep(0)
    requests[1].cancel()
    [[first], cancelled, [gap], [last]] = await asyncio.gather(*requests, return_exceptions=True)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert (first.base_offset, gap.error_code) == (0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert last.base_offset == 1
    await world.stop()


@pytest.mark.rule("R7.18", "R7.4")
@virtually
async def test_leadership_lost_while_a_batch_is_validated_refuses_it() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    world.decide(1, [1, 2])
    await world.update_metadata()
    await world.tell(1, 2)
    former = world.agents[1]
    sent = asyncio.ensure_future(send(former, encode_client_batch(b"v", gzip=True)))
    await asyncio.sleep(0)
    world.decide(2, [2, 1])
    await world.tell(1, 2)
    [result] = await sent
    assert result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [agent.offsets()[1] for agent in world.agents.values()] == [0, 0]
    await world.stop()
