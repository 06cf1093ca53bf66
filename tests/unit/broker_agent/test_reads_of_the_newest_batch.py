"""A read of the newest batch, or behind it, looks at no other one: every fetch of a follower is such a read."""

from random import Random

import pytest

from broker_agent.log.config import LogConfig
from broker_agent.log.segment import Segment
from cluster.model.broker import LeaderEpoch, Offset
from simulator.disk import SimulatedDisk
from tests.contract.log_worlds import InMemoryWorld, Node, TestClock, batch, fill


@pytest.mark.parametrize("truncate_to", [None, 95, 90, 40, 0])
async def test_the_newest_batch_is_found_without_a_search(
    monkeypatch: pytest.MonkeyPatch, truncate_to: int | None
) -> None:
    world = InMemoryWorld()
    world.disk = SimulatedDisk(TestClock(), Random(1))
    node = Node(world, "/disk", config=LogConfig())
    await node.start()
    log = await node.log()
    fill(log, *[1] * 10)
    if truncate_to is not None:
        log.truncate_to(Offset(truncate_to))
        log.append_as_leader(batch(10), LeaderEpoch(1), 1)
    end = log.log_end_offset
    wanted = log.read(Offset(end - 10), 1 << 20, end, at_least_one=True)
    monkeypatch.delattr(Segment, "_batches_near")
    for offset in range(end - 10, end):
        assert log.read(Offset(offset), 1 << 20, end, at_least_one=True) == wanted
        assert log.bytes_between(Offset(offset), end) == len(wanted)
    assert log.read(end, 1 << 20, end, at_least_one=True) == b""
    assert log.bytes_between(end, end) == 0
    monkeypatch.undo()
    everything = log.read(Offset(0), 1 << 20, end, at_least_one=True)
    assert everything.endswith(wanted)
    assert log.read(Offset(max(0, end - 11)), 1 << 20, end, at_least_one=True).endswith(wanted)
