"""A real agent that follows a leader which the test plays: what it asks, and what it makes of each answer."""

import asyncio
from typing import Any

from cluster.model.broker import BrokerId, Endpoint, Offset
from cluster.model.errors import ErrorCode
from cluster.requests.context import RequestContext
from cluster.requests.data import (
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsResult,
    OffsetForLeaderResult,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
)
from simulator.record_batches import encode_batch
from tests.brokers.agents import TOPIC, AgentProcess, AgentWorld, until

LEADER_ENDPOINT = Endpoint("broker-2", 9092)


class PlayedLeader:
    """Broker 2, played by the test: answers each fetch with the next prepared answer, then waits.

    Questions about epochs likewise. It tells `start` and `end` of its log, unless the next of `refusals` is an error.
    """

    def __init__(self, world: AgentWorld, endpoint: Endpoint = LEADER_ENDPOINT) -> None:
        self.fetches: list[FetchRequest] = []
        self.answers: asyncio.Queue[FetchResponse | FetchPartitionData | tuple[FetchPartitionData, ...]] = (
            asyncio.Queue()
        )
        self.questions: list[OffsetsForLeaderEpochRequest] = []
        self.epoch_ends: asyncio.Queue[tuple[OffsetForLeaderResult, ...]] = asyncio.Queue()
        self.start, self.end = 0, 0
        self.refusals: list[ErrorCode] = []
        world.network.attach(endpoint, self)

    async def handle(self, _: RequestContext, request: Any) -> Any:
        if isinstance(request, ListOffsetsRequest):
            return ListOffsetsResponse((self._tell_offset(request.partitions[0].timestamp),))
        if isinstance(request, OffsetsForLeaderEpochRequest):
            self.questions.append(request)
            return OffsetsForLeaderEpochResponse(await self.epoch_ends.get())
        assert isinstance(request, FetchRequest)
        self.fetches.append(request)
        answer = await self.answers.get()
        if isinstance(answer, FetchResponse):
            return answer
        return FetchResponse(ErrorCode.NONE, answer if isinstance(answer, tuple) else (answer,))

    def _tell_offset(self, timestamp: int) -> ListOffsetsResult:
        code = self.refusals.pop(0) if self.refusals else ErrorCode.NONE
        if code is not ErrorCode.NONE:
            return ListOffsetsResult(TOPIC, 0, code)
        offset = Offset(self.end if timestamp == -1 else self.start)
        return ListOffsetsResult(TOPIC, 0, ErrorCode.NONE, -1, offset)

    @property
    def offsets(self) -> list[int]:
        return [request.partitions[0].fetch_offset for request in self.fetches]


def data(base: int, count: int = 1, *, epoch: int = 0, hw: int = 0, flip: bool = False) -> FetchPartitionData:
    batch = encode_batch(b"r" * 20, count, base_offset=base, leader_epoch=epoch)
    records = batch[:-1] + bytes([batch[-1] ^ 1]) if flip else batch
    return FetchPartitionData(TOPIC, 0, ErrorCode.NONE, Offset(hw), Offset(hw), Offset(0), records=records)


def error(code: ErrorCode) -> FetchPartitionData:
    return FetchPartitionData(TOPIC, 0, code)


async def follow(world: AgentWorld) -> tuple[AgentProcess, PlayedLeader]:
    """Agent 1 follows the played broker 2."""
    await world.start(1)
    leader = PlayedLeader(world)
    follower = AgentProcess(world, BrokerId(2))
    world.decide(2, [2], replicas=[1, 2])
    world.agents[2] = follower
    await world.update_metadata(1, 2, to=[1])
    del world.agents[2]
    await world.tell(1)
    await until(lambda: len(leader.fetches) == 1)
    return world.agents[1], leader


async def tell_again(world: AgentWorld) -> None:
    world.decide(2, [2], replicas=[1, 2])
    await world.tell(1)
