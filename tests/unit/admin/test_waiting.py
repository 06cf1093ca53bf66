"""What is noticed of a client's waits: once, in one line, after two seconds, of the wait that says most."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from admin.connecting.waiting import ClientWaits, Notice
from simulator.virtual_time_loop import VirtualTimeLoop


def noticed(scenario: Callable[[ClientWaits], Awaitable[None]]) -> list[Notice]:
    notices: list[Notice] = []

    async def main() -> None:
        await scenario(ClientWaits(notices.append))

    loop = VirtualTimeLoop()
    loop.run_until_complete(main())
    loop.close()
    return notices


async def waits(waiting: ClientWaits, what: str, seconds: float, limit_s: float = 30) -> None:
    with waiting.named(lambda: what, limit_s):
        await asyncio.sleep(seconds)


def test_a_long_wait_is_noticed_once_with_the_time_that_is_left() -> None:
    assert noticed(lambda waiting: waits(waiting, "nobody answers", 29)) == [
        Notice("nobody answers; waiting up to 28 s more", has_limit=True)
    ]


def test_a_short_wait_is_not_noticed() -> None:
    assert noticed(lambda waiting: waits(waiting, "nobody answers", 1.9)) == []


def test_of_a_wait_that_ends_soon_the_failure_says_it_all() -> None:
    assert noticed(lambda waiting: waits(waiting, "nobody answers", 2.4, limit_s=2.4)) == []


def test_the_innermost_wait_that_has_lasted_a_while_is_noticed() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        with waiting.named(lambda: "no metadata", 30):
            await asyncio.sleep(0.5)
            await waits(waiting, "no controller", 20, limit_s=40)

    assert [notice.text for notice in noticed(scenario)] == ["no controller; waiting up to 38 s more"]


def test_many_short_waits_within_a_long_one_are_not_noticed_for_it() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        with waiting.named(lambda: "no metadata", 30):
            for _ in range(100):
                await waits(waiting, "no controller", 0.2)

    assert [notice.text for notice in noticed(scenario)] == ["no metadata; waiting up to 28 s more"]


def test_waits_at_the_same_time_are_one_line_and_a_later_one_is_another() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        await asyncio.gather(*(waits(waiting, f"wait {number}", 10) for number in range(5)))
        await waits(waiting, "again", 10)

    assert [notice.text for notice in noticed(scenario)] == [
        "wait 4; waiting up to 28 s more",
        "again; waiting up to 28 s more",
    ]


def test_what_is_had_elsewhere_is_noticed_with_when() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        with waiting.falling_back(10, "the brokers are asked"):
            await waits(waiting, "no controller", 5)

    assert noticed(scenario) == [Notice("no controller; the brokers are asked in 8 s", has_limit=False)]


def test_a_wait_says_where_it_is_soon_had_elsewhere() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        with waiting.falling_back(3, "the brokers are asked"):
            await waits(waiting, "no controller", 2.5, limit_s=6)

    assert noticed(scenario) == [Notice("no controller; the brokers are asked in 1 s", has_limit=False)]


def test_a_wait_that_goes_on_after_nothing_was_had_elsewhere_is_noticed_again() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        with waiting.named(lambda: "no controller", 30):
            with waiting.falling_back(10, "the brokers are asked"):
                await asyncio.sleep(10)
            await asyncio.sleep(5)

    assert noticed(scenario) == [
        Notice("no controller; the brokers are asked in 8 s", has_limit=False),
        Notice("no controller; waiting up to 20 s more", has_limit=True),
    ]


def test_a_wait_without_an_end_has_no_limit() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        wait = waiting.begin(lambda: "no records", None)
        await asyncio.sleep(100)
        waiting.end(wait)

    assert noticed(scenario) == [Notice("no records; waiting until one comes", has_limit=False)]


def test_of_a_wait_with_a_limit_of_its_own_no_option_is_named() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        with waiting.named(lambda: "no answer of broker 1 yet", 3, is_fixed=True):
            await asyncio.sleep(3)

    assert noticed(scenario) == [Notice("no answer of broker 1 yet; waiting up to 1 s more", has_limit=False)]


async def late(answer: int, seconds: float) -> int:
    await asyncio.sleep(seconds)
    return answer


def test_of_nodes_that_are_asked_at_once_those_are_named_that_have_not_answered() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        questions = [("broker 1", late(1, 0.1)), ("controller 1001", late(2, 9)), ("broker 10", late(3, 9))]
        questions += [("broker 9", late(4, 9)), ("b:9092", late(5, 9)), ("broker 9", late(6, 9))]
        assert await waiting.answers(questions, 10) == [1, 2, 3, 4, 5, 6]

    assert [notice.text for notice in noticed(scenario)] == [
        "no answer of controller 1001, brokers 9, 10, b:9092 yet; waiting up to 8 s more"
    ]


def test_a_node_that_fails_has_answered() -> None:
    async def fails() -> int:
        raise ValueError

    async def scenario(waiting: ClientWaits) -> None:
        with contextlib.suppress(ValueError):
            await waiting.answers([("broker 1", fails()), ("broker 2", late(2, 1))], 10)

    assert noticed(scenario) == []


def test_in_a_command_of_short_waits_the_first_that_lasts_is_noticed_after_two_seconds() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        with waiting.command():
            for number in range(10):
                await waits(waiting, f"wait {number}", 1.5)

    assert noticed(scenario)[0] == Notice("wait 1; waiting up to 29 s more", has_limit=True)


def test_a_command_without_waits_is_silent() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        with waiting.command():
            await asyncio.sleep(10)

    assert noticed(scenario) == []


def test_the_same_is_not_said_again_soon() -> None:
    async def scenario(waiting: ClientWaits) -> None:
        for pause in (1, 30, 0):
            await waits(waiting, "no answer of broker 1 yet", 3)
            await asyncio.sleep(pause)

    assert [notice.text for notice in noticed(scenario)] == ["no answer of broker 1 yet; waiting up to 28 s more"] * 2
