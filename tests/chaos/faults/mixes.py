"""Several faults at once, and faults while the cluster moves its partitions."""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, PeerUnreachableError
from cluster.requests.reassignments import ReassignablePartition, ReassignableTopic
from tests.chaos.faults.processes import kill_controller, kill_for
from tests.chaos.faults.registry import FAULTS, Round, fault
from tests.chaos.producers import PARTITIONS

_SPREAD_S: Final = 6.0


@fault("mix")
async def mix(on: Round) -> None:
    """Three to five faults that begin within a few seconds of one another."""
    available = [f for f in FAULTS.values() if f.mixes and not f.needs & on.cluster.missing.keys()]
    chosen = on.random.sample(available, on.random.randrange(3, 6))
    begins = [on.random.uniform(0, _SPREAD_S) for _ in chosen]
    on.say(f"mix of {', '.join(f.name for f in chosen)}")

    async def later(seconds: float, number: int) -> None:
        await asyncio.sleep(seconds)
        await chosen[number].inject(on.part(chosen[number].name))

    await asyncio.gather(*(later(seconds, number) for number, seconds in enumerate(begins)))


@fault("reassignment-under-kills")
async def reassignment_under_kills(on: Round) -> None:
    """All partitions move while a broker and the controller die."""
    await reassign(on, range(PARTITIONS))
    await asyncio.gather(kill_for(on.part("broker"), [on.broker()]), kill_controller(on.part("controller")))

    async def moved() -> bool:
        return not (await on.client.list_partition_reassignments()).topics

    await on.until(moved, "the end of the reassignment")


async def reassign(on: Round, partitions: Iterable[int]) -> None:
    """Begin to move partitions of the topic to any three brokers, unless nobody takes the request now."""
    moves = {p: on.random.sample([int(name.partition("-")[2]) for name in on.cluster.brokers], 3) for p in partitions}
    on.say(f"reassigned to {moves}")
    wanted = tuple(ReassignablePartition(p, tuple(map(BrokerId, brokers))) for p, brokers in moves.items())
    with contextlib.suppress(ApiError, PeerUnreachableError):
        await on.client.alter_partition_reassignments([ReassignableTopic(on.topic, wanted)])
