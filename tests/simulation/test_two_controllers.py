"""Two controllers at once, one of which does not know yet that it was replaced: its late requests do no harm."""

from typing import Any

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.requests.control import LeaderAndIsrRequest
from cluster.requests.topics import CreateTopicsRequest, CreateTopicsResponse, NewTopic
from cluster.znodes.paths import state_path
from cluster.znodes.topics import decode_state
from simulator.cluster import SimulatedCluster, simulate
from state_log.invariants import check_all
from tests.controllers.contexts import ids

T0 = TopicPartition("t", 0)


class Listening:
    """A cluster whose orders to agents, and the answers to them, are overheard."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(1, controllers=2, brokers=3)
        self.orders: list[tuple[str, str, LeaderAndIsrRequest, ErrorCode]] = []
        """Which controller told which agent what, and how the agent took it."""
        self._call = self.cluster.network.call
        self.cluster.network.call = self._overhear  # type: ignore[method-assign]

    async def _overhear(self, source: str, target: str, request: object) -> Any:
        answer: Any = await self._call(source, target, request)
        if isinstance(request, LeaderAndIsrRequest):
            self.orders.append((source, target, request, answer.error_code))
        return answer

    def state(self) -> LeaderAndIsr:
        znode = self.cluster.zookeeper.tree.get(state_path(T0))
        assert znode is not None
        state = decode_state(T0, znode.data, znode.stat.version)  # type: ignore[arg-type]
        assert state is not None
        return state


async def replaced_while_cut_off() -> None:
    listening = Listening()
    cluster = listening.cluster
    cluster.start_all()
    await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
    await cluster.until(lambda: len(cluster.zookeeper.tree.children("/brokers/ids") or ()) == 3, "all agents")
    cut_off = cluster.active_controller()
    assert cut_off is not None
    created = await cluster.network.call(
        "client", cut_off.address, CreateTopicsRequest((NewTopic("t", assignments={0: ids(1, 2, 3)}),))
    )
    assert isinstance(created, CreateTopicsResponse)
    third = cluster.agents[BrokerId(3)]
    third_address = third.incarnations[-1].endpoints[1].address
    source = cut_off.incarnations[-1].source
    cluster.network.cut(source, third.address)
    cluster.agents[BrokerId(1)].crash()
    await cluster.until(lambda: listening.state().leader == 2, "another leader, of which agent 3 is not told")
    # From here on it hears nothing of ZooKeeper, not even that its session is over.
    cut_off.incarnations[-1].zookeeper.disconnect(50)
    successor = next(controller for controller in cluster.controllers.values() if controller is not cut_off)
    await cluster.until(lambda: successor.is_active, "another controller")
    by_successor = successor.incarnations[-1].source
    await cluster.until(lambda: any(o[:2] == (by_successor, third_address) for o in listening.orders), "its orders")
    decided = listening.state()
    listening.orders.clear()
    cluster.network.heal_all()
    await cluster.until(lambda: any(o[:2] == (source, third_address) for o in listening.orders), "the late orders")
    late = [(code, request.controller_epoch) for s, _, request, code in listening.orders if s == source]
    assert {code for code, _ in late} == {ErrorCode.STALE_CONTROLLER_EPOCH}
    assert {epoch for _, epoch in late} == {1}
    await cluster.until(lambda: not cut_off.is_active, "it has resigned")
    # The ISR may have changed meanwhile, the leadership has not.
    assert (listening.state().leader, listening.state().leader_epoch) == (decided.leader, decided.leader_epoch)
    hosted = None if third.agent is None else third.agent.manager.online(T0)
    assert hosted is not None
    assert hosted.leader_epoch == decided.leader_epoch
    await cluster.stop_all()
    assert check_all(cluster.records()) == []


@pytest.mark.rule("C-4", "FN-6", "FN-9", "EL-20", "INV-5")
def test_requests_of_a_controller_that_was_replaced_are_refused_by_who_knows_its_successor() -> None:
    simulate(replaced_while_cut_off)
