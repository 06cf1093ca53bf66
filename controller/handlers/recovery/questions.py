"""Asks the registered brokers what they have and know, outside the event loop: one that hangs holds up nobody else.

The event that plans the recovery compares what was registered and led before the question with what is now.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import structlog
from msgspec import Struct

from cluster.model.broker import Broker, BrokerId
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError, ZooKeeperError
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests.cluster import NO_ZOOKEEPER
from cluster.requests.recovery import (
    DescribeReplicasResponse,
    PlanClusterRecoveryRequest,
    RecoverClusterRequest,
)
from cluster.znodes.paths import BROKERS_IDS, broker_of_name, broker_path
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.port import Znode
from cluster.zookeeper.registrations import decode_registration
from controller.active_controller import ActiveController

ANSWER_MAX_S: Final = 10
"""How long the brokers may take, all of which are asked at once. One with many logs reads for some seconds."""
_CHANGED: Final = "brokers or partitions changed while the brokers were asked, nothing was decided: run it again"
_log = structlog.stdlib.get_logger()


class AskedBrokers(Struct, frozen=True):
    """A request with what the brokers answered, and what the answers are valid for: registrations and leaderships."""

    request: PlanClusterRecoveryRequest | RecoverClusterRequest
    registrations: Mapping[BrokerId, Znode]
    leaderships: Mapping[TopicPartition, LeaderAndIsr]
    answers: Mapping[BrokerId, DescribeReplicasResponse]

    @property
    def silent(self) -> tuple[BrokerId, ...]:
        """The brokers that are registered, malformed or not, and did not answer."""
        return tuple(broker for broker in self.registrations if broker not in self.answers)

    @property
    def answering(self) -> list[Broker]:
        return [broker for broker in _readable(self.registrations) if broker.id in self.answers]


async def ask_brokers(
    active: ActiveController, request: PlanClusterRecoveryRequest | RecoverClusterRequest
) -> AskedBrokers:
    """Ask all that are registered, joined or not: who waits to join may have the only copy of a record. Ask again if
    something changed meanwhile.

    Raises ApiError(BROKER_NOT_AVAILABLE) without ZooKeeper.
    """
    try:
        asked = await _ask(active, request)
        return asked if await _is_valid(active, asked) else await _ask(active, request)
    except ZooKeeperError:
        raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, NO_ZOOKEEPER) from None


async def check_unchanged(active: ActiveController, asked: AskedBrokers) -> None:
    """Raise ApiError if a broker registered or left, or a leader or ISR changed, since the brokers were asked."""
    if not await _is_valid(active, asked):
        raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, _CHANGED)


async def _ask(active: ActiveController, request: PlanClusterRecoveryRequest | RecoverClusterRequest) -> AskedBrokers:
    leaderships, registrations = dict(active.context.leaderships.known), await _registrations(active)
    answers = await answers_of(active, _readable(registrations), recovers=False)
    return AskedBrokers(request, registrations, leaderships, answers)


async def _is_valid(active: ActiveController, asked: AskedBrokers) -> bool:
    return asked.leaderships == active.context.leaderships.known and asked.registrations == await _registrations(active)


async def answers_of(
    active: ActiveController, brokers: Iterable[Broker], *, recovers: bool
) -> dict[BrokerId, DescribeReplicasResponse]:
    """The answers of those that answer in time."""
    asked = list(brokers)
    answers = await asyncio.gather(*(_answer_of(active, broker, recovers=recovers) for broker in asked))
    return {broker.id: answer for broker, answer in zip(asked, answers, strict=True) if answer is not None}


async def _answer_of(active: ActiveController, broker: Broker, *, recovers: bool) -> DescribeReplicasResponse | None:
    try:
        async with asyncio.timeout(ANSWER_MAX_S):
            return await active.brokers.describe_replicas(broker, recovers=recovers)
    except (TimeoutError, PeerUnreachableError, ApiError) as error:
        why = str(error) or f"no answer within {ANSWER_MAX_S} s"
        _log.warning("Broker did not describe its replicas", broker=broker.id, error=why)
        return None


async def _registrations(active: ActiveController) -> dict[BrokerId, Znode]:
    """Registrations by broker id, without those of controllers. It arms no watch."""
    (names,) = await active.reads.children_many([BROKERS_IDS])
    known = (broker_of_name(name) for name in names or ())
    ids = sorted(b for b in known if b is not None and b not in active.context.brokers.registered_controllers)
    znodes = await active.reads.get_many([broker_path(broker) for broker in ids])
    return {broker: znode for broker, znode in zip(ids, znodes, strict=True) if znode is not None}


def _readable(registrations: Mapping[BrokerId, Znode]) -> list[Broker]:
    found: dict[BrokerId, Any] = decode_each(registrations, registrations.values(), decode_registration)
    return [registered.broker for registered in found.values()]
