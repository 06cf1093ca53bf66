"""Waits for the effects of a request outside the event loop (TP-4).

A decision is the first half of a response: the result from the event loop, and the futures that the caller may wait
for.
"""

import asyncio
from asyncio import Future
from collections.abc import Mapping

from msgspec import Struct

from cluster.broker import BrokerId
from cluster.partition import TopicPartition
from cluster.requests.plans import Plan
from cluster.requests.topics import CreatableTopicResult, CreatePartitionsResult, DeletableTopicResult
from controller.decisions.partitions.requested_elections import RefusedElection


class CreateTopicsDecision(Struct, frozen=True):
    """One result per topic of the request. `leaders_elected`: per created topic, a future as of
    `ActiveController.leaders_elected`.
    """

    results: tuple[CreatableTopicResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class CreatePartitionsDecision(Struct, frozen=True):
    """One result per topic of the request. `leaders_elected`: the same for topics that gain partitions."""

    results: tuple[CreatePartitionsResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class DeleteTopicsDecision(Struct, frozen=True):
    """One result per topic of the request. `deleted`: per accepted topic, a future as of
    `ActiveController.topic_deleted`.
    """

    results: tuple[DeletableTopicResult, ...]
    deleted: "dict[str, Future[bool]]"
    plan: Plan | None = None


class ElectLeadersDecision(Struct, frozen=True):
    """The result per requested partition. `leaders`: partition -> elected leader. `delivered`: per such leader, a
    future that is True once the broker acknowledged, False if the controller resigned before.
    """

    partitions: tuple[TopicPartition, ...]
    refusals: dict[TopicPartition, RefusedElection]
    leaders: dict[TopicPartition, BrokerId] = {}
    delivered: "dict[BrokerId, Future[bool]]" = {}
    plan: Plan | None = None


async def late(waiting: Mapping[str, Future[bool]], timeout_ms: int) -> set[str]:
    """The topics whose future was not True within `timeout_ms`, including those whose controller resigned.

    With a timeout of 0 or less, all of them.
    """
    if waiting and timeout_ms > 0:
        await asyncio.wait(waiting.values(), timeout=timeout_ms / 1000)
    return {topic for topic, there in waiting.items() if timeout_ms <= 0 or not (there.done() and there.result())}
