"""Watches the metadata of brokers for `klamm bench cluster`, in a process of its own.

Answers with ten thousand partitions would take from the brokers what is measured. So one topic is asked for at a time,
and the next one only when the first is as it should be; the end is confirmed by one look at all topics.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from benchmarks.children import answer_commands
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests.data import MetadataPartition, MetadataRequest
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.rpc.client import RpcClient

_TIMEOUT_MS = 30_000
_PROBE_MS = 2_000
_POLL_S = 0.05
_PROBE_PAUSE_S = 0.02

_Holds = Callable[[MetadataPartition], bool]


class WatchCommand(Struct, frozen=True, kw_only=True):
    """`watch` until all of these brokers show all partitions `whole` (a leader, every replica in sync), with their
    `preferred` leader, or led by others than `broker`; `probe`: create topics until it succeeds, then watch that topic.

    `addresses` of the brokers to watch; `topics`: their sizes; `controllers`: where a probe sends its requests.
    """

    do: Literal["watch", "probe"]
    addresses: list[str]
    topics: dict[str, int] = {}
    wanted: Literal["whole", "preferred", "others"] = "whole"
    broker: int = -1
    controllers: list[str] = []
    name: str = ""


class Watched(Struct, frozen=True):
    """Times in s since the Unix epoch. `first`: when the first partition was found changed; `last`: when the last
    broker showed all; `created`: when a probe's topic was acknowledged.
    """

    last: float
    first: float = 0.0
    created: float = 0.0


class Watcher:
    """Answers commands."""

    def __init__(self) -> None:
        self._rpc = RpcClient()

    async def answer(self, command: WatchCommand) -> Watched:
        """Do what a command says."""
        if command.do == "probe":
            return await self._probe(command)
        found = await asyncio.gather(*(self._watch(address, command) for address in command.addresses))
        return Watched(max(last for _, last in found), min(first for first, _ in found))

    async def _watch(self, address: str, command: WatchCommand) -> tuple[float, float]:
        """Watch one broker: when its first partition changed, and when all were as wanted."""
        holds = _condition(command)
        names, first, before = list(command.topics), 0.0, -1
        while True:
            for name in names:
                while True:
                    began = time.time()
                    partitions = await self._partitions(address, [name])
                    good = sum(map(holds, partitions))
                    if not first and before >= 0 and good > before:
                        first = time.time()
                    if good == len(partitions) == command.topics[name]:
                        break
                    before = good
                    await asyncio.sleep(max(_POLL_S, 2 * (time.time() - began)))
            last = time.time()
            partitions = await self._partitions(address, names)
            if sum(map(holds, partitions)) == len(partitions) == sum(command.topics.values()):
                return first or last, last

    async def _partitions(self, address: str, names: Sequence[str]) -> list[MetadataPartition]:
        try:
            answer = await self._rpc.call(address, MetadataRequest(tuple(names)), _TIMEOUT_MS)
        except (ApiError, PeerUnreachableError):
            return []
        return [partition for topic in answer.topics for partition in topic.partitions]

    async def _probe(self, command: WatchCommand) -> Watched:
        """Create topics of one partition, each with another name, until one succeeds."""
        attempt = 0
        while True:
            for address in command.controllers:
                attempt += 1
                name = f"{command.name}-{attempt}"
                if await self._is_created(address, name):
                    created = time.time()
                    shown = WatchCommand(do="watch", addresses=command.addresses, topics={name: 1})
                    return Watched((await self.answer(shown)).last, created=created)
            await asyncio.sleep(_PROBE_PAUSE_S)

    async def _is_created(self, address: str, name: str) -> bool:
        # Of two replicas: with three brokers one may be dead.
        request = CreateTopicsRequest((NewTopic(name, 1, 2),), timeout_ms=_PROBE_MS)
        try:
            [topic] = (await self._rpc.call(address, request, _PROBE_MS)).topics
        except (ApiError, PeerUnreachableError):
            return False
        return topic.error_code is ErrorCode.NONE


def _condition(command: WatchCommand) -> _Holds:
    broker = BrokerId(command.broker)
    conditions: dict[str, _Holds] = {
        "whole": lambda p: p.leader_id >= 0 and len(p.isr_nodes) == len(p.replica_nodes),
        "preferred": lambda p: p.leader_id == p.replica_nodes[0],
        "others": lambda p: p.leader_id not in {broker, -1},
    }
    return conditions[command.wanted]


async def serve() -> None:
    """Answer commands until standard input is closed."""
    await answer_commands(WatchCommand, Watcher().answer)


if __name__ == "__main__":
    asyncio.run(serve())
