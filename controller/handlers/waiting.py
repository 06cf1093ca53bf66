"""Callers who wait for what their request leads to, while the event loop goes on (TP-4).

A decision is the first half of a response: what the event loop answers, and what the caller may wait for.
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
    """One result per topic of the request. `leaders_elected`: for each topic created, whether all its partitions
    got a leader while the controller that created it was active.
    """

    results: tuple[CreatableTopicResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class CreatePartitionsDecision(Struct, frozen=True):
    """The same for topics that gain partitions."""

    results: tuple[CreatePartitionsResult, ...]
    leaders_elected: "dict[str, Future[bool]]"
    plan: Plan | None = None


class DeleteTopicsDecision(Struct, frozen=True):
    """One result per topic of the request. `deleted`: for each topic accepted, whether it went while the controller
    that accepted it was active.
    """

    results: tuple[DeletableTopicResult, ...]
    deleted: "dict[str, Future[bool]]"
    plan: Plan | None = None


class ElectLeadersDecision(Struct, frozen=True):
    """What became of each partition asked for. `leaders`: those that were elected. `delivered`: for each of them,
    whether the broker took the news while the controller that elected it was active.
    """

    partitions: tuple[TopicPartition, ...]
    refusals: dict[TopicPartition, RefusedElection]
    leaders: dict[TopicPartition, BrokerId] = {}
    delivered: "dict[BrokerId, Future[bool]]" = {}
    plan: Plan | None = None


async def late(waiting: Mapping[str, Future[bool]], timeout_ms: int) -> set[str]:
    """Which of the topics did not get there within `timeout_ms`, or whose controller stopped being active before.

    Without a positive time, none does.
    """
    if waiting and timeout_ms > 0:
        await asyncio.wait(waiting.values(), timeout=timeout_ms / 1000)
    return {topic for topic, there in waiting.items() if timeout_ms <= 0 or not (there.done() and there.result())}
