"""A failover whose controller dies between any two of its writes: the next one comes to the same end."""

from collections.abc import Sequence

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests.topics import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from cluster.znodes.paths import CONTROLLER, state_path
from cluster.znodes.topics import decode_state
from cluster.zookeeper.port import Create, Op, OpResult
from simulator.cluster import DEFAULT_SETTINGS, SimulatedCluster, simulate
from simulator.zookeeper import ServerSession
from state_log.invariants import check_all
from tests.controllers.controller_crashes import SAFETY_LIMIT

PLACED = {"t": {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}, "lone": {0: (1,)}}
PARTITIONS = [TopicPartition(topic, p) for topic, placed in PLACED.items() for p in placed]


class DyingSuccessor:
    """Kills whoever wins the next election once its `fatal_write`-th transaction, the election included, is done."""

    def __init__(self, cluster: SimulatedCluster, fatal_write: int) -> None:
        self.died = False
        self._cluster, self._fatal_write = cluster, fatal_write
        self._victim: object = None
        self._writes = 0
        self._carry_out = cluster.zookeeper.write
        cluster.zookeeper.write = self._write  # type: ignore[method-assign]

    def spare(self) -> None:
        self._fatal_write = -1

    def _write(self, session: ServerSession, ops: Sequence[Op]) -> list[OpResult]:
        results = self._carry_out(session, ops)
        elected = any(isinstance(op, Create) and op.path == CONTROLLER for op in ops) and results[0].ok
        if self._victim is None and elected:
            self._victim = session.client
        if session.client is self._victim and not self.died:
            self._writes += 1
            if self._writes == self._fatal_write:
                self.died = True
                controllers = self._cluster.controllers.values()
                next(c for c in controllers if c.is_running and c.incarnations[-1].zookeeper is session.client).crash()
        return results


def leaderships(cluster: SimulatedCluster) -> dict[TopicPartition, LeaderAndIsr | None]:
    found: dict[TopicPartition, LeaderAndIsr | None] = {}
    for tp in PARTITIONS:
        znode = cluster.zookeeper.tree.get(state_path(tp))
        found[tp] = None if znode is None else decode_state(tp, znode.data, znode.stat.version)  # type: ignore[arg-type]
    return found


def ends(cluster: SimulatedCluster) -> dict[str, tuple[int, set[int]]]:
    return {str(tp): (s.leader, set(s.isr)) for tp, s in leaderships(cluster).items() if s is not None}


EXPECTED = {"t-0": (2, {2, 3}), "t-1": (2, {2, 3}), "t-2": (3, {2, 3}), "lone-0": (-1, {1})}
"""Broker 1 is dead: it is in no ISR but where it is the last member, which is remembered."""


async def failover(fatal_write: int, *, elect_first: bool) -> bool:
    """Whether the successor died. The active controller and broker 1 die at the same moment."""
    settings = DEFAULT_SETTINGS.model_copy(update={"klamm_failover_elect_first": elect_first})
    cluster = SimulatedCluster(5, controllers=3, brokers=3, settings=settings)
    cluster.start_all()
    await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
    registered = cluster.zookeeper.tree.children
    await cluster.until(lambda: len(registered("/brokers/ids") or ()) == 3, "all agents registered")
    first = cluster.active_controller()
    assert first is not None
    topics = tuple(
        NewTopic(topic, assignments={p: tuple(map(BrokerId, replicas)) for p, replicas in placed.items()})
        for topic, placed in PLACED.items()
    )
    created = await cluster.network.call("client", first.address, CreateTopicsRequest(topics))
    assert isinstance(created, CreateTopicsResponse)
    assert {topic.error_code for topic in created.topics} == {ErrorCode.NONE}
    dying = DyingSuccessor(cluster, fatal_write)
    cluster.agents[BrokerId(1)].crash()
    first.crash()
    await cluster.until(lambda: ends(cluster) == EXPECTED and cluster.active_controller() is not None, "the same end")
    dying.spare()
    last = cluster.active_controller()
    assert last is not None
    assert last is not first
    await cluster.until(lambda: is_stable(cluster), "every agent that lives knows the leaders")
    await cluster.stop_all()
    assert check_all(cluster.records()) == []
    return dying.died


def is_stable(cluster: SimulatedCluster) -> bool:
    """Whether each leader of ZooKeeper leads in its agent too, under the epoch that stands there."""
    for tp, state in leaderships(cluster).items():
        if state is None or state.leader < 0:
            continue
        agent = cluster.agents[state.leader].agent
        hosted = None if agent is None else agent.manager.online(tp)
        if hosted is None or not hosted.is_leader or hosted.leader_epoch != state.leader_epoch:
            return False
    return True


@pytest.mark.rule("FO-10", "FO-11", "RM-10", "PS-10", "INV-1", "INV-5", "D-21")
@pytest.mark.parametrize("elect_first", [False, True])
def test_a_failover_can_die_after_every_one_of_its_writes(elect_first: bool) -> None:
    deaths = 0
    for fatal_write in range(1, SAFETY_LIMIT):
        if not simulate(lambda k=fatal_write: failover(k, elect_first=elect_first)):  # type: ignore[misc]
            break
        deaths += 1
    # The election, the removals and the elections of leaders at the least.
    assert deaths >= 3
