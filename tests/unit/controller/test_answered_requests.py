"""A mutation that is sent twice under one request id is carried out once."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.context import RequestContext
from cluster.requests.topics import CreateTopicsRequest, DeleteTopicsRequest, NewTopic, TopicToDelete
from cluster.security.principals import Principal
from controller.node import ANSWERS_MAX, AnsweredRequests
from tests.controllers.worlds import World, run_virtually, until

REQUEST = DeleteTopicsRequest((TopicToDelete("t"),))


class Loop:
    """Stands at the end of the queue: futures that were asked for, in order."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Any]] = []

    @property
    def ask(self) -> Callable[[asyncio.Future[Any]], None]:
        return self.asked.append


async def test_a_repeated_request_gets_the_first_answer_and_is_not_asked_again() -> None:
    answered, loop = AnsweredRequests(), Loop()
    first = asyncio.ensure_future(answered.first_answer("a", REQUEST, loop.ask))
    second = asyncio.ensure_future(answered.first_answer("a", REQUEST, loop.ask))
    await asyncio.sleep(0)
    loop.asked[0].set_result("done")
    assert [await first, await second] == ["done", "done"]
    assert await answered.first_answer("a", REQUEST, loop.ask) == "done"
    assert len(loop.asked) == 1


async def test_the_answer_survives_the_caller_who_went_away() -> None:
    answered, loop = AnsweredRequests(), Loop()
    gone = asyncio.ensure_future(answered.first_answer("a", REQUEST, loop.ask))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    loop.asked[0].set_result("done")
    assert await answered.first_answer("a", REQUEST, loop.ask) == "done"


async def test_requests_without_an_id_have_nothing_to_do_with_one_another() -> None:
    answered, loop = AnsweredRequests(), Loop()
    both = [asyncio.ensure_future(answered.first_answer("", REQUEST, loop.ask)) for _ in range(2)]
    await asyncio.sleep(0)
    for number, asked in enumerate(loop.asked):
        asked.set_result(number)
    assert [await answer for answer in both] == [0, 1]


async def test_a_failure_is_not_remembered() -> None:
    answered, loop = AnsweredRequests(), Loop()
    failing = asyncio.ensure_future(answered.first_answer("a", REQUEST, loop.ask))
    await asyncio.sleep(0)
    loop.asked[0].set_exception(ApiError(ErrorCode.NOT_CONTROLLER, "gone"))
    with pytest.raises(ApiError):
        await failing
    again = asyncio.ensure_future(answered.first_answer("a", REQUEST, loop.ask))
    await asyncio.sleep(0)
    loop.asked[1].set_result("done")
    assert await again == "done"


async def test_an_event_that_cannot_be_enqueued_leaves_nothing_behind() -> None:
    answered, loop = AnsweredRequests(), Loop()

    def refuse(answer: asyncio.Future[Any]) -> None:
        answer.set_exception(ApiError(ErrorCode.NOT_CONTROLLER, "standby"))

    with pytest.raises(ApiError):
        await answered.first_answer("a", REQUEST, refuse)
    await asyncio.sleep(0)
    later = asyncio.ensure_future(answered.first_answer("a", REQUEST, loop.ask))
    await asyncio.sleep(0)
    loop.asked[0].set_result("done")
    assert await later == "done"


async def test_an_id_that_comes_with_another_request_is_refused() -> None:
    answered, loop = AnsweredRequests(), Loop()
    first = asyncio.ensure_future(answered.first_answer("a", REQUEST, loop.ask))
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as caught:
        await answered.first_answer("a", DeleteTopicsRequest((TopicToDelete("u"),)), loop.ask)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    loop.asked[0].set_result("done")
    assert await first == "done"


async def test_the_oldest_answer_is_forgotten_first() -> None:
    answered, asked = AnsweredRequests(), []

    def answer_at_once(answer: asyncio.Future[Any]) -> None:
        asked.append(answer)
        answer.set_result(len(asked))

    for number in range(ANSWERS_MAX + 1):
        await answered.first_answer(str(number), REQUEST, answer_at_once)
    assert await answered.first_answer("1", REQUEST, answer_at_once) == 2
    assert await answered.first_answer("0", REQUEST, answer_at_once) == ANSWERS_MAX + 2


def test_a_topic_created_again_under_the_same_id_was_created_once() -> None:
    async def main() -> None:
        world = await World().start()
        c = world.start_controller()
        await until(lambda: c.is_active)
        await world.start_broker(1)
        await until(lambda: c.gauge("ActiveBrokerCount") == 1)
        request = CreateTopicsRequest((NewTopic("t", 1, 1),))
        first, second = [await c.node.handle(RequestContext(request_id="a"), request) for _ in range(2)]
        assert first.topics[0].error_code is ErrorCode.NONE
        assert first == second
        other = await c.node.handle(RequestContext(request_id="b"), request)
        assert other.topics[0].error_code is ErrorCode.TOPIC_ALREADY_EXISTS
        await c.stop()

    run_virtually(main)


async def test_the_id_of_another_principal_is_another_id() -> None:
    answered, loop = AnsweredRequests(), Loop()
    first = asyncio.ensure_future(answered.first_answer("a", REQUEST, loop.ask, Principal("User", "alice")))
    await asyncio.sleep(0)
    loop.asked[0].set_result("for alice")
    assert await first == "for alice"
    second = asyncio.ensure_future(answered.first_answer("a", REQUEST, loop.ask, Principal("User", "bob")))
    await asyncio.sleep(0)
    loop.asked[1].set_result("for bob")
    assert await second == "for bob"
