"""A failed log directory is not touched by clients, control requests, periodic tasks or shutdown."""

import asyncio

import pytest

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
