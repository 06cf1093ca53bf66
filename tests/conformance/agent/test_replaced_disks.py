"""An empty disk in the place of one with replicas: nothing leads with an empty log what others may have."""

from collections.abc import Awaitable, Callable
from random import Random

import pytest

from broker_agent.log.checkpoints import META_PROPERTIES
from broker_agent.log.log_directories import LogDirectories
from broker_agent.log.opening import LoadOptions, open_log_directories
from broker_agent.log.segments import LogDependencies
from cluster.model.broker import UNKNOWN_BROKER_EPOCH, BrokerId, ControllerEpoch, TopicId
from cluster.model.errors import ApiError, ErrorCode, StartupError, ZooKeeperError
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.requests.agents import RECOVERY
from cluster.requests.log_dirs import OnlineLogDirRequest
from cluster.znodes.paths import BROKERS_TOPICS, state_path, topic_path
from cluster.znodes.topics import encode_state, encode_topic
from cluster.zookeeper.port import Create
from simulator.disk import SimulatedDisk
from tests.brokers.agents import TOPIC, TOPIC_ID, TP, AgentProcess, AgentWorld, connect, until, virtually
from tests.brokers.log_dirs import A, B, directory_of, other_than
from tests.contract.log_worlds import OWNER, TestClock

OTHER, ELSEWHERE = TopicPartition(TOPIC, 1), TopicPartition(TOPIC, 2)


async def world_of_two_disks() -> AgentWorld:
    """Broker 1 leads two partitions, in two directories, and is not in sync for a third; ZooKeeper has all of them."""
    world = AgentWorld(replica_fetch_backoff_ms=100)
    world.log_dirs = (A, B)
    await world.start(1)
    for tp in (TP, OTHER):
        world.decide(1, [1], tp=tp, replicas=(1, 2))
    await world.update_metadata()
    await world.tell_together(1, TP, OTHER)
    for tp in (TP, OTHER):
        assert (await world.agents[1].produce(5, tp=tp)).error_code is ErrorCode.NONE
    await write_znodes(world)
    return world


async def write_znodes(world: AgentWorld) -> None:
    tool = await connect(world.zookeeper)
    replicas = ReplicaAssignment((BrokerId(1), BrokerId(2)))
    topic = TopicAssignment({tp.partition: replicas for tp in (TP, OTHER, ELSEWHERE)}, TOPIC_ID)
    paths = [topic_path(TOPIC), f"{topic_path(TOPIC)}/partitions"]
    assert world.zookeeper.tree.exists(BROKERS_TOPICS) is not None
    ops = [Create(path, encode_topic(topic) if path == paths[0] else b"") for path in paths]
    for tp in (TP, OTHER, ELSEWHERE):
        isr = (BrokerId(2 if tp == ELSEWHERE else 1),)
        state = LeaderAndIsr(
            isr[0], world.states[TP].leader_epoch, isr, ControllerEpoch(1), world.states[TP].partition_epoch
        )
        ops += [Create(state_path(tp).rpartition("/")[0], b""), Create(state_path(tp), encode_state(state))]
    assert all(result.ok for result in await tool.multi(ops))


def replace_disk(process: AgentProcess, path: str) -> None:
    """Put an empty disk in the place of that of a directory."""
    process.disk.remove_tree(path)
    process.disk.make_directory(path)


def has_identity(process: AgentProcess, path: str) -> bool:
    return process.disk.read_file(f"{path}/{META_PROPERTIES}") is not None


@pytest.mark.rule("FD-12", "R9.22", "D-40")
@virtually
async def test_a_broker_that_starts_on_an_empty_disk_names_what_was_on_the_one_before() -> None:
    world = await world_of_two_disks()
    process = world.agents[1]
    gone = directory_of(process)
    await process.stop()
    replace_disk(process, gone)
    await process.start()
    await until(lambda: world.controller.damage_reports != [])
    [report] = world.controller.damage_reports
    assert [(r.topic_name, r.partition_index, r.found_by) for r in report.replicas] == [(*TP, RECOVERY)]
    [damaged] = process.logs.damaged_replicas
    assert f"no log directory has a log of it; {gone} was empty when it was opened" in damaged.detail
    assert damaged.topic_id == TOPIC_ID
    assert has_identity(process, gone)
    # It is known from now on, whether the disk is new or not.
    await process.stop()
    await process.start()
    assert [known.topic_partition for known in process.logs.damaged_replicas] == [TP]
    await world.stop()


@pytest.mark.rule("FD-12")
async def test_an_end_before_that_is_written_down_leaves_the_disk_new() -> None:
    async def no_answer() -> dict[TopicPartition, TopicId | None]:
        raise ZooKeeperError("no answer")

    async def in_sync() -> dict[TopicPartition, TopicId | None]:
        return {TP: TOPIC_ID}

    disk = SimulatedDisk(TestClock(), Random(1))
    dependencies = LogDependencies(disk, TestClock(), Random(1))

    async def start(read: Callable[[], Awaitable[dict[TopicPartition, TopicId | None]]]) -> LogDirectories:
        options = LoadOptions(read_in_sync=read)
        return await open_log_directories(dependencies, [A, B], OWNER, lambda _path, _error: None, options=options)

    await (await start(in_sync)).close(UNKNOWN_BROKER_EPOCH)
    disk.remove_tree(A)
    for _ in range(2):
        with pytest.raises(StartupError, match="cannot be read: no answer"):
            await start(no_answer)
        assert disk.read_file(f"{A}/{META_PROPERTIES}") is None
    logs = await start(in_sync)
    assert [replica.topic_partition for replica in logs.damaged_replicas] == [TP]
    assert disk.read_file(f"{A}/{META_PROPERTIES}") is not None


@pytest.mark.rule("FD-12")
@virtually
async def test_a_new_broker_and_a_further_directory_lack_nothing() -> None:
    world = await world_of_two_disks()
    process = world.agents[1]
    await process.stop()
    world.log_dirs = (A, B, "/more")
    await process.start()
    assert list(process.logs.damaged_replicas) == []
    assert has_identity(process, "/more")
    await world.start(2, 3)
    assert list(world.agents[2].logs.damaged_replicas) == [], "a broker whose directories are all empty is a new one"
    assert list(world.agents[3].logs.damaged_replicas) == []
    await world.stop()


@pytest.mark.rule("FD-11", "FD-12")
@virtually
async def test_an_empty_disk_is_not_taken_for_the_one_that_failed() -> None:
    world = await world_of_two_disks()
    process = world.agents[1]
    failed = directory_of(process)
    process.disk.break_directory(failed)
    assert (await process.produce()).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    await until(lambda: process.agent.manager.is_offline(TP))
    process.disk.mend_directory(failed)
    replace_disk(process, failed)
    for dry_run in (True, False):
        with pytest.raises(ApiError, match=r"no meta.properties any more.*restart the broker"):
            await process.handle(OnlineLogDirRequest(process.id, failed, dry_run))
    assert not has_identity(process, failed)
    assert process.agent.manager.is_offline(TP)
    await world.stop()


@pytest.mark.rule("FD-11", "FD-12", "D-40")
@virtually
async def test_a_directory_that_returns_without_its_logs_has_them_named() -> None:
    """As after an operator has emptied it, but for its identity."""
    world = await world_of_two_disks()
    process = world.agents[1]
    failed = directory_of(process)
    process.disk.break_directory(failed)
    assert (await process.produce()).error_code is ErrorCode.KAFKA_STORAGE_ERROR
    await until(lambda: process.agent.manager.is_offline(TP))
    process.disk.mend_directory(failed)
    for name in process.disk.list_directory(failed):
        if name != META_PROPERTIES:
            remove = (
                process.disk.remove_tree if process.disk.is_directory(f"{failed}/{name}") else process.disk.remove_file
            )
            remove(f"{failed}/{name}")
    response = await process.handle(OnlineLogDirRequest(process.id, failed))
    assert (response.replicas, response.in_doubt) == (0, 1)
    await until(lambda: world.controller.damage_reports != [])
    [report] = world.controller.damage_reports
    assert [(r.topic_name, r.partition_index, r.found_by) for r in report.replicas] == [(*TP, RECOVERY)]
    assert process.logs.live_directories == (A, B)
    await world.stop()


@pytest.mark.rule("FD-12")
@virtually
async def test_nothing_is_missing_while_another_directory_may_have_it() -> None:
    world = await world_of_two_disks()
    process = world.agents[1]
    gone = directory_of(process)
    await process.stop()
    replace_disk(process, gone)
    failed = other_than(gone)
    process.disk.break_directory(failed)
    await process.start()
    assert list(process.logs.damaged_replicas) == []
    assert not has_identity(process, gone)
    world.decide(1, [1])
    assert await world.tell(1) is ErrorCode.KAFKA_STORAGE_ERROR, "it may be in the other one"
    process.disk.mend_directory(failed)
    await process.handle(OnlineLogDirRequest(process.id, failed))
    assert [replica.topic_partition for replica in process.logs.damaged_replicas if not replica.is_in_doubt] == [TP]
    assert has_identity(process, gone)
    await world.stop()
