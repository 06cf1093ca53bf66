"""Replicas that lost records, or whose logs cannot be loaded, on an agent that goes on with the others."""

import asyncio

import pytest

from cluster.errors import ErrorCode
from cluster.partition import TopicPartition
from cluster.requests.cluster import DescribeFindingsRequest, DescribeFindingsResponse, Finding
from state_log.record import Kind
from tests.agents import TOPIC, TP, AgentProcess, AgentWorld, until, virtually

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
    await world.tell_together(1, TP, OTHER)
    await until(lambda: agent.offsets()[1] == 30)
    assert await findings(agent) == ()
    await world.stop()


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
