"""The faults by name, and what a fault can see and do: a `Round` in progress."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, NamedTuple, TypeVar

from admin.connecting.client import AdminClient
from cluster.model.errors import ApiError, PeerUnreachableError
from tests.chaos.cluster import ChaosCluster
from tests.chaos.isolation import Capability
from tests.chaos.network import Network
from tests.chaos.producers import PARTITIONS, Acknowledgements
from tests.chaos.switch import Link

_T = TypeVar("_T")
_POLL_S: Final = 0.2


class StuckError(Exception):
    """The cluster did not do something by itself within its deadline."""


@dataclass
class Expected:
    """What an audit must find after faults of a cluster, and that is therefore no failure of a round.

    `unlogged`: processes whose state-change log could not be written, which leaves a gap. `wrong_clocks`: processes
    whose clock was wrong for a while. `was_restored`: ZooKeeper was, so that epochs were used twice. `flaps`: there
    are so many faults that leaders change more often than is normal.
    """

    unlogged: set[str] = field(default_factory=set)
    wrong_clocks: set[str] = field(default_factory=set)
    was_restored: bool = False
    flaps: bool = False


@dataclass
class Round:
    """A round while its fault happens. All choices come from `random`, so that the seed repeats them."""

    fault: str
    seed: int
    cluster: ChaosCluster
    client: AdminClient
    topic: str
    acks: Acknowledgements
    expected: Expected
    choices: list[str]
    timeout_s: float = 60.0
    """How long `until` waits."""

    def __post_init__(self) -> None:
        self.random = Random(f"{self.seed} {self.fault}")

    def part(self, name: str) -> "Round":
        """The same round for one of several things at once, whose choices do not depend on who draws first."""
        return replace(self, fault=f"{self.fault}, {name}")

    @property
    def network(self) -> Network:
        assert self.cluster.network is not None, "a capability that was checked"
        return self.cluster.network

    def say(self, choice: str) -> None:
        """Keep what was chosen or done, for the table."""
        self.choices.append(choice)

    def partition(self) -> int:
        return self.random.randrange(PARTITIONS)

    def broker(self) -> str:
        return self.random.choice(self.cluster.brokers)

    async def pause_for(self, shortest: float, longest: float) -> None:
        """Let a fault last, for a time chosen by the seed."""
        seconds = self.random.uniform(shortest, longest)
        self.say(f"{seconds:.1f} s")
        await asyncio.sleep(seconds)

    async def leader(self, partition: int) -> str:
        """The broker that leads a partition, once there is one."""
        return (await self.replicas(partition))[0]

    async def followers(self, partition: int) -> list[str]:
        return (await self.replicas(partition))[1:]

    async def replicas(self, partition: int) -> list[str]:
        """The brokers of a partition, its leader first."""

        async def described() -> list[str] | None:
            topic = (await self.client.describe_topics([self.topic])).topics[0]
            found = next((p for p in topic.partitions if p.partition == partition and p.leader >= 0), None)
            if found is None:
                return None
            return [f"broker-{b}" for b in (found.leader, *(r for r in found.replicas if r != found.leader))]

        return await self.until(described, f"a leader of partition {partition}")

    async def until_in_sync(self) -> None:
        """Until every replica of the topic is in its ISR."""

        async def in_sync() -> bool:
            partitions = (await self.client.describe_topics([self.topic])).topics[0].partitions
            return len(partitions) == PARTITIONS and all(set(p.isr) == set(p.replicas) for p in partitions)

        await self.until(in_sync, "all replicas in sync")

    async def controller(self) -> str:
        """The active controller, once there is one."""

        async def found() -> str | None:
            described = await self.client.describe_controller()
            return f"controller-{described.controller_id}" if described.controller_id >= 0 else None

        return await self.until(found, "an active controller")

    async def until(self, ask: Callable[[], Awaitable[_T | None]], what: str) -> _T:
        """What `ask` returns, once it is neither None nor false. Raises StuckError after `timeout_s`."""
        deadline, failure = time.monotonic() + self.timeout_s, ""
        while time.monotonic() < deadline:
            try:
                if found := await ask():
                    return found
            except (ApiError, PeerUnreachableError) as error:
                failure = f"; at last {error}"
            await asyncio.sleep(_POLL_S)
        raise StuckError(f"not within {self.timeout_s:g} s: {what}{failure}")

    async def until_acknowledged(self, count: int) -> None:
        """Until so many more records are acknowledged in every partition."""
        wanted = {p: self.acks.counts[p] + count for p in range(PARTITIONS)}

        async def enough() -> bool:
            return all(self.acks.counts[p] >= wanted[p] for p in wanted)

        await self.until(enough, f"{count} more records")

    @contextlib.contextmanager
    def failing(self, links: Iterable[tuple[str, str]], link: Link) -> Iterator[None]:
        """Links that fail for as long as the block runs."""
        links = tuple(links)
        self.network.set(links, link)
        try:
            yield
        finally:
            self.network.restore(links)


class Fault(NamedTuple):
    name: str
    inject: Callable[[Round], Awaitable[None]]
    needs: frozenset[Capability]
    mixes: bool
    """Whether it may happen while others do."""
    has_own_cluster: bool
    """Whether it leaves state-change logs in which no audit can find other faults."""


FAULTS: Final[dict[str, Fault]] = {}


def fault(
    name: str, *needs: Capability, mixes: bool = False, has_own_cluster: bool = False
) -> Callable[[Callable[[Round], Awaitable[None]]], Callable[[Round], Awaitable[None]]]:
    """Register a fault: a coroutine that makes it happen and, unless the end of the round heals it, mends it."""

    def register(inject: Callable[[Round], Awaitable[None]]) -> Callable[[Round], Awaitable[None]]:
        FAULTS[name] = Fault(name, inject, frozenset(needs), mixes, has_own_cluster)
        return inject

    return register
