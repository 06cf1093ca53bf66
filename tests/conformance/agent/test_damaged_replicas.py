"""Replicas that lost records, or whose logs cannot be loaded, on an agent that goes on with the others."""

import asyncio

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import (
    AcknowledgeDamageRequest,
    DescribeFindingsRequest,
    DescribeFindingsResponse,
    Finding,
)
from cluster.requests.data import DeleteRecordsPartition, DeleteRecordsRequest
from state_log.record import Kind
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, until, virtually

OTHER = TopicPartition(TOPIC, 1)
LOG = f"{0:020d}.log"


async def world_of_two(**settings: object) -> AgentWorld:
    """Broker 2 leads both partitions, broker 1 follows; three batches in each, the high watermarks checkpointed."""
    world = AgentWorld(replica_high_watermark_checkpoint_interval_ms=1000, **settings)
    await world.start(1, 2)
    for tp in (TP, OTHER):
        world.decide(2, [1, 2], tp=tp)
    await world.update_metadata()
    for broker in (2, 1):
        await world.tell_together(broker, TP, OTHER)
    for tp in (TP, OTHER):
        for _ in range(3):
            await world.agents[2].produce(10, tp=tp)
    await until(lambda: world.agents[1].offsets()[1] == world.agents[1].offsets(OTHER)[1] == 30)
    await asyncio.sleep(3)
    return world


def overwrite(agent: AgentProcess, file: str, at: int, content: bytes) -> None:
    path = f"/data/{TP}/{file}"
    before = agent.disk.read_file(path)
    assert before is not None
    opened = agent.disk.open_file(path)
    opened.truncate(0)
    opened.append([before[:at] + content + before[at + len(content) :]])


def size_of_batch(agent: AgentProcess) -> int:
    content = agent.disk.read_file(f"/data/{TP}/{LOG}")
    assert content is not None
    return len(content) // 3


async def findings(agent: AgentProcess) -> tuple[Finding, ...]:
    response: DescribeFindingsResponse = await agent.handle(DescribeFindingsRequest())
    return response.findings


async def restart(world: AgentWorld) -> AgentProcess:
    """Broker 1 comes back after a kill; a controller tells it its role again."""
    await asyncio.sleep(7)
    await world.agents[1].start()
    await world.update_metadata()
    return world.agents[1]


@pytest.mark.rule("R9.22")
@virtually
async def test_a_damaged_follower_is_reported_until_it_has_fetched_again() -> None:
    world = await world_of_two()
    agent = world.agents[1]
    await agent.crash()
    overwrite(agent, LOG, size_of_batch(agent) * 2, b"\xff" * 8)
    await restart(world)
    (found,) = await findings(agent)
    assert (found.kind, found.topic, found.partition, found.broker) == ("damaged_replica", *TP, 1)
    assert f"/data/{TP}/{LOG} at byte" in found.detail
    assert "offsets 20..29 are damaged in /data" in found.detail
    (record,) = [record for record in agent.records.all if record.kind is Kind.TRUNCATION]
    assert (record.topic, record.partition, record.from_offset, record.to_offset) == (*TP, 30, 20)
    await take_out(world)
    with capture_logs() as lines:
        await until(lambda: agent.offsets()[1] == 30)
        assert [finding.kind for finding in await findings(agent)] == ["damaged_replica"]
        await back_in_sync(world)
        assert await findings(agent) == ()
    (line,) = [line for line in lines if line["event"].startswith("Damaged replica is healed")]
    assert (line["log_level"], line["partition"]) == ("info", str(TP))
    await world.stop()


async def take_out(world: AgentWorld) -> None:
    """As a controller does to whom the replica of broker 1 was named: broker 2 goes on alone."""
    world.decide(2, [2])
    await world.update_metadata()
    await world.tell(2, 1)


async def back_in_sync(world: AgentWorld) -> None:
    await until(lambda: world.states[TP].isr == (2, 1))
    await world.update_metadata()


async def crash_with_a_cut(world: AgentWorld) -> AgentProcess:
    """Broker 1 is back without the last ten of its thirty records."""
    agent = world.agents[1]
    await agent.crash()
    overwrite(agent, LOG, size_of_batch(agent) * 2, b"\xff" * 8)
    return await restart(world)


async def lead_alone(world: AgentWorld) -> None:
    """Broker 1 has to lead: no other replica is in sync."""
    world.decide(1, [1])
    await world.tell(1, 2)
    await world.update_metadata()


@pytest.mark.rule("R9.33")
@virtually
@pytest.mark.parametrize("is_clean", [False, True])
async def test_a_loss_is_reported_after_restarts_until_it_is_acknowledged(is_clean: bool) -> None:
    world = await world_of_two()
    agent = await crash_with_a_cut(world)
    await lead_alone(world)
    await agent.produce(40)
    await asyncio.sleep(10)
    for _ in range(2):
        await (agent.stop() if is_clean else agent.crash())
        world.controller.damaged.clear()
        await restart(world)
        (found,) = await findings(agent)
        assert "at least offsets 20..29 are damaged" in found.detail
        assert found.detail.endswith(f"lost; once that is dealt with: klamm brokers acknowledge-damage 1 {TP}")
        assert world.controller.damaged == {}
    request = AcknowledgeDamageRequest(BrokerId(1), *TP)
    (planned,) = (await agent.handle(replace(request, validate_only=True))).lost
    assert (planned.from_offset, planned.to_offset, planned.is_end_known) == (20, 30, False)
    assert len(await findings(agent)) == 1
    assert (await agent.handle(request)).lost == (planned,)
    assert await findings(agent) == ()
    with pytest.raises(ApiError, match="broker 1 knows of no damage of orders-0"):
        await agent.handle(request)
    await (agent.stop() if is_clean else agent.crash())
    await restart(world)
    assert await findings(agent) == ()
    await world.stop()


@pytest.mark.rule("R9.33")
@virtually
async def test_a_replica_that_was_not_replaced_is_named_again_after_a_clean_restart() -> None:
    world = await world_of_two()
    agent = await crash_with_a_cut(world)
    await until(lambda: TP in world.controller.damaged.get(BrokerId(1), ()))
    await asyncio.sleep(5)
    await agent.stop()
    world.controller.damaged.clear()
    await restart(world)
    await until(lambda: world.controller.damaged == {1: {TP}})
    with pytest.raises(ApiError, match="offsets 20..29 are not given up: they are fetched again from the leader"):
        await agent.handle(AcknowledgeDamageRequest(BrokerId(1), *TP))
    with pytest.raises(ApiError, match="this is broker 1"):
        await agent.handle(AcknowledgeDamageRequest(BrokerId(2), *TP))
    await take_out(world)
    await back_in_sync(world)
    assert await findings(agent) == ()
    await world.stop()


@pytest.mark.rule("R9.33")
@virtually
async def test_damage_ends_when_the_log_begins_above_it_or_is_deleted() -> None:
    world = await world_of_two()
    agent = await crash_with_a_cut(world)
    await lead_alone(world)
    await agent.produce(40)
    await agent.handle(DeleteRecordsRequest(1000, (DeleteRecordsPartition(*TP, Offset(29)),)))
    assert len(await findings(agent)) == 1
    await agent.handle(DeleteRecordsRequest(1000, (DeleteRecordsPartition(*TP, Offset(30)),)))
    assert await findings(agent) == ()

    await world.tell(1, tp=OTHER)
    await asyncio.sleep(3)
    await crash_with_a_cut_of(agent, OTHER)
    await restart(world)
    assert len(await findings(agent)) == 1
    await world.stop_replica(1, delete=True, tp=OTHER)
    assert await findings(agent) == ()
    await agent.crash()
    await restart(world)
    assert await findings(agent) == ()
    await world.stop()


async def crash_with_a_cut_of(agent: AgentProcess, tp: TopicPartition) -> None:
    await agent.crash()
    path = f"/data/{tp}/{LOG}"
    content = agent.disk.read_file(path)
    assert content is not None
    opened = agent.disk.open_file(path)
    opened.truncate(0)
    opened.append([content[: len(content) * 2 // 3]])


@pytest.mark.rule("R9.22", "R11.9")
@virtually
async def test_a_log_that_cannot_be_loaded_is_an_offline_replica() -> None:
    world = await world_of_two()
    agent = world.agents[1]
    await agent.crash()
    overwrite(agent, "partition.metadata", 0, b"garbage and nothing else, whatever came after it")
    await restart(world)
    response = await world.tell_together(1, TP, OTHER)
    codes = {error.partition_index: error.error_code for error in response.partition_errors}
    assert codes == {TP.partition: ErrorCode.KAFKA_STORAGE_ERROR, OTHER.partition: ErrorCode.NONE}
    await world.agents[2].produce(10, tp=OTHER)
    await until(lambda: agent.offsets(OTHER)[1] == 40)
    answer = await world.stop_replica(1, delete=True)
    assert answer.partition_errors[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR
    (finding,) = await findings(agent)
    assert (finding.kind, finding.topic, finding.partition, finding.broker) == ("offline_replica", *TP, 1)
    assert f"/data/{TP}/partition.metadata is malformed" in finding.detail
    await world.stop()


@pytest.mark.rule("R9.23")
@virtually
async def test_a_leader_epoch_that_only_a_batch_names_is_cut_when_the_newest_one_is_known() -> None:
    world = await world_of_two()
    agent = world.agents[1]
    await agent.crash()
    overwrite(agent, LOG, size_of_batch(agent) * 2 + 12, b"\x00\x40\x00\x00")
    await restart(world)
    await world.tell_together(1, TP, OTHER)
    await world.agents[2].produce(10)
    await until(lambda: agent.offsets()[1] == 40)
    log = agent.partition().log
    assert log is not None
    assert log.latest_epoch == 0
    await world.stop()


@pytest.mark.rule("R11.3", "R9.22")
@virtually
async def test_a_failed_directory_is_a_finding_with_its_error() -> None:
    world = await world_of_two()
    agent = world.agents[1]
    assert await findings(agent) == ()
    await agent.stop()
    await agent.start("/data", "/more")
    agent.disk.break_directory("/more")
    await agent.logs.write_recovery_points()
    (finding,) = await findings(agent)
    assert (finding.kind, finding.broker) == ("failed_log_directory", 1)
    assert "log directory /more failed: [Errno 5] input/output error: '/more/" in finding.detail
    await world.stop()
