"""A log directory that has failed is brought back into service, without a restart."""

import asyncio

import pytest

from broker_agent.log.checkpoints import MetaProperties, encode_meta_properties
from cluster.model.broker import BrokerId, LeaderEpoch, TopicId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import UNCLEAN_SHUTDOWN
from cluster.requests.log_dirs import OnlineLogDirRequest, OnlineLogDirResponse
from tests.brokers.agents import TOPIC, TOPIC_ID, TP, AgentProcess, AgentWorld, until, virtually
from tests.brokers.log_dirs import A, B, describe, directory_of, limit_copies, move, other_than, partition_dirs

NONE, STORAGE = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR
OTHER = TopicPartition(TOPIC, 1)


async def online(process: AgentProcess, path: str, *, dry_run: bool = False) -> OnlineLogDirResponse:
    response: OnlineLogDirResponse = await process.handle(OnlineLogDirRequest(process.id, path, dry_run))
    return response


async def refusal(process: AgentProcess, path: str, *, dry_run: bool = False) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await online(process, path, dry_run=dry_run)
    return caught.value


def offline_count(process: AgentProcess) -> float:
    value: float = process.metrics.gauge("kafka.log", "LogManager", "OfflineLogDirectoryCount").value
    return value


def events(world: AgentWorld) -> int:
    return len(world.zookeeper.tree.children("/log_dir_event_notification") or ())


async def world_with_failed_directory(*brokers: int) -> tuple[AgentWorld, AgentProcess, str]:
    """Broker 1 leads two partitions, in two directories, of which that of TP has failed."""
    world = AgentWorld(replica_fetch_backoff_ms=100)
    world.log_dirs = (A, B)
    await world.start(1, *brokers)
    process = world.agents[1]
    for tp in (TP, OTHER):
        world.decide(1, [1, *brokers], tp=tp)
    await world.update_metadata()
    for broker in (1, *brokers):
        await world.tell_together(broker, TP, OTHER)
    for tp in (TP, OTHER):
        assert (await process.produce(5, tp=tp)).error_code is NONE
        for broker in brokers:
            await until(lambda b=broker, tp=tp: world.agents[b].offsets(tp)[1] == 5)  # type: ignore[misc]
    failed = directory_of(process)
    process.disk.break_directory(failed)
    assert (await process.produce()).error_code is STORAGE
    await until(lambda: process.agent.manager.is_offline(TP))
    await until(lambda: events(world) == 1)
    return world, process, failed


@pytest.mark.rule("FD-11", "R11.3")
@virtually
async def test_a_directory_is_refused_while_it_is_sick_and_then_served_again() -> None:
    world, process, failed = await world_with_failed_directory()
    for dry_run in (True, False):
        error = await refusal(process, failed, dry_run=dry_run)
        assert error.code is STORAGE
        assert f"log directory {failed} of broker 1 stays out of service" in str(error)
        assert "input/output error" in str(error)
    assert process.agent.manager.is_offline(TP)
    assert offline_count(process) == 1
    process.disk.mend_directory(failed)
    assert await online(process, failed, dry_run=True) == OnlineLogDirResponse()
    assert process.agent.manager.is_offline(TP)
    assert await online(process, failed) == OnlineLogDirResponse(replicas=1, offline=0, in_doubt=0, deleted=0)
    assert not process.agent.manager.is_offline(TP)
    assert (offline_count(process), events(world)) == (0, 2)
    assert process.agent.manager.metrics.offline_replica_count.value == 0
    # What was not flushed may be gone: the controller knew it before it was asked to send the role.
    [report] = world.controller.damage_reports
    assert [(r.topic_name, r.partition_index, r.found_by) for r in report.replicas] == [(*TP, UNCLEAN_SHUTDOWN)]
    assert report.replicas[0].from_offset == 5
    assert await world.tell(1) is NONE, "in the same leader epoch"
    assert process.offsets() == (5, 5)
    assert (await process.produce()).error_code is NONE
    assert (await process.produce(tp=OTHER)).error_code is NONE
    assert (await describe(process))[failed].error_code is NONE
    await world.stop()


@pytest.mark.rule("FD-11")
@virtually
async def test_only_a_failed_directory_of_this_broker_is_brought_back() -> None:
    world, process, failed = await world_with_failed_directory()
    wrong = await refusal(process, "/nowhere")
    assert (wrong.code, wrong.field, wrong.value) == (ErrorCode.LOG_DIR_NOT_FOUND, "path", "/nowhere")
    assert "which has /a, /b" in str(wrong)
    served = await refusal(process, other_than(failed))
    assert (served.code, "in service" in str(served)) == (ErrorCode.INVALID_REQUEST, True)
    with pytest.raises(ApiError, match="this is broker 1"):
        await process.handle(OnlineLogDirRequest(BrokerId(2), failed))
    await world.stop()


@pytest.mark.rule("FD-11")
@virtually
async def test_a_directory_of_another_broker_is_not_taken_for_the_one_that_failed() -> None:
    """As a volume that was mounted in its place by mistake."""
    world, process, failed = await world_with_failed_directory()
    process.disk.mend_directory(failed)
    content = process.disk._files[f"{failed}/meta.properties"].content
    content[:] = encode_meta_properties(MetaProperties(BrokerId(9), "another"))
    error = await refusal(process, failed)
    assert "belongs to another broker or cluster" in str(error)
    assert process.agent.manager.is_offline(TP)
    assert list(process.logs.live_directories) == [other_than(failed)]
    await world.stop()


@pytest.mark.rule("FD-11")
@virtually
async def test_no_role_is_taken_before_the_controller_knows_what_may_be_lost() -> None:
    world, process, failed = await world_with_failed_directory()
    process.disk.mend_directory(failed)
    world.network.cut("broker-1:9092", "controller:9091")
    returning = asyncio.ensure_future(online(process, failed))
    await until(lambda: process.logs.get(TP) is not None)
    await asyncio.sleep(3)
    assert await world.tell(1) is STORAGE
    again = await refusal(process, failed)
    assert again.code is ErrorCode.INVALID_REQUEST
    assert events(world) == 1
    world.network.heal_all()
    assert (await returning).replicas == 1
    assert events(world) == 2
    assert await world.tell(1) is NONE
    await world.stop()


@pytest.mark.rule("FD-11", "R11.6")
@pytest.mark.parametrize("is_same_topic", [False, True], ids=["another topic of the name", "given away and taken back"])
def test_a_replica_that_was_created_elsewhere_meanwhile_stays_there(is_same_topic: bool) -> None:
    @virtually
    async def run() -> None:
        world, process, failed = await world_with_failed_directory()
        # The controller had the partition deleted, or moved away; then it is created here as a new one.
        process.agent.manager._hosted.pop(TP)
        process.agent.manager.metrics.offline_replica_count.dec()
        world.decide(1, [1], is_new=True)
        topic_id = TOPIC_ID if is_same_topic else TopicId("BBBBBBBBBBBBBBBBBBBBBQ")
        assert await world.tell(1, topic_id=topic_id) is NONE
        assert directory_of(process) == other_than(failed)
        await process.produce(2)
        process.disk.mend_directory(failed)
        assert await online(process, failed) == OnlineLogDirResponse(replicas=0, offline=0, in_doubt=0, deleted=1)
        assert partition_dirs(process)[failed] == ["delete"]
        assert process.offsets() == (2, 2)
        assert (await process.produce()).error_code is NONE
        await process.crash()
        await until(lambda: world.zookeeper.tree.children("/brokers/ids") == ())
        await process.start()
        await world.update_metadata()
        world.decide(1, [1])
        assert await world.tell(1, topic_id=topic_id) is NONE
        assert process.offsets() == (3, 3)
        await world.stop()

    run()


@pytest.mark.rule("FD-11", "R11.3")
@virtually
async def test_a_copy_in_a_directory_that_returns_is_deleted_as_its_move_had_ended() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=100)
    world.log_dirs = (A, B)
    await world.start(1)
    process = world.agents[1]
    await world.create(1, [1])
    await process.produce(5)
    target = other_than(directory_of(process))
    await limit_copies(world, 0)
    assert await move(process, target) == [NONE]
    process.disk.break_directory(target)
    process.logs.directories[target].fail(OSError(5, "input/output error"))
    await until(lambda: process.partition().future_log is None)
    process.disk.mend_directory(target)
    await until(lambda: offline_count(process) == 1)
    assert (await online(process, target)).deleted == 1
    assert partition_dirs(process)[target] == ["delete"]
    assert await move(process, target) == [NONE], "it may be moved there again"
    await world.stop()


@pytest.mark.rule("FD-11")
@virtually
async def test_a_directory_that_fails_again_goes_offline_again() -> None:
    world, process, failed = await world_with_failed_directory()
    for count in (1, 2):
        process.disk.mend_directory(failed)
        assert (await online(process, failed)).replicas == 1
        world.decide(1, [1])
        assert await world.tell(1) is NONE
        assert (await process.produce()).error_code is NONE
        process.disk.break_directory(failed)
        assert (await process.produce()).error_code is STORAGE
        await until(lambda: process.agent.manager.is_offline(TP))
        await until(lambda count=count: events(world) == 1 + 2 * count)  # type: ignore[misc]
        assert offline_count(process) == 1
    await world.stop()


@pytest.mark.rule("FD-11", "R11.6")
@virtually
async def test_with_a_second_failed_directory_a_replica_that_may_be_there_stays_offline() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=100)
    world.log_dirs = (A, B, "/c")
    await world.start(1)
    process = world.agents[1]
    for tp in (TP, OTHER):
        world.decide(1, [1], tp=tp)
    await world.update_metadata()
    await world.tell_together(1, TP, OTHER)
    directories = {tp: directory_of(process, tp) for tp in (TP, OTHER)}
    for tp in (TP, OTHER):
        await process.produce(3, tp=tp)
        process.disk.break_directory(directories[tp])
        assert (await process.produce(tp=tp)).error_code is STORAGE
        await until(lambda tp=tp: process.agent.manager.is_offline(tp))  # type: ignore[misc]
    process.disk.mend_directory(directories[TP])
    await online(process, directories[TP])
    assert not process.agent.manager.is_offline(TP)
    assert process.agent.manager.is_offline(OTHER)
    response = await world.tell_together(1, TP, OTHER)
    assert [error.error_code for error in response.partition_errors] == [NONE, STORAGE]
    await world.stop()


@pytest.mark.rule("FD-11")
@virtually
async def test_what_the_disk_has_lost_is_found_and_fetched_again_from_a_leader() -> None:
    world, process, failed = await world_with_failed_directory(2)
    leader = world.agents[2]
    # The controller lets the other one lead. The disk comes back without the last batch, which was never flushed.
    world.decide(2, [2], replicas=[1, 2])
    await world.tell(2)
    assert (await leader.produce(4)).error_code is NONE
    process.disk.mend_directory(failed)
    path = f"{failed}/{TP}/{0:020d}.log"
    process.disk._files[path].cut(0)
    assert (await online(process, failed)).replicas == 1
    assert await world.tell(1) is NONE
    await until(lambda: process.offsets()[1] == 9)
    log, led = process.logs.get(TP), leader.logs.get(TP)
    assert log is not None
    assert led is not None
    assert log.read(log.log_start_offset, 1 << 20, log.log_end_offset, at_least_one=True) == led.read(
        led.log_start_offset, 1 << 20, led.log_end_offset, at_least_one=True
    )
    assert process.partition().leader_epoch == LeaderEpoch(1)
    await world.stop()
