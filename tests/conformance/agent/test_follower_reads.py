"""Consumers near a follower, and debugging consumers, read from it; the leader sends consumers there (KIP-392)."""

import asyncio

import pytest
from msgspec.structs import replace

from broker_agent.log.record_batch import parse_header
from cluster.model.broker import BrokerId, LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.control import UpdateMetadataRequest
from cluster.requests.data import FetchPartition, FetchPartitionData, FetchRequest
from tests.brokers.agents import TOPIC, TOPIC_ID, TP, AgentProcess, AgentWorld, finished, until, virtually

RACKS = {BrokerId(1): "a", BrokerId(2): "b"}
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class WorldInRacks(AgentWorld):
    def metadata(self, *alive: int) -> UpdateMetadataRequest:
        request = super().metadata(*alive)
        return replace(request, live_brokers=tuple(replace(b, rack=RACKS[b.id]) for b in request.live_brokers))


async def world_in_racks(**settings: object) -> AgentWorld:
    """Agent 1 leads in rack a, agent 2 follows in rack b and has all five records."""
    world = WorldInRacks(**settings)
    await world.start(1, 2)
    await world.create(1, (1, 2))
    await world.agents[1].produce(5)
    await until(lambda: world.agents[2].offsets() == (5, 5))
    return world


async def fetch(
    process: AgentProcess, offset: int, rack: str, *, replica: int = -1, epoch: int = -1, **waiting: int
) -> FetchPartitionData:
    item = FetchPartition(TOPIC, TOPIC_ID, TP.partition, Offset(offset), 1 << 20, LeaderEpoch(epoch))
    waits = (waiting.get("max_wait_ms", 0), waiting.get("min_bytes", 1))
    response = await process.handle(FetchRequest(BrokerId(replica), (item,), *waits, 1 << 20, rack_id=rack))
    data: FetchPartitionData = response.partitions[0]
    return data


@pytest.mark.rule("R6.23", "R6.14")
@virtually
async def test_a_leader_sends_a_consumer_to_the_follower_in_its_rack_at_once() -> None:
    world = await world_in_racks(replica_selector_class=RACK_AWARE)
    leader = world.agents[1]
    sent = await finished(fetch(leader, 2, "b", max_wait_ms=30_000, min_bytes=1 << 20), within_s=1)
    assert (sent.error_code, sent.preferred_read_replica, sent.records) == (ErrorCode.NONE, 2, b"")
    assert (sent.high_watermark, sent.log_start_offset) == (5, 0)
    for rack in ("", "a", "c"):
        read = await fetch(leader, 2, rack)
        assert (read.preferred_read_replica, bool(read.records)) == (-1, True)
    # Neither a follower nor an offset that nobody has is sent elsewhere.
    assert (await fetch(leader, 5, "b", replica=2)).preferred_read_replica == -1
    beyond = await fetch(leader, 6, "b")
    assert (beyond.error_code, beyond.preferred_read_replica) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    await world.stop()


@pytest.mark.rule("R6.23")
@virtually
async def test_without_a_selector_everybody_reads_from_the_leader() -> None:
    world = await world_in_racks()
    read = await fetch(world.agents[1], 2, "b")
    assert (read.preferred_read_replica, bool(read.records)) == (-1, True)
    await world.stop()


@pytest.mark.rule("R6.23")
@virtually
async def test_a_dead_follower_is_nobodys_preference() -> None:
    world = await world_in_racks(replica_selector_class=RACK_AWARE)
    await world.update_metadata(1)
    assert (await fetch(world.agents[1], 2, "b")).preferred_read_replica == -1
    await world.stop()


@pytest.mark.rule("R6.4", "R6.8")
@virtually
async def test_a_follower_answers_consumers_that_name_their_rack_up_to_its_high_watermark() -> None:
    world = await world_in_racks()
    follower = world.agents[2]
    log = follower.partition().log
    assert log is not None
    read = await fetch(follower, 0, "b", epoch=0)
    assert (read.error_code, parse_header(read.records).last_offset, read.high_watermark) == (ErrorCode.NONE, 4, 5)
    assert (await follower.fetch(0)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await fetch(follower, 0, "b", replica=3)).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await fetch(follower, 0, "b", epoch=1)).error_code is ErrorCode.UNKNOWN_LEADER_EPOCH
    log.set_high_watermark(Offset(3))
    assert (await fetch(follower, 3, "b")).records == b""
    assert (await fetch(follower, 6, "b")).error_code is ErrorCode.OFFSET_OUT_OF_RANGE
    await world.stop()


@pytest.mark.rule("R6.15", "R13.9")
@virtually
async def test_a_consumer_waits_at_a_follower_until_its_high_watermark_rises() -> None:
    world = await world_in_racks()
    leader, follower = world.agents[1], world.agents[2]
    waiting = asyncio.ensure_future(fetch(follower, 5, "b", max_wait_ms=30_000))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await leader.produce(1, acks=-1)
    read = await finished(waiting, within_s=5)
    assert (parse_header(read.records).base_offset, read.high_watermark) == (5, 6)
    await world.stop()


@pytest.mark.rule("R6.8", "R6.4")
@pytest.mark.parametrize("broker", [1, 2])
@virtually
async def test_a_debugging_consumer_reads_all_that_a_replica_has(broker: int) -> None:
    world = await world_in_racks()
    process = world.agents[broker]
    log = process.partition().log
    assert log is not None
    world.network.detach(world.agents[3 - broker].endpoint)
    log.set_high_watermark(Offset(5))
    if broker == 1:
        await process.produce(2)
    else:
        log.append_as_follower((await _copied(world)), log.latest_epoch or 0)
    assert process.offsets() == (5, 7)
    read = await process.fetch(5, replica=-2)
    assert (read.error_code, parse_header(read.records).last_offset, read.high_watermark) == (ErrorCode.NONE, 6, 5)
    await world.stop()


@pytest.mark.rule("R6.15", "R6.17")
@virtually
async def test_a_debugging_consumer_waits_for_the_log_end() -> None:
    world = await world_in_racks()
    leader = world.agents[1]
    world.network.detach(world.agents[2].endpoint)
    waiting = asyncio.ensure_future(leader.fetch(5, replica=-2, max_wait_ms=30_000))
    await asyncio.sleep(0.01)
    await leader.produce(1)
    read = await finished(waiting, within_s=1)
    assert parse_header(read.records).base_offset == 5
    await world.stop()


async def _copied(world: AgentWorld) -> bytes:
    """Two records as the leader of another agent would have them at offset 5."""
    item = FetchPartition(TOPIC, TOPIC_ID, TP.partition, Offset(5), 1 << 20)
    await world.agents[1].produce(2)
    response = await world.agents[1].handle(FetchRequest(BrokerId(2), (item,), 0, 1, 1 << 20))
    records: bytes = response.partitions[0].records
    return records
