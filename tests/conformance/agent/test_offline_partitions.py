"""A failed log directory is not touched by clients, control requests, periodic tasks or shutdown."""

import asyncio

import pytest
from structlog.testing import capture_logs

from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from tests.brokers.agents import TOPIC, TP, AgentProcess, AgentWorld, until, virtually

OTHER = TopicPartition(TOPIC, 1)


def watch(agent: AgentProcess, directory: str) -> list[str]:
    """Every path below the directory that the disk is asked for from now on."""
    touched: list[str] = []
    check = agent.disk.check

    def record(path: str) -> None:
        if path == directory or path.startswith(f"{directory}/"):
            touched.append(path)
        check(path)

    agent.disk.check = record  # type: ignore[method-assign]
    return touched


@pytest.mark.rule("P13", "P25", "R11.3", "R11.5")
@pytest.mark.parametrize("leader", [1, 2], ids=["led", "followed"])
def test_the_directory_of_an_offline_partition_is_left_alone_until_the_process_ends(leader: int) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld(log_flush_interval_ms=1000, log_retention_check_interval_ms=5000)
        await world.start(1, 2)
        agent = world.agents[1]
        await agent.stop()
        await agent.start("/data", "/more")
        for tp in (TP, OTHER):
            world.decide(leader, [1, 2], tp=tp)
        await world.update_metadata()
        for broker in (2, 1):
            await world.tell_together(broker, TP, OTHER)
        for tp in (TP, OTHER):
            await world.agents[leader].produce(3, tp=tp)
        await until(lambda: agent.offsets()[1] == agent.offsets(OTHER)[1] == 3)
        log, other_log = agent.partition().log, agent.partition(OTHER).log
        assert log is not None
        assert other_log is not None
        assert log.directory != other_log.directory
        agent.disk.break_directory(log.directory)
        await world.agents[leader].produce(1)
        await until(lambda: agent.agent.manager.is_offline(TP))
        touched = watch(agent, log.directory)
        alive = watch(agent, other_log.directory)
        for epoch in (-2, -1, 99):
            answer = await world.stop_replica(1, delete=True, epoch=epoch)
            assert answer.partition_errors[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR
        for next_leader in (1, 2):
            world.decide(next_leader, [1, 2])
            assert await world.tell(1) is ErrorCode.KAFKA_STORAGE_ERROR
            assert agent.agent.manager.is_offline(TP)
        assert (await agent.produce()).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (await agent.fetch(0)).error_code is ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(200)
        assert f"{other_log.directory}/replication-offset-checkpoint.tmp" in alive
        assert f"{other_log.directory}/recovery-point-offset-checkpoint.tmp" in alive
        await world.agents[leader].produce(2, tp=OTHER)
        await until(lambda: agent.offsets(OTHER)[1] == 5)
        await world.stop()
        assert touched == []
        assert alive != []

    check()


@pytest.mark.rule("R11.3", "R3.14")
@pytest.mark.parametrize(("leader", "is_noticed"), [(1, True), (1, False), (2, True)])
def test_a_failed_directory_is_one_line_for_all_roles_of_a_request(leader: int, is_noticed: bool) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld()
        world.log_dirs = ("/data", "/more")
        await world.start(1, 2)
        process, partitions = world.agents[1], [TopicPartition(TOPIC, number) for number in range(8)]
        for tp in partitions:
            world.decide(1, [1, 2], tp=tp)
        await world.update_metadata()
        await world.tell_together(1, *partitions)
        process.disk.break_directory("/data")
        if is_noticed:
            for tp in partitions:
                await process.produce(tp=tp)
            await until(lambda: process.agent.manager.offline_count == 4)
        for tp in partitions:
            world.decide(leader, [1, 2], tp=tp)
        with capture_logs() as lines:
            response = await world.tell_together(1, *partitions)
            await until(lambda: process.agent.manager.offline_count == 4)
        codes = [item.error_code for item in response.partition_errors]
        assert codes.count(ErrorCode.KAFKA_STORAGE_ERROR) == 4
        assert [line for line in lines if line.get("exc_info")] == []
        of_roles = [line for line in lines if line["event"].startswith("Replicas are offline")]
        of_role_changes = [] if is_noticed else [("error", "/data", 4)]
        assert [(line["log_level"], line["directory"], line["replicas"]) for line in of_roles] == of_role_changes
        assert len([line for line in lines if line["log_level"] in ("warning", "error")]) == (0 if is_noticed else 2)
        await world.stop()

    check()


@pytest.mark.rule("R11.3", "R5.25")
@virtually
async def test_a_directory_that_fails_while_its_replicas_fetch_is_one_line() -> None:
    world = AgentWorld()
    world.log_dirs = ("/data", "/more")
    await world.start(1, 2)
    follower, partitions = world.agents[2], [TopicPartition(TOPIC, number) for number in range(8)]
    for tp in partitions:
        world.decide(1, [1, 2], tp=tp)
    await world.update_metadata()
    for broker in (1, 2):
        await world.tell_together(broker, *partitions)
    follower.disk.break_directory("/data")
    with capture_logs() as lines:
        for tp in partitions:
            await world.agents[1].produce(1, tp=tp)
        await until(lambda: follower.agent.manager.offline_count == 4)
        await until(lambda: all(follower.offsets(tp)[1] == 1 for tp in partitions if follower.agent.manager.online(tp)))
    said = [line["event"] for line in lines if line["log_level"] in ("warning", "error")]
    assert said == ["Log directory failed; its partitions are offline"]
    await world.stop()
