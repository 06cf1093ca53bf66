"""The event loop on virtual time: order, time, determinism, and the parts of asyncio that run on it."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from simulator.virtual_time_loop import OUTSIDE, DeadlockError, Process, StepLimitError, VirtualTimeLoop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    return VirtualTimeLoop().run_until_complete(main)


def test_a_virtual_day_takes_no_time() -> None:
    loop = VirtualTimeLoop()
    start = time.monotonic()
    loop.run_until_complete(asyncio.sleep(86_400))
    assert loop.time() == 86_400
    assert time.monotonic() - start < 60


def test_callbacks_run_in_the_order_they_became_ready() -> None:
    seen: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in range(5):
            loop.call_soon(seen.append, number)
        for number in range(5, 10):
            loop.call_later(1, seen.append, number)
        loop.call_later(0.5, seen.append, 100)
        await asyncio.sleep(2)

    run(main())
    assert seen == [0, 1, 2, 3, 4, 100, 5, 6, 7, 8, 9]


def test_timers_of_one_instant_run_before_what_they_make_ready() -> None:
    seen: list[str] = []

    async def sleeper(name: str) -> None:
        await asyncio.sleep(1)
        seen.append(name)
        await asyncio.sleep(0)
        seen.append(name + " again")

    async def main() -> None:
        await asyncio.gather(*(sleeper(name) for name in "abc"))

    run(main())
    assert seen == ["a", "b", "c", "a again", "b again", "c again"]


def test_a_timeout_fires_at_its_virtual_time() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run(main()) == 3


def test_a_cancelled_timer_neither_runs_nor_moves_the_clock() -> None:
    loop = VirtualTimeLoop()

    async def main() -> None:
        asyncio.get_running_loop().call_later(1000, pytest.fail, "cancelled timer ran").cancel()
        await asyncio.sleep(1)

    loop.run_until_complete(main())
    assert loop.time() == 1


def test_queues_locks_and_task_groups_work() -> None:
    async def main() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
        lock, received = asyncio.Lock(), []

        async def produce() -> None:
            for number in range(10):
                await queue.put(number)
                await asyncio.sleep(0.1)

        async def consume() -> None:
            while len(received) < 10:
                number = await queue.get()
                async with lock:
                    await asyncio.sleep(0.3)
                    received.append(number)

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(consume())
            group.create_task(asyncio.wait_for(asyncio.sleep(1), timeout=2))
        return received

    assert run(main()) == list(range(10))


def test_a_failing_task_fails_its_group_and_cancels_the_others() -> None:
    cancelled: list[bool] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def fails() -> None:
        await asyncio.sleep(1)
        raise ValueError("as planned")

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(waits())
            group.create_task(fails())

    with pytest.raises(ExceptionGroup):
        run(main())
    assert cancelled == [True]


def test_waiting_for_what_can_never_happen_is_a_deadlock() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError):
        run(main())


def test_spinning_without_time_passing_hits_the_step_limit() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110 - spinning is what is tested.
            await asyncio.sleep(0)

    loop = VirtualTimeLoop(max_steps=1000)
    with pytest.raises(StepLimitError):
        loop.run_until_complete(main())
    assert loop.steps == 1000


def test_an_exception_nobody_retrieves_is_kept_for_the_caller() -> None:
    loop = VirtualTimeLoop()

    async def main() -> None:
        asyncio.get_running_loop().call_soon(int, "not a number")
        await asyncio.sleep(1)

    loop.run_until_complete(main())
    assert isinstance(loop.unhandled[0]["exception"], ValueError)


def test_threads_and_sockets_are_refused() -> None:
    async def main() -> None:
        with pytest.raises(NotImplementedError):
            await asyncio.to_thread(print)
        with pytest.raises(NotImplementedError):
            await asyncio.open_connection("127.0.0.1", 1)

    run(main())


def trace() -> str:
    """A few hundred steps of tasks that talk through queues after random delays."""
    generator, seen = random.Random(7), []
    loop = VirtualTimeLoop()

    async def node(name: str, inbox: asyncio.Queue[int], outboxes: list[asyncio.Queue[int]]) -> None:
        while True:
            number = await inbox.get()
            seen.append(f"{loop.time():.9f} {name} {number}")
            await asyncio.sleep(generator.random())
            generator.choice(outboxes).put_nowait(number + 1)

    async def main() -> None:
        queues: list[asyncio.Queue[int]] = [asyncio.Queue() for _ in range(5)]
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for number, queue in enumerate(queues):
                group.create_task(node(f"node {number}", queue, queues))
                queue.put_nowait(0)

    with pytest.raises(TimeoutError):
        loop.run_until_complete(main())
    return f"{loop.steps}\n" + "\n".join(seen)


def test_the_same_program_gives_the_same_trace_under_every_hash_seed() -> None:
    here = trace()
    assert here == trace()
    program = "import runpy, sys; print(runpy.run_path(sys.argv[1])['trace'](), end='')"
    for seed in ("1", "2"):
        answer = subprocess.run(
            [sys.executable, "-c", program, __file__],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert answer.stdout == here


class Clockwork:
    """A process with a timer that ticks each second, and a log of who did what when."""

    def __init__(self) -> None:
        self.loop = VirtualTimeLoop()
        self.process = Process()
        self.seen: list[tuple[float, str]] = []

    def record(self, what: str) -> None:
        self.seen.append((self.loop.time(), what))

    async def tick(self, name: str) -> None:
        while True:
            await asyncio.sleep(1)
            self.record(name)

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return self.loop.create_task(work, context=self.process.context.copy())

    async def pause_for(self, seconds: float) -> None:
        self.loop.pause(self.process)
        await asyncio.sleep(seconds)
        self.loop.resume(self.process)


def test_a_paused_process_runs_nothing_while_others_go_on() -> None:
    world = Clockwork()

    async def main() -> None:
        tasks = [world.start(world.tick("it")), world.loop.create_task(world.tick("other"))]
        await asyncio.sleep(1.5)
        await world.pause_for(3)
        await asyncio.sleep(1.2)
        for task in tasks:
            task.cancel()

    world.loop.run_until_complete(main())
    # Its timer was due at 2.0; it finds that out when it goes on, and sets the next one from there.
    assert [time for time, name in world.seen if name == "it"] == [1, 4.5, 5.5]
    assert [time for time, name in world.seen if name == "other"] == [1, 2, 3, 4, 5]


def test_what_others_wake_in_a_paused_process_waits_in_the_order_in_which_it_came() -> None:
    world = Clockwork()

    async def wait_for(event: asyncio.Event, name: str) -> None:
        await event.wait()
        world.record(name)

    async def main() -> None:
        first, second = asyncio.Event(), asyncio.Event()
        tasks = [world.start(wait_for(second, "second")), world.start(wait_for(first, "first"))]
        await asyncio.sleep(1)
        world.loop.pause(world.process)
        world.loop.call_at(3, world.record, "timer of the outside", context=OUTSIDE)
        world.loop.call_at(3, world.record, "timer of its own", context=world.process.context)
        for event in (first, second):
            await asyncio.sleep(1.5)
            event.set()
        await asyncio.sleep(1)
        world.loop.resume(world.process)
        await asyncio.gather(*tasks)

    world.loop.run_until_complete(main())
    assert world.seen == [(3, "timer of the outside"), (5, "first"), (5, "timer of its own"), (5, "second")]


def test_tasks_made_by_a_paused_processs_tasks_are_paused_with_them() -> None:
    world = Clockwork()

    async def parent() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(child())

    async def child() -> None:
        await asyncio.sleep(1)
        world.record("child")

    async def main() -> None:
        family = world.start(parent())
        await asyncio.sleep(0.5)
        await world.pause_for(2)
        await family

    world.loop.run_until_complete(main())
    assert world.seen == [(2.5, "child")]


def test_what_is_cancelled_while_its_process_is_paused_never_runs() -> None:
    world = Clockwork()

    async def main() -> None:
        timer = world.loop.call_later(1, world.record, "timer", context=world.process.context)
        world.loop.pause(world.process)
        await asyncio.sleep(2)
        timer.cancel()
        world.loop.resume(world.process)
        await asyncio.sleep(1)

    world.loop.run_until_complete(main())
    assert world.seen == []
