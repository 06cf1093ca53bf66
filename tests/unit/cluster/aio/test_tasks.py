"""Supervised tasks, pauses between attempts, and how a program ends."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
from random import Random

import pytest

from cluster.aio import garbage
from cluster.aio.tasks import Backoff, TaskSet, run_program
from cluster.model.errors import ConfigError, StartupError


async def test_leaving_the_block_cancels_what_still_runs() -> None:
    ended: list[str] = []

    async def wait(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async with TaskSet() as tasks:
        tasks.start(wait("a"), name="a")
        tasks.start(wait("b"), name="b")
        await asyncio.sleep(0)
    assert ended == ["a", "b"]


async def test_a_task_that_dies_ends_the_block_and_the_others() -> None:
    async def die() -> None:
        raise OSError("disk")

    others: list[asyncio.Task[bool]] = []

    async def supervise() -> None:
        async with TaskSet() as tasks:
            others.append(tasks.start(asyncio.Event().wait(), name="other"))
            tasks.start(die(), name="dying")
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        await supervise()
    assert isinstance(caught.value.exceptions[0], OSError)
    assert others[0].cancelled()


async def test_a_task_may_be_awaited_and_may_be_cancelled_alone() -> None:
    async def answer() -> int:
        return 7

    async with TaskSet() as tasks:
        assert await tasks.start(answer(), name="answer") == 7
        one = tasks.start(asyncio.Event().wait(), name="one")
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one


def test_pauses_double_up_to_a_ceiling_and_start_again_after_a_success() -> None:
    backoff = Backoff(100, 1000, Random(1))
    for expected in (100, 200, 400, 800, 1000, 1000):
        assert 0.8 * expected <= backoff.next_ms() <= 1.2 * expected
    backoff.reset()
    assert backoff.next_ms() <= 120
    again = [Backoff(100, 1000, Random(7)).next_ms() for _ in range(2)]
    assert again[0] == again[1]


def test_a_program_that_returns_exits_with_zero() -> None:
    async def main(stop: asyncio.Event) -> None:
        assert not stop.is_set()

    assert run_program(main) == 0


def test_a_program_collects_garbage_though_its_start_did_not() -> None:
    async def main(_: asyncio.Event) -> None:
        assert gc.isenabled()

    gc.disable()
    try:
        assert run_program(main) == 0
    finally:
        gc.enable()


def test_a_program_may_pause_garbage_collections_only_while_it_runs() -> None:
    async def main(_: asyncio.Event) -> None:
        with garbage.paused():
            assert not gc.isenabled()

    assert run_program(main) == 0
    # What runs later in this process may stop halfway, as simulations do.
    with garbage.paused():
        assert gc.isenabled()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_the_program_to_stop(number: signal.Signals) -> None:
    async def main(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), number)
        await stop.wait()

    assert run_program(main) == 0


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_a_later_interrupt_ends_a_program_that_does_not_stop(first: signal.Signals) -> None:
    async def main(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), first)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    assert run_program(main) == 0


@pytest.mark.rule("R12.5")
def test_a_second_sigterm_does_not_disturb_the_end() -> None:
    async def main(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        ended.append(True)

    ended: list[bool] = []
    assert run_program(main) == 0
    assert ended == [True]


@pytest.mark.parametrize(
    ("error", "code"),
    [(StartupError("the port is in use"), 1), (ConfigError(["id: is missing", "data: is missing"]), 2)],
)
@pytest.mark.parametrize("in_a_task", [False, True])
def test_what_the_operator_can_mend_is_a_message_and_not_a_traceback(
    error: Exception, code: int, in_a_task: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fail() -> None:
        raise error

    async def main(stop: asyncio.Event) -> None:
        if not in_a_task:
            raise error
        async with TaskSet() as tasks:
            tasks.start(fail(), name="failing")
            await stop.wait()

    assert run_program(main) == code
    assert capsys.readouterr().err == f"{error}\n"


def test_our_own_bugs_are_not_swallowed() -> None:
    async def main(_stop: asyncio.Event) -> None:
        raise AssertionError("two leaders")

    with pytest.raises(AssertionError, match="two leaders"):
        run_program(main)


def test_a_program_does_not_run_without_assertions() -> None:
    program = "from cluster.aio.tasks import run_program; raise SystemExit(run_program(None))"
    result = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "python -O" in result.stderr
