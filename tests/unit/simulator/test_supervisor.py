"""The supervisor of simulated processes: which ends it takes for failed starts, and which the run must see."""

import asyncio

import pytest

from cluster.model.errors import ZooKeeperUnreachableError
from simulator.cluster import SimulatedCluster, simulate
from simulator.faults import Supervisor
from simulator.nodes import SimulatedNode


def started(cluster: SimulatedCluster) -> tuple[Supervisor, SimulatedNode]:
    supervisor = Supervisor(cluster)
    [node] = cluster.nodes
    supervisor.start(node)
    return supervisor, node


@pytest.mark.parametrize("hangs_s", [0, 40])
def test_a_process_that_cannot_start_is_ended_also_where_it_has_hung_meanwhile(hangs_s: float) -> None:
    async def run() -> None:
        cluster = SimulatedCluster(1, controllers=1, brokers=0)
        cluster.zookeeper.shut_down()
        supervisor, node = started(cluster)
        if hangs_s:
            cluster.hang(node, hangs_s)
        await asyncio.sleep(hangs_s + 20)
        with pytest.raises(ZooKeeperUnreachableError):
            cluster.raise_if_a_node_died()
        supervisor.end_failed_starts()
        assert not node.is_running
        assert supervisor.startable() == [node]

    simulate(run)


def test_a_process_that_fails_long_after_its_start_is_not_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        cluster = SimulatedCluster(1, controllers=1, brokers=0)
        supervisor = Supervisor(cluster)
        [node] = cluster.nodes

        async def fail_late(_: object) -> None:
            await asyncio.sleep(31)
            raise ZooKeeperUnreachableError("late")

        monkeypatch.setattr(node, "run", fail_late)
        supervisor.start(node)
        await asyncio.sleep(40)
        supervisor.end_failed_starts()
        with pytest.raises(ZooKeeperUnreachableError):
            cluster.raise_if_a_node_died()

    simulate(run)
