"""A connection that breaks during any one write of a controller changes no epoch, no replica list and no leader.

The same steps are run once per transaction; each time another transaction of the controller is lost on its way to
ZooKeeper, or is applied and its answer lost. At the end ZooKeeper holds the same as when nothing was lost.
"""

from collections.abc import Sequence
from typing import Final

import pytest

from cluster.requests.elections import PREFERRED
from cluster.znodes.admin_requests import encode_partitions, encode_reassignments
from cluster.znodes.configs import encode_config
from cluster.znodes.paths import (
    BROKERS_TOPICS,
    CONTROLLER_EPOCH,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    delete_topic_path,
    topic_config_path,
)
from cluster.zookeeper.port import Op, OpResult, Znode
from simulator.recount import recount
from simulator.zookeeper import ServerSession
from state_log.record import Kind
from tests.controllers.contexts import ids, tp
from tests.controllers.elections import catch_up, elect, restart_broker, stop_broker
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

FEWEST_WRITES: Final = 30
TOPIC_ID: Final = "Wx8MUo0-SnefEGwuS32aMQ"
Contents = dict[str, tuple[bytes, int | None]]
"""Path -> data, and version where it means something: the partition epoch, the fence."""


class Wire:
    """Breaks the connection of a controller around its `broken`-th transaction from now on, if it has so many."""

    def __init__(self, world: World, c: RunningController, broken: int, *, carried_out: bool) -> None:
        self.writes = 0
        self._carry_out = world.server.write
        self._client, self._broken, self._carried_out = c.zookeeper, broken, carried_out
        world.server.write = self._write  # type: ignore[method-assign]

    def _write(self, session: ServerSession, ops: Sequence[Op]) -> list[OpResult]:
        if session.client is not self._client:
            return self._carry_out(session, ops)
        self.writes += 1
        if self.writes != self._broken:
            return self._carry_out(session, ops)
        results = self._carry_out(session, ops) if self._carried_out else []
        # Nothing of this answer arrives, nor of anything else that is under way.
        self._client.disconnect()
        return results


async def live_through(world: World, c: RunningController) -> None:
    """Creation, deaths and returns, elections, moves, growth and deletion."""
    await world.create(topic_config_path("gone"), encode_config({}))
    await world.create_topic("t", [1, 2, 3], [2, 3, 1], topic_id=TOPIC_ID)
    await world.create_topic("gone", [2, 1], topic_id="xx" + TOPIC_ID[2:])
    for topic, partition, leader in (("t", 0, 1), ("t", 1, 2), ("gone", 0, 2)):
        await world.leads(topic, partition, leader=leader)
    await quiesce()
    await restart_broker(world, c, 1)
    await elect(c, PREFERRED)
    await quiesce()
    await restart_broker(world, c, 2)
    await world.create(PREFERRED_REPLICA_ELECTION, encode_partitions([tp("t-1"), tp("gone-0")]))
    await world.leads("t", 1, leader=2)
    await quiesce()
    await world.create(REASSIGN_PARTITIONS, encode_reassignments({tp("t-0"): ids(4, 2), tp("t-1"): ids(3, 2, 1)}))
    await until(lambda: tp("t-0") in c.context.topics.being_reassigned)
    await quiesce()
    await catch_up(world, c, tp("t-0"), broker=4)
    await until(lambda: not c.context.topics.being_reassigned)
    await world.create(delete_topic_path("gone"))
    await until(lambda: "gone" not in c.context.topics.names)
    await stop_broker(world, c, 2)
    await quiesce()


async def contents(world: World) -> Contents:
    found: Contents = {}
    paths = [BROKERS_TOPICS, "/admin", "/config", "/isr_change_notification", "/log_dir_event_notification"]
    while paths:
        znodes, children = await world.tool.get_many(paths), await world.tool.children_many(paths)
        found |= {path: _content(path, znode) for path, znode in zip(paths, znodes, strict=True) if znode is not None}
        paths = [f"{path}/{name}" for path, names in zip(paths, children, strict=True) for name in names or ()]
    epoch = await world.tool.get(CONTROLLER_EPOCH)
    assert epoch is not None
    return found | {CONTROLLER_EPOCH: _content(CONTROLLER_EPOCH, epoch)}


def _content(path: str, znode: Znode) -> tuple[bytes, int | None]:
    # A topic node may be found to say already what was to be written over any version.
    return znode.data, None if path.rpartition("/")[0] == BROKERS_TOPICS else znode.stat.version


def tell(broken: int, *, carried_out: bool) -> tuple[Contents, int]:
    """What ZooKeeper says in the end, and how many transactions there were."""

    async def main() -> tuple[Contents, int]:
        world = await World().start()
        c = world.start_controller(auto_leader_rebalance_enable=False)
        await until(lambda: c.is_active)
        await world.start_broker(1, 2, 3, 4)
        await until(lambda: c.gauge("ActiveBrokerCount") == 4)
        await quiesce()
        wire = Wire(world, c, broken, carried_out=carried_out)
        await live_through(world, c)
        assert [r.to_state for r in c.sink.of(Kind.CONTROLLER)] == ["active"]
        context = c.context
        assert recount(context) == (
            context.leaderships.offline_partition_count,
            context.leaderships.preferred_replica_imbalance_count,
        )
        return await contents(world), wire.writes

    return run_virtually(main)


@pytest.mark.rule("ZC-2", "FN-2", "D-13", "D-24", "EL-24", "PS-10", "RM-8")
@pytest.mark.parametrize("carried_out", [True, False])
def test_a_write_lost_on_its_way_there_or_back_leaves_no_trace(carried_out: bool) -> None:
    expected, writes = tell(0, carried_out=carried_out)
    assert writes >= FEWEST_WRITES
    for broken in range(1, writes + 1):
        assert tell(broken, carried_out=carried_out)[0] == expected, f"transaction {broken}"
