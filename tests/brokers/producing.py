"""The producer of the client library against the agents of an `AgentWorld`, over a network that loses and reorders."""

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from admin.connecting.connection import ClusterConnection
from admin.connecting.waiting import ClientWaits
from admin.consuming.record_batches import decode_records
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.producer import Delivery, Producer
from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode, PeerUnreachableError
from cluster.requests.agents import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from cluster.requests.data import MetadataRequest, MetadataResponse, ProduceRequest
from tests.brokers.agents import TOPIC, AgentWorld


class ProducerIdBlocks:
    """The blocks of producer ids that the played controller of a world allocates; `code`: or what it refuses with."""

    def __init__(self, world: AgentWorld) -> None:
        self.requests: list[AllocateProducerIdsRequest] = []
        self.code = ErrorCode.NONE
        world.controller.others[AllocateProducerIdsRequest] = self._allocate

    def _allocate(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        self.requests.append(request)
        if self.code is not ErrorCode.NONE:
            return AllocateProducerIdsResponse(self.code)
        return AllocateProducerIdsResponse(ErrorCode.NONE, 1000 * (len(self.requests) - 1), 1000)


class WorldClient:
    """The part of a client's connections that topology and producer use.

    `losses`: the share of produce requests whose answer is lost after they were carried out. `delay_s`: the longest
    time that a request spends on its way, so that one may overtake another.
    """

    limits = SimpleNamespace(left_s=30.0, timeout_s=30.0)
    kafka = None
    has_answered = True

    def __init__(self, world: AgentWorld, random: Random, *, losses: float = 0.0, delay_s: float = 0.0) -> None:
        self._world, self._random = world, random
        self.producer_ids = ProducerIdBlocks(world)
        self.losses, self.delay_s = losses, delay_s
        self.waiting = ClientWaits()
        self.lost = 0

    def name(self, address: str) -> str:
        return address

    async def find_brokers(self) -> list[str]:
        return [agent.endpoint.address for agent in self._world.agents.values()]

    async def metadata(self, address: str, request: MetadataRequest, timeout_ms: int) -> MetadataResponse:
        return cast(MetadataResponse, await self.ask_broker(address, request, timeout_ms))

    async def ask_broker(self, address: str, request: Any, timeout_ms: int) -> Any:
        if self.delay_s:
            await asyncio.sleep(self._random.uniform(0, self.delay_s))
        is_lost = isinstance(request, ProduceRequest) and self._random.random() < self.losses
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                answer = await self._world.network.call("client:0", address, request)
        except TimeoutError:
            raise PeerUnreachableError(address, "timed out") from None
        if is_lost:
            self.lost += 1
            raise PeerUnreachableError(address, "connection closed")
        return answer


class Sent:
    """A producer whose records are numbers, and what became of them."""

    def __init__(self, world: AgentWorld, client: WorldClient, options: ProducerOptions) -> None:
        self.deliveries: list[Delivery] = []
        topology = Topology(cast(ClusterConnection, client))
        self.producer = Producer(topology, world.clock, options, self.deliveries.append, Random(1))

    async def send(self, first: int, count: int, partition: int = 0) -> None:
        for number in range(first, first + count):
            await self.producer.send(TOPIC, None, b"%d" % number, partition)

    @property
    def failed(self) -> list[int]:
        """The numbers of the records that were given up."""
        return [int(value or b"") for d in self.deliveries if d.error is not None for value in d.values]


async def stored_numbers(world: AgentWorld, broker: int) -> list[int]:
    """The numbers in the log of this broker, its end included if it leads."""
    agent = world.agents[broker]
    log = agent.partition().log
    assert log is not None
    data = log.read(log.log_start_offset, 1 << 30, log.log_end_offset, at_least_one=True)
    return [int(record.value or b"") for record in decode_records(data, Offset(0)).records]
