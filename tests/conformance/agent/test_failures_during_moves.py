"""What fails in the middle of a move between log directories: steps, directories, copies, deleted topics."""

import asyncio
import errno

import pytest

from cluster.model.errors import ErrorCode
from tests.brokers.agents import TOPIC, TP, until, virtually
from tests.brokers.log_dirs import (
    A,
    B,
    content,
    directory_of,
    limit_copies,
    move,
    moved,
    other_than,
    partition_dirs,
    world_of_directories,
)

NONE = ErrorCode.NONE


@pytest.mark.rule("R11.12", "R11.13", "FD-1")
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.parametrize("part", range(4))
def test_a_step_that_fails_for_want_of_descriptors_or_room_is_tried_again(part: int, number: int) -> None:
    @virtually
    async def run() -> None:
        world = world_of_directories()
        await world.start(1)
        process = world.agents[1]
        await world.create(1, (1,))
        disk, check = process.disk, process.disk.check
        for _ in range(5):
            await process.produce(10)
        for skipped in range(part, 60, 4):
            left = skipped

            def refuse_one(path: str) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    raise OSError(number, "too many open files, or no space left", path)
                check(path)

            target = other_than(directory_of(process))
            await limit_copies(world, 0)
            assert await move(process, target) == [NONE]
            disk.check = refuse_one  # type: ignore[method-assign]
            await limit_copies(world, None)
            await until(lambda: directory_of(process) == target)  # noqa: B023 (awaited at once)
            disk.check = check  # type: ignore[method-assign]
            assert (await process.produce(1)).error_code is NONE
            await asyncio.sleep(2)
            assert process.logs.failures == {}
        content(process.partition().log)
        await process.crash()
        await asyncio.sleep(7)
        await process.start()
        assert process.logs.get(TP) is not None
        await world.stop()

    run()


@pytest.mark.rule("R11.13", "R11.3")
@pytest.mark.parametrize("fails", [A, B])
def test_a_directory_that_fails_between_the_last_rename_and_the_swap_costs_no_record(fails: str) -> None:
    @virtually
    async def run() -> None:
        world = world_of_directories()
        await world.start(1)
        process = world.agents[1]
        await world.create(1, (1,))
        if directory_of(process) != A:
            await move(process, A)
            await moved(process, A)
        for _ in range(5):
            await process.produce(10)
        process.disk.latency_s = (0.01, 0.01)
        assert await move(process, B) == [NONE]

        def is_renamed() -> bool:
            return partition_dirs(process) == {A: ["delete"], B: ["orders-0"]} and directory_of(process) == A

        await until(is_renamed)
        process.disk.break_directory(fails)
        process.logs.directories[fails].fail(OSError(errno.EIO, "input/output error"))
        await asyncio.sleep(1)
        process.disk.mend_directory(fails)
        if fails == B:
            # The current log is served on, under a name that the next start serves.
            assert (await process.produce(10)).error_code is NONE
            kept = content(process.partition().log)
        else:
            assert process.agent.manager.is_offline(TP)
            kept = b""
        await process.crash()
        await asyncio.sleep(7)
        await process.start()
        log = process.logs.get(TP)
        assert log is not None
        assert (log.log_end_offset, content(log).startswith(kept)) == (60 if fails == B else 50, True)
        await world.stop()

    run()


@pytest.mark.rule("R11.8", "R5.26")
@virtually
async def test_a_copy_that_has_given_up_is_a_finding_until_it_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of_directories()
    await world.start(1)
    process = world.agents[1]
    await world.create(1, (1,))
    await process.produce(10)
    target = other_than(directory_of(process))
    await limit_copies(world, 0)
    assert await move(process, target) == [NONE]
    future = process.logs.futures.get(TP)
    assert future is not None

    def fail(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(future, "append_as_follower", fail)
    await limit_copies(world, None)
    await until(lambda: process.agent.copies.failed == (TP,))
    [finding] = process.agent.copies.findings()
    assert (finding.kind, finding.topic, finding.broker) == ("stuck_directory_move", TOPIC, 1)
    assert "a bug" in finding.detail
    assert (await process.produce(10)).error_code is NONE
    monkeypatch.undo()
    assert await move(process, target) == [NONE]
    await moved(process, target)
    assert (process.agent.copies.failed, list(process.agent.copies.findings())) == ((), [])
    await world.stop()


@pytest.mark.rule("R4.3", "R9.9", "R11.1")
@pytest.mark.parametrize("after_ms", range(0, 60, 3))
def test_a_replica_that_is_deleted_at_any_moment_of_its_move_leaves_nothing(after_ms: int) -> None:
    @virtually
    async def run() -> None:
        world = world_of_directories(log_segment_bytes=500, log_segment_delete_delay_ms=0)
        await world.start(1)
        process = world.agents[1]
        await world.create(1, (1,))
        for _ in range(10):
            await process.produce(10)
        process.disk.latency_s = (0.001, 0.003)
        assert await move(process, other_than(directory_of(process))) == [NONE]
        await asyncio.sleep(after_ms / 1000)
        response = await world.stop_replica(1, delete=True)
        assert response.partition_errors[0].error_code is NONE
        await asyncio.sleep(3)
        assert partition_dirs(process) == {A: [], B: []}
        assert process.logs.failures == {}
        for path in (A, B):
            assert TP not in await process.logs.read_high_watermarks(path)
        await world.stop()

    run()
