"""Lets stub agents take replicas into the ISRs of the partitions that they lead, as replicas that have caught up.

An agent sends all proposals that wait in one AlterPartition request, and has one request on its way at a time, as the
real ones do. Source: Kafka DefaultAlterPartitionManager.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

from msgspec import Struct

from benchmarks.partition_table import ReceivedState
from cluster.model.broker import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.listeners import ListenerNames
from cluster.model.partition import TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest, AlterPartitionResponse
from cluster.rpc.client import RpcClient
from cluster.zookeeper.port import ZooKeeper
from cluster.zookeeper.registrations import active_controller

REQUEST_TIMEOUT_MS: Final = 60_000
_NAMES: Final = ListenerNames()


class Proposed(Struct, frozen=True):
    """What an agent has proposed since it was asked last; times in ms since the Unix epoch, 0 for none."""

    requests: int = 0
    partitions: int = 0
    refused: int = 0
    first_sent_at_ms: float = 0
    last_answered_at_ms: float = 0


class IsrProposals:
    """The proposals of one agent; `on_answer` gets what was accepted."""

    def __init__(
        self, broker: BrokerId, zookeeper: ZooKeeper, on_answer: Callable[[AlterPartitionResponse], None]
    ) -> None:
        self._broker, self._zookeeper, self._on_answer = broker, zookeeper, on_answer
        self._client = RpcClient()
        self._joining: frozenset[int] = frozenset()
        self._waiting: dict[TopicPartition, AlterPartitionItem] = {}
        self._sending: asyncio.Task[None] | None = None
        self._proposed = Proposed()
        self.broker_epoch = BrokerEpoch(-1)

    @property
    def is_open(self) -> bool:
        """Whether anybody is to join ISRs now."""
        return bool(self._joining)

    def join(self, brokers: Collection[BrokerId]) -> None:
        """Propose from now on ISRs with these brokers wherever they have a replica; with none, propose nothing."""
        self._joining = frozenset(brokers)

    def consider(self, led: Iterable[tuple[TopicPartition, TopicId | None, ReceivedState]]) -> None:
        """Propose what is missing in the ISRs of partitions that this agent leads."""
        for tp, topic_id, state in led:
            missing = [b for b in state.replicas if b in self._joining and b not in state.isr]
            if state.leader == self._broker and missing:
                self._waiting[tp] = AlterPartitionItem(
                    "" if topic_id else tp.topic,
                    topic_id,
                    tp.partition,
                    LeaderEpoch(state.leader_epoch),
                    tuple(map(BrokerId, (*state.isr, *missing))),
                    PartitionEpoch(state.partition_epoch),
                )
        if self._waiting and self._sending is None:
            self._sending = asyncio.create_task(self._send_all())

    def take(self) -> Proposed:
        """Return what was proposed since the last call."""
        taken, self._proposed = self._proposed, Proposed()
        return taken

    async def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
        await self._client.close()

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                items, self._waiting = tuple(self._waiting.values()), {}
                await self._send(items)
        finally:
            self._sending = None

    async def _send(self, items: tuple[AlterPartitionItem, ...]) -> None:
        sent_at_ms = time.time() * 1000
        _, endpoints = await active_controller(self._zookeeper)
        control = _NAMES.control_endpoint(endpoints)
        if control is None:
            raise RuntimeError("there is no controller to propose ISRs to")
        request = AlterPartitionRequest(self._broker, self.broker_epoch, items)
        response = await self._client.call(control.address, request, REQUEST_TIMEOUT_MS)
        self._on_answer(response)
        before = self._proposed
        self._proposed = Proposed(
            before.requests + 1,
            before.partitions + len(items),
            before.refused + _refused(response),
            before.first_sent_at_ms or sent_at_ms,
            time.time() * 1000,
        )


def _refused(response: AlterPartitionResponse) -> int:
    """Count the proposals that were refused; a request refused as a whole is one."""
    return (response.error_code is not ErrorCode.NONE) + sum(
        result.error_code is not ErrorCode.NONE for result in response.partitions
    )


def add_up(found: Iterable[Proposed]) -> Proposed:
    """Add up what several agents have proposed."""
    each = [proposed for proposed in found if proposed.requests]
    return Proposed(
        sum(p.requests for p in each),
        sum(p.partitions for p in each),
        sum(p.refused for p in each),
        min((p.first_sent_at_ms for p in each), default=0),
        max((p.last_answered_at_ms for p in each), default=0),
    )
