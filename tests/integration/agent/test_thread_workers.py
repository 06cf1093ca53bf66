"""Work off the event loop, on real threads."""

import asyncio
import threading

import pytest

from broker_agent.adapters.thread_workers import ThreadWorkers


async def test_work_runs_beside_the_event_loop_and_its_error_is_raised() -> None:
    workers = ThreadWorkers(2)
    assert await workers.run(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await workers.run(lambda: 1 // 0)
    workers.close()


async def test_who_gives_up_still_waits_for_the_end_of_what_has_begun() -> None:
    workers, begun, go_on, ended = ThreadWorkers(1), threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        go_on.wait(30)
        ended.append(True)

    task = asyncio.ensure_future(workers.run(work))
    await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.05)
    assert not done
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended
    workers.close()
