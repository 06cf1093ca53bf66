"""Waits for the effects of a request outside the event loop (TP-4).

A decision is the first half of a response: the result from the event loop, and the futures that the caller may wait
for.
"""

import asyncio
from asyncio import Future
from math import ceil
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cluster.model.bounds import INT32_MAX
from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.plans import Plan
from cluster.requests.topics import CreatableTopicResult, CreatePartitionsResult, DeletableTopicResult
from controller.decisions.partitions.requested_elections import RefusedElection

_Result = TypeVar("_Result", CreatableTopicResult, CreatePartitionsResult, DeletableTopicResult)


class TopicsDecision(Struct, Generic[_Result], frozen=True):
    """One result per topic of the request. `pending`: per accepted topic, a future that is True once all its leaders
    are elected or it is deleted, False if the controller resigned before. `throttled_until`: on the clock of the event
    loop, until when the client is not heard.
    """

    results: tuple[_Result, ...]
    pending: "dict[str, Future[bool]]"
    plan: Plan | None = None
    throttled_until: float = 0.0

    @property
    def throttle_time_ms(self) -> int:
        """The time for which the client is not heard from now on, as far as an answer can say it."""
        left_ms = (self.throttled_until - asyncio.get_running_loop().time()) * 1000
        return max(0, ceil(min(left_ms, INT32_MAX)))


class ElectLeadersDecision(Struct, frozen=True):
    """The result per requested partition. `leaders`: partition -> elected leader. `delivered`: per such leader, a
    future that is True once the broker acknowledged, False if the controller resigned before.
    """

    partitions: tuple[TopicPartition, ...]
    refusals: dict[TopicPartition, RefusedElection]
    leaders: dict[TopicPartition, BrokerId] = {}
    delivered: "dict[BrokerId, Future[bool]]" = {}
    plan: Plan | None = None


async def results_in_time(decided: TopicsDecision[_Result], timeout_ms: int, why: str) -> tuple[_Result, ...]:
    """The results once every pending topic is done, at most `timeout_ms` later; then REQUEST_TIMED_OUT with `why` for
    each that is not, including those whose controller resigned. With a timeout of 0 or less, for all of them.
    """
    pending = decided.pending
    if pending and timeout_ms > 0:
        await asyncio.wait(pending.values(), timeout=timeout_ms / 1000)
    late = {topic for topic, done in pending.items() if timeout_ms <= 0 or not (done.done() and done.result())}
    if not late:
        return decided.results
    return tuple(
        replace(result, error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=why) if result.name in late else result
        for result in decided.results
    )
