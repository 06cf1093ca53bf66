"""Work that may block for long: a few threads for each key, which nobody else waits for."""

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from cluster.aio.bounded_threads import BoundedThreads
from tests.timeouts import TIMEOUT_S

NAME = "of-a-test"


class Gate:
    """Work that blocks until it is opened. `entered`: how many are in it."""

    def __init__(self) -> None:
        self._opened, self._entered = threading.Event(), threading.Semaphore(0)

    def work(self) -> str:
        self._entered.release()
        self._opened.wait(TIMEOUT_S)
        return "done"

    def await_entered(self) -> None:
        assert self._entered.acquire(timeout=TIMEOUT_S)

    @property
    def is_entered(self) -> bool:
        return self._entered.acquire(blocking=False)

    def open(self) -> None:
        self._opened.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    found = Gate()
    yield found
    found.open()


def returns(value: str) -> Callable[[], str]:
    return lambda: value


def test_work_of_one_key_does_not_wait_for_that_of_another(gate: Gate) -> None:
    threads = BoundedThreads(NAME, per_key=2)
    blocked = [threads.submit("a", gate.work) for _ in range(10)]
    for _ in range(2):
        gate.await_entered()
    assert threads.submit("b", returns("of b")).result(TIMEOUT_S) == "of b"
    assert not gate.is_entered
    gate.open()
    assert [one.result(TIMEOUT_S) for one in blocked] == ["done"] * 10


def test_work_that_nobody_waits_for_any_more_is_left_out(gate: Gate) -> None:
    threads = BoundedThreads(NAME, per_key=1)
    first = threads.submit("a", gate.work)
    gate.await_entered()
    ran: list[str] = []
    given_up = threads.submit("a", lambda: ran.append("given up"))
    last = threads.submit("a", lambda: ran.append("last"))
    assert given_up.cancel()
    gate.open()
    assert first.result(TIMEOUT_S) == "done"
    last.result(TIMEOUT_S)
    assert ran == ["last"]


def test_threads_do_not_keep_a_process_from_its_end(gate: Gate) -> None:
    BoundedThreads(NAME, per_key=1).submit("a", gate.work)
    gate.await_entered()
    (own,) = [thread for thread in threading.enumerate() if thread.name.startswith(f"{NAME} a")]
    assert own.daemon


def test_where_the_system_has_no_thread_left_the_key_keeps_its_own(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = BoundedThreads(NAME, per_key=2)
    first = threads.submit("a", gate.work)
    gate.await_entered()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ran: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for key in ("a", "b"):
            for _ in range(3):
                with pytest.raises(RuntimeError, match="new thread"):
                    threads.submit(key, lambda: ran.append("refused"))
    for key in ("a", "b"):
        assert threads.submit(key, returns(key)).result(TIMEOUT_S) == key
    gate.open()
    assert first.result(TIMEOUT_S) == "done"
    assert ran == []


def test_what_fails_is_raised_where_it_is_awaited() -> None:
    def fail() -> None:
        raise ValueError("wrong")

    async def run() -> None:
        threads = BoundedThreads(NAME, per_key=1)
        with pytest.raises(ValueError, match="wrong"):
            await threads.run("a", fail)
        assert await threads.run("a", returns("right")) == "right"

    asyncio.run(run())
