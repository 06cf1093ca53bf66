"""The steps that demonstrations have in common; each is announced, timed, and ends within a time."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from cluster.model.errors import ClusterError, PeerUnreachableError, StartupError
from cluster.process.local_cluster import BROKER
from deploy.local.cluster import LocalCluster
from deploy.local.kafka_clients import View

PARTITIONS: Final = 6
REPLICAS: Final = 3
STEP_TIMEOUT_S: Final = 180.0
_POLL_S: Final = 0.02

_T = TypeVar("_T")
Say = Callable[[str], None]


class Demonstration(ABC):
    """Failures of a cluster that serves, under load on one topic."""

    def __init__(self, cluster: LocalCluster, topic: str, say: Say) -> None:
        self.cluster, self.topic, self.say = cluster, topic, say
        self.brokers = {m.id: m.address for m in cluster.members(BROKER)}

    @abstractmethod
    async def view(self, broker: int) -> View:
        """Ask a broker how it sees the cluster and the topic. Raises PeerUnreachableError."""

    async def run_steps(self, steps: Awaitable[_T]) -> _T:
        """Return what the steps result in. Raises ClusterError when something fails or does not happen in time."""
        try:
            return await steps
        except* ClusterError as group:
            raise group.exceptions[0] from None
        except* TimeoutError:
            logs = self.cluster.folder / "logs"
            raise StartupError(
                f"a step of the demonstration took more than {STEP_TIMEOUT_S:g} s; logs: {logs}"
            ) from None

    async def kill_leader(self, who: str = "") -> tuple[int, float]:
        """Kill a broker that leads and is not the controller; return it, and how long its partitions had no leader.

        The time, in s, ends when every other broker sees living leaders.
        """
        seen = await self.view(next(iter(self.brokers)))
        victim = next(p.leader_id for p in seen.partitions if p.leader_id not in {seen.controller, -1})
        self.say(f"{who}kill -9 of broker {victim}, which leads {seen.led_by(victim)} of {PARTITIONS} partitions")

        async def is_led_by_others() -> bool:
            views = [await self.view(broker) for broker in self.brokers if broker != victim]
            return all(is_whole(now, in_sync=1) and not now.led_by(victim) for now in views)

        return victim, (await timed(until(is_led_by_others), after=lambda: self.cluster.kill(f"{BROKER}-{victim}")))[0]

    async def is_repaired(self) -> bool:
        """Whether every broker sees all brokers, and all replicas in sync."""
        views = [await self.view(broker) for broker in self.brokers]
        return all(is_whole(seen) and seen.brokers >= self.brokers.keys() for seen in views)


def is_whole(seen: View, in_sync: int = REPLICAS) -> bool:
    """Whether every partition has a leader, and at least this many replicas in sync."""
    led = [p for p in seen.partitions if p.leader_id >= 0 and len(p.isr_nodes) >= in_sync]
    return len(led) == PARTITIONS


async def until(probe: Callable[[], Awaitable[_T | None]]) -> _T:
    """Poll until the result is true, and return it; a process that does not answer is asked again.

    Raises TimeoutError.
    """
    async with asyncio.timeout(STEP_TIMEOUT_S):
        while True:
            try:
                seen = await probe()
            except PeerUnreachableError:
                seen = None
            if seen:
                return seen
            await asyncio.sleep(_POLL_S)


async def timed(step: Awaitable[_T], after: Callable[[], object] = lambda: None) -> tuple[float, _T]:
    """Call `after`, then wait for the step; return how long both took, in s, and the result. Raises TimeoutError."""
    clock = asyncio.get_running_loop().time
    began = clock()
    after()
    async with asyncio.timeout(STEP_TIMEOUT_S):
        result = await step
    return clock() - began, result
