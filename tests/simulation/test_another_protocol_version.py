"""A cluster is lowered from protocol version 2.7 to 2.6 and raised again by restarts, under load and with links that
break: leaders that ask the controller for ISR changes live beside such that write them.
"""

import asyncio
from typing import Final

import pytest

from cluster.model.protocol_version import ProtocolVersion
from simulator.actions import Limit
from simulator.cluster import LEADERS_WRITE_ISRS
from simulator.nodes import SimulatedNode
from simulator.replication_simulation import ReplicationSimulation
from simulator.run import run_simulation

ASK: Final = ProtocolVersion.parse("2.7")


class RollingSimulation(ReplicationSimulation):
    """Restarts node after node, instead of random faults."""

    def __init__(self, seed: int, *, brokers_first: bool) -> None:
        super().__init__(seed, "fetch", ASK)
        self.brokers_first = brokers_first
        self.written: list[int] = []
        """How many ISR changes leaders had written after each round."""
        self.asked = 0

    async def roll(self, version: ProtocolVersion, *, brokers_first: bool) -> None:
        """Give each node the version at its restart, while followers fall behind and catch up."""
        controllers, brokers = list(self.cluster.controllers.values()), list(self.cluster.agents.values())
        nodes: list[SimulatedNode] = [*brokers, *controllers] if brokers_first else [*controllers, *brokers]
        for node in nodes:
            await node.stop()
            node.settings = node.settings.model_copy(update={"inter_broker_protocol_version": version})
            node.start()
            await self._until_in_sync()
            await self._let_a_follower_fall_behind()
        self.written.append(self.isr_writes.written)

    async def _until_in_sync(self) -> None:
        await self.cluster.until(lambda: self.cluster.active_controller() is not None, "an active controller")
        await self.cluster.until(self._is_in_sync, "all replicas in sync")

    async def _let_a_follower_fall_behind(self) -> None:
        state = self.checker.state
        assert state is not None
        # The preferred leader, the first replica, may be elected again meanwhile, and lead what it was to follow.
        preferred = min(self.cluster.agents)
        follower = self._random.choice([b for b in sorted(self.cluster.agents) if b not in {state.leader, preferred}])
        source = self.cluster.agents[follower].incarnations[-1].source
        for leader in {state.leader, preferred}:
            self.cluster.network.cut(source, self.cluster.agents[leader].address)
        await self.cluster.until(lambda: follower not in self._isr(), "the follower is out of the ISR")
        await self.heal()
        await self._until_in_sync()
        self.raise_first_error()

    async def run(self, limit: Limit) -> None:
        await self.prepare()
        await self.roll(LEADERS_WRITE_ISRS, brokers_first=self.brokers_first)
        await self.roll(ASK, brokers_first=not self.brokers_first)
        before = self.isr_writes.written
        await self._let_a_follower_fall_behind()
        self.asked = self.isr_writes.written - before
        await asyncio.sleep(10)
        assert self.cluster.zookeeper.tree.children("/isr_change_notification") == ()
        await self.converge()
        self.raise_first_error()
        self.check()


@pytest.mark.rule("R8.18", "R8.24", "R8.27", "IS-1", "IS-3", "P9", "P10", "P18", "P28", "P41")
@pytest.mark.parametrize("brokers_first", [False, True], ids=["controllers first", "brokers first"])
@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_while_a_cluster_is_lowered_and_raised_again(seed: int, brokers_first: bool) -> None:
    made: list[RollingSimulation] = []

    def make() -> RollingSimulation:
        made.append(RollingSimulation(seed, brokers_first=brokers_first))
        return made[0]

    run = run_simulation(seed, make, Limit(actions=0))
    assert not run.result.violations, run.report
    (simulation,) = made
    lowered, raised = simulation.written
    assert lowered > 2
    assert raised > lowered
    assert simulation.asked == 0, "once all are raised, nobody writes an ISR but the controller"
    assert len(simulation.checker.acknowledged) > 20
