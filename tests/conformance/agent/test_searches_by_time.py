"""Searches by time hold the event loop for some batches only, wherever the one that they look for is."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker_agent.log import segment as segment_module
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.time_search import AT_ONCE_MAX, first_batch_at, newest_batches
from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode, StorageError
from cluster.requests.data import MAX_TIMESTAMP
from tests.brokers.agents import AgentProcess, AgentWorld, virtually
from tests.conformance.agent.test_data_requests import lead_alone
from tests.conformance.agent.test_largest_timestamps import ask, batch_of, log_of, produce

COUNT = 1000
INTERVAL = 8192


class Passed:
    """Counts the batch headers that are read on the event loop, and those in a worker of the disk."""

    def __init__(self, process: AgentProcess, patch: pytest.MonkeyPatch) -> None:
        self.on_loop = self.aside = 0
        self._is_aside = False
        self._parse, self._run = segment_module.parse_header, process.disk.run
        patch.setattr(segment_module, "parse_header", self._counted)
        patch.setattr(process.disk, "run", self._run_aside)

    def _counted(self, *args: Any) -> Any:
        if self._is_aside:
            self.aside += 1
        else:
            self.on_loop += 1
        return self._parse(*args)

    async def _run_aside(self, work: Callable[[], Any]) -> Any:
        def counted() -> Any:
            self._is_aside = True
            try:
                return work()
            finally:
                self._is_aside = False

        return await self._run(counted)


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    with monkeypatch.context() as context:
        yield context


async def newest_first() -> tuple[AgentWorld, AgentProcess, int]:
    """A log of which the first record is the newest, and below its start."""
    world = AgentWorld(log_index_interval_bytes=INTERVAL)
    process = await lead_alone(world)
    now = world.clock.now_ms()
    await produce(process, batch_of(now), *(batch_of(now - COUNT + n) for n in range(COUNT - 1)))
    log_of(process).raise_log_start_offset(Offset(1))
    return world, process, now


@pytest.mark.rule("R6.24", "BD-9")
@virtually
async def test_what_was_deleted_at_the_log_start_is_searched_for_in_a_worker(patch: pytest.MonkeyPatch) -> None:
    world, process, now = await newest_first()
    passed = Passed(process, patch)
    assert await ask(process) == (ErrorCode.NONE, now - 2, COUNT - 1, 0)
    assert passed.on_loop < 2 * AT_ONCE_MAX
    assert passed.aside > COUNT
    # By time: nothing is as late as what was deleted, and nothing of the rest is found before its place.
    passed.on_loop = 0
    assert (await ask(process, now))[:3] == (ErrorCode.NONE, -1, -1)
    assert (await ask(process, now - 5))[:3] == (ErrorCode.NONE, now - 5, COUNT - 4)
    assert passed.on_loop < 3 * AT_ONCE_MAX
    await world.stop()


@pytest.mark.rule("R6.21", "BD-9")
@virtually
async def test_a_search_that_the_index_leads_to_ends_on_the_loop(patch: pytest.MonkeyPatch) -> None:
    world = AgentWorld()
    process = await lead_alone(world)
    now = world.clock.now_ms()
    await produce(process, *(batch_of(now - COUNT + n) for n in range(COUNT)))
    passed = Passed(process, patch)
    for number in (0, 1, COUNT // 2, COUNT - 1):
        passed.on_loop = 0
        assert (await ask(process, now - COUNT + number))[:3] == (ErrorCode.NONE, now - COUNT + number, number)
        assert (passed.on_loop < AT_ONCE_MAX, passed.aside) == (True, 0)
    assert (await ask(process))[:3] == (ErrorCode.NONE, now - 1, COUNT - 1)
    assert passed.aside == 0
    await world.stop()


@pytest.mark.rule("R6.24", "BD-9")
@pytest.mark.parametrize("by_time", [True, False])
@virtually
async def test_what_changes_the_log_during_a_search_has_it_begin_again(by_time: bool) -> None:
    world, process, now = await newest_first()
    last = COUNT - 101
    changes: tuple[Callable[[PartitionLog], object], ...] = (
        lambda log: log.truncate_to(Offset(last + 1)),
        lambda log: log.raise_log_start_offset(Offset(last - 600)),
    )
    for change in changes:
        searching = asyncio.ensure_future(ask(process, now - COUNT + last - 1 if by_time else MAX_TIMESTAMP))
        await asyncio.sleep(0)
        change(log_of(process))
        assert await searching == (ErrorCode.NONE, now - COUNT + last - 1, last, 0)
    log = log_of(process)
    interrupted = asyncio.ensure_future(first_batch_at(log, now, Offset(0)) if by_time else newest_batches(log))
    await asyncio.sleep(0)
    await log.close()
    with pytest.raises(StorageError, match="is closed"):
        await interrupted
    await world.stop()
