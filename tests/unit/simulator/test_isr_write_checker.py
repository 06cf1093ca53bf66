"""The checker of ISR changes that leaders write: it says what is wrong, and lets pass what is right."""

import asyncio
from collections.abc import Callable
from typing import Final

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.protocol_version import NEWEST, ProtocolVersion
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.znodes.admin_requests import encode_partitions
from cluster.znodes.paths import ISR_CHANGE_NOTIFICATION, state_path
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import Create, SetData
from simulator.cluster import DEFAULT_SETTINGS, LEADERS_WRITE_ISRS, SimulatedCluster, simulate
from simulator.isr_write_checker import ALWAYS_S, LONE_S, IsrWriteChecker
from simulator.partition_znodes import partition_state
from simulator.violations import ViolationError
from simulator.zookeeper_client import SimulatedZooKeeperClient

TP: Final = TopicPartition("orders", 0)
LEADER, FOLLOWER, STRANGER = BrokerId(1), BrokerId(2), BrokerId(3)
Change = Callable[[LeaderAndIsr], LeaderAndIsr]


class Stage:
    """Broker 1 leads, 2 follows and 3 has no replica. What is written is written past the leader's own code."""

    def __init__(self, version: ProtocolVersion = LEADERS_WRITE_ISRS) -> None:
        settings = DEFAULT_SETTINGS.model_copy(update={"inter_broker_protocol_version": version})
        self.cluster = SimulatedCluster(1, controllers=1, brokers=3, settings=settings)
        self.checker = IsrWriteChecker(self.cluster)

    async def begin(self) -> None:
        cluster = self.cluster
        cluster.start_all()
        ids = cluster.zookeeper.tree.children
        await cluster.until(lambda: len(ids("/brokers/ids") or ()) == 3, "all are registered")
        await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
        active = cluster.active_controller()
        assert active is not None
        topic = NewTopic(TP.topic, assignments={TP.partition: (LEADER, FOLLOWER)})
        await cluster.network.call("client", active.address, CreateTopicsRequest((topic,)))
        await cluster.until(lambda: cluster.agents[LEADER].hosted(TP) is not None, "the leader hosts it")

    def session(self, broker: BrokerId) -> SimulatedZooKeeperClient:
        return self.cluster.agents[broker].incarnations[-1].zookeeper

    async def write(self, broker: BrokerId, change: Change) -> None:
        state = partition_state(self.cluster.zookeeper.tree, TP)
        assert state is not None
        await self.session(broker).multi([SetData(state_path(TP), encode_state(change(state)), state.partition_epoch)])

    async def announce(self, broker: BrokerId) -> None:
        path = f"{ISR_CHANGE_NOTIFICATION}/isr_change_"
        await self.session(broker).multi([Create(path, encode_partitions([TP]), sequential=True)])

    def found(self) -> str | None:
        """The rule that is violated, if any is."""
        try:
            self.checker.raise_first_error()
        except ViolationError as error:
            return error.violations[0].rule
        return None


def shrink(state: LeaderAndIsr) -> LeaderAndIsr:
    return replace(state, isr=(state.leader,))


def same(state: LeaderAndIsr) -> LeaderAndIsr:
    return state


WRONG: Final[dict[str, tuple[BrokerId, Change, str]]] = {
    "by a broker that does not lead": (FOLLOWER, same, "P18"),
    "another leader": (LEADER, lambda s: replace(s, leader=FOLLOWER), "P18"),
    "another leader epoch": (LEADER, lambda s: replace(s, leader_epoch=LeaderEpoch(5)), "P18"),
    "a member that is no replica": (LEADER, lambda s: replace(s, isr=(LEADER, STRANGER)), "P18"),
    "without the leader": (LEADER, lambda s: replace(s, isr=(FOLLOWER,)), "P18"),
    "another controller epoch": (LEADER, lambda s: replace(s, controller_epoch=ControllerEpoch(9)), "R8.22"),
}


@pytest.mark.rule("P18", "R8.22")
@pytest.mark.parametrize(("broker", "change", "rule"), WRONG.values(), ids=WRONG)
def test_a_wrong_write_is_a_violation(broker: BrokerId, change: Change, rule: str) -> None:
    async def check() -> None:
        stage = Stage()
        await stage.begin()
        await stage.write(broker, change)
        assert stage.found() == rule

    simulate(check)


def test_no_broker_may_write_where_the_controller_is_to() -> None:
    async def check() -> None:
        stage = Stage(NEWEST)
        await stage.begin()
        await stage.write(LEADER, shrink)
        assert stage.found() == "R8.27"

    simulate(check)


@pytest.mark.rule("P41")
def test_a_change_that_is_announced_in_time_is_none_and_one_that_is_not_is() -> None:
    async def check() -> None:
        stage = Stage()
        await stage.begin()
        await stage.write(LEADER, shrink)
        await asyncio.sleep(LONE_S)
        await stage.announce(LEADER)
        await asyncio.sleep(60)
        assert (stage.found(), stage.checker.announced) == (None, 1)
        await stage.write(LEADER, shrink)
        await asyncio.sleep(LONE_S + 1)
        assert stage.found() == "P41"

    simulate(check)


@pytest.mark.rule("P41")
def test_changes_without_a_pause_are_to_be_announced_after_a_minute() -> None:
    async def check() -> None:
        stage = Stage()
        await stage.begin()
        began = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() - began < ALWAYS_S:
            await stage.write(LEADER, shrink)
            assert stage.found() is None
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        assert stage.found() == "P41"

    simulate(check)


@pytest.mark.rule("P41")
def test_a_process_that_is_held_up_has_its_time_afterwards() -> None:
    async def check() -> None:
        stage = Stage()
        await stage.begin()
        await stage.write(LEADER, shrink)
        stage.session(LEADER).disconnect(4)
        await asyncio.sleep(LONE_S + 3)
        assert stage.found() is None
        stage.cluster.agents[LEADER].pause()
        await asyncio.sleep(30)
        assert stage.found() is None
        stage.cluster.agents[LEADER].crash()
        await asyncio.sleep(60)
        assert stage.found() is None, "nobody announces any more what a dead process has written"

    simulate(check)


@pytest.mark.rule("P41")
def test_what_a_controller_has_written_over_needs_no_announcement() -> None:
    async def check() -> None:
        stage = Stage()
        await stage.begin()
        await stage.write(LEADER, shrink)
        state = partition_state(stage.cluster.zookeeper.tree, TP)
        assert state is not None
        controller = next(iter(stage.cluster.controllers.values())).incarnations[-1].zookeeper
        body = encode_state(replace(state, partition_epoch=PartitionEpoch(0)))
        await controller.multi([SetData(state_path(TP), body, state.partition_epoch)])
        await asyncio.sleep(60)
        assert stage.found() is None

    simulate(check)
