"""A controller dies between any two writes of a reassignment; the next one brings it to the same end, in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ClusterError, ErrorCode
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.requests.data import ProducePartition, ProduceRequest, ProduceResponse
from cluster.requests.elections import PREFERRED, ElectLeadersRequest, ElectLeadersTopic
from cluster.requests.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.znodes.admin_requests import encode_reassignments
from cluster.znodes.paths import REASSIGN_PARTITIONS, delete_topic_path, state_path, topic_config_path, topic_path
from cluster.znodes.topics import decode_state, decode_topic
from cluster.zookeeper.port import Create, SetData
from simulator.cluster import SimulatedCluster, simulate
from simulator.record_batches import encode_client_batch
from simulator.zookeeper_client import SimulatedZooKeeperClient
from state_log.invariants import check_all
from tests.controllers.controller_crashes import SAFETY_LIMIT, DyingController

T = "orders"
Targets = Mapping[int, Sequence[int]]
End = dict[int, tuple[tuple[int, ...], frozenset[int], int]]
"""Partition -> replicas in the topic node, ISR, leader."""


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


class Moving:
    """A cluster with one topic, whose partitions get moved while the controller dies."""

    def __init__(self, seed: int) -> None:
        self.cluster = SimulatedCluster(seed, controllers=2, brokers=5)
        self.tool = SimulatedZooKeeperClient(self.cluster.zookeeper, session_timeout_ms=600_000)
        self.tool.listen(lambda _: None)

    async def start(self, *replicas: Sequence[int]) -> None:
        cluster = self.cluster
        await self.tool.start_session()
        cluster.start_all()
        await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
        tree = cluster.zookeeper.tree
        await cluster.until(lambda: len(tree.children("/brokers/ids") or ()) == 5, "all agents registered")
        topic = NewTopic(T, assignments={p: ids(*r) for p, r in enumerate(replicas)})
        await self.ask(CreateTopicsRequest((topic,)))
        for partition in range(len(replicas)):
            await self.produce(partition)

    async def ask(self, request: object) -> object:
        active = self.cluster.active_controller()
        assert active is not None
        return await self.cluster.network.call("client", active.address, request)

    async def produce(self, partition: int) -> None:
        """Until it is acknowledged: a leader may not have heard yet that it leads."""
        item = ProducePartition(T, partition, encode_client_batch(b"record", 3))
        async with asyncio.timeout(60):
            while True:
                address = self.cluster.agents[self.state(partition).leader].address
                answer = await self.cluster.network.call("client", address, ProduceRequest(-1, 5000, (item,)))
                assert isinstance(answer, ProduceResponse)
                if answer.partitions[0].error_code is ErrorCode.NONE:
                    return
                await asyncio.sleep(0.05)

    async def through_zookeeper(self, targets: Targets) -> None:
        body = encode_reassignments({TopicPartition(T, p): ids(*t) for p, t in targets.items()})
        await self.tool.multi([Create(REASSIGN_PARTITIONS, body)])

    async def rewrite_request(self, targets: Targets) -> None:
        body = encode_reassignments({TopicPartition(T, p): ids(*t) for p, t in targets.items()})
        await self.tool.multi([SetData(REASSIGN_PARTITIONS, body)])

    async def through_the_api(self, targets: Mapping[int, Sequence[int] | None]) -> None:
        """Ask again, as a client does, until it is answered; a repetition may find nothing to cancel any more."""
        partitions = tuple(ReassignablePartition(p, None if t is None else ids(*t)) for p, t in targets.items())
        request = AlterPartitionReassignmentsRequest((ReassignableTopic(T, partitions),))
        while True:
            try:
                answer = await self.ask(request)
            except ClusterError:
                # Whatever a dying controller does to a caller.
                await self.cluster.until(lambda: self.cluster.active_controller() is not None, "a controller")
                continue
            assert isinstance(answer, AlterPartitionReassignmentsResponse)
            codes = {p.error_code for t in answer.responses for p in t.partitions}
            assert codes <= {ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
            return

    def state(self, partition: int) -> LeaderAndIsr:
        znode = self.cluster.zookeeper.tree.get(state_path(TopicPartition(T, partition)))
        assert znode is not None
        state = decode_state(TopicPartition(T, partition), znode.data, znode.stat.version)  # type: ignore[arg-type]
        assert state is not None
        return state

    def assignment(self, partition: int) -> ReplicaAssignment:
        znode = self.cluster.zookeeper.tree.get(topic_path(T))
        assert znode is not None
        return decode_topic(T, znode.data).partitions[partition]

    def has_reached(self, targets: Targets) -> bool:
        tree = self.cluster.zookeeper.tree
        return tree.get(REASSIGN_PARTITIONS) is None and all(
            self.assignment(p) == ReplicaAssignment(ids(*target))
            and set(self.state(p).isr) == set(target)
            and self.state(p).leader in target
            for p, target in targets.items()
        )

    def hosts(self, partition: int) -> set[int]:
        """Brokers that have the partition's log."""
        return {
            b
            for b, agent in self.cluster.agents.items()
            if agent.is_running
            and agent.agent is not None
            and agent.agent.manager.online(TopicPartition(T, partition)) is not None
        }

    async def come_to_rest(self, targets: Targets, dying: DyingController) -> End:
        cluster = self.cluster
        await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
        await cluster.until(lambda: self.has_reached(targets), f"the targets {targets}")
        await cluster.until(lambda: all(set(t) <= self.hosts(p) for p, t in targets.items()), "replicas on the targets")
        if not dying.died:
            # The order to delete a replica may die with the controller, and nobody repeats it (D-10).
            await cluster.until(lambda: all(self.hosts(p) == set(t) for p, t in targets.items()), "old replicas gone")
        for partition in targets:
            await self.produce(partition)
        assert check_all(cluster.records()) == []
        return {p: (self.assignment(p).replicas, frozenset(self.state(p).isr), self.state(p).leader) for p in targets}


Story = Callable[[Moving, int], Awaitable[tuple[End, DyingController]]]


async def disjoint(moving: Moving, fatal_write: int) -> tuple[End, DyingController]:
    await moving.start([1, 2], [2, 3], [3, 1])
    dying = DyingController(moving.cluster, fatal_write)
    targets = {0: [3, 4], 1: [4, 5], 2: [1, 3]}
    await moving.through_zookeeper(targets)
    return await moving.come_to_rest(targets, dying), dying


async def through_the_api(moving: Moving, fatal_write: int) -> tuple[End, DyingController]:
    await moving.start([1, 2, 3], [2, 3, 1])
    dying = DyingController(moving.cluster, fatal_write)
    targets = {0: [4, 5, 1], 1: [2, 3]}
    await moving.through_the_api(targets)
    return await moving.come_to_rest(targets, dying), dying


async def waiting_for_a_dead_target(moving: Moving, targets: Targets) -> None:
    moving.cluster.agents[BrokerId(4)].crash()
    tree = moving.cluster.zookeeper.tree
    await moving.cluster.until(lambda: tree.get("/brokers/ids/4") is None, "broker 4 is gone")
    await moving.through_zookeeper(targets)
    await moving.cluster.until(lambda: 3 in moving.state(0).isr, "the living target is in sync")


async def cancelled(moving: Moving, fatal_write: int) -> tuple[End, DyingController]:
    await moving.start([1, 2])
    await waiting_for_a_dead_target(moving, {0: [3, 4]})
    dying = DyingController(moving.cluster, fatal_write)
    await moving.through_the_api({0: None})
    return await moving.come_to_rest({0: [1, 2]}, dying), dying


async def replaced(moving: Moving, fatal_write: int) -> tuple[End, DyingController]:
    await moving.start([1, 2])
    await waiting_for_a_dead_target(moving, {0: [3, 4]})
    dying = DyingController(moving.cluster, fatal_write)
    await moving.through_the_api({0: [2, 5]})
    return await moving.come_to_rest({0: [2, 5]}, dying), dying


async def led_by_a_new_replica(moving: Moving) -> None:
    await waiting_for_a_dead_target(moving, {0: [3, 4]})
    preferred = (ElectLeadersTopic(T, (0,)),)
    await moving.ask(ElectLeadersRequest(PREFERRED, preferred, timeout_ms=1000))
    await moving.cluster.until(lambda: moving.state(0).leader == 3, "the new replica leads")


async def cancelled_while_a_new_replica_leads(moving: Moving, fatal_write: int) -> tuple[End, DyingController]:
    await moving.start([1, 2])
    await led_by_a_new_replica(moving)
    dying = DyingController(moving.cluster, fatal_write)
    await moving.through_the_api({0: None})
    return await moving.come_to_rest({0: [1, 2]}, dying), dying


async def replaced_while_a_new_replica_leads(moving: Moving, fatal_write: int) -> tuple[End, DyingController]:
    await moving.start([1, 2])
    await led_by_a_new_replica(moving)
    dying = DyingController(moving.cluster, fatal_write)
    await moving.rewrite_request({0: [2, 5]})
    return await moving.come_to_rest({0: [2, 5]}, dying), dying


async def added_to_a_pending_request(moving: Moving, fatal_write: int) -> tuple[End, DyingController]:
    """One entry gets a third target, one is new, and one goes without being cancelled."""
    await moving.start([1, 2], [2, 3], [1, 2])
    await waiting_for_a_dead_target(moving, {0: [3, 4], 2: [1, 3]})
    dying = DyingController(moving.cluster, fatal_write)
    targets = {0: [3, 5], 1: [2, 1]}
    await moving.rewrite_request(targets)
    return await moving.come_to_rest({**targets, 2: [1, 3]}, dying), dying


async def deleted_on_the_way(moving: Moving, fatal_write: int) -> tuple[End, DyingController]:
    """Its deletion ends the move, and waits for the broker only to delete what it may have (D-1)."""
    await moving.start([1, 2])
    await waiting_for_a_dead_target(moving, {0: [3, 4]})
    cluster, tree = moving.cluster, moving.cluster.zookeeper.tree
    dying = DyingController(cluster, fatal_write)
    await moving.tool.multi([Create(delete_topic_path(T))])
    await asyncio.sleep(1)
    assert tree.get(topic_path(T)) is not None
    cluster.agents[BrokerId(4)].start()
    left = (topic_path(T), topic_config_path(T), delete_topic_path(T), REASSIGN_PARTITIONS)
    await cluster.until(lambda: not any(tree.get(path) for path in left), "nothing is left of the topic")
    await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
    await cluster.until(lambda: not moving.hosts(0), "its replicas are deleted")
    assert check_all(cluster.records()) == []
    return {}, dying


@pytest.mark.rule("RA-25", "RA-52", "RA-53", "FO-12", "INV-8", "C-7", "D-19", "D-1", "D-22", "D-95", "D-96")
@pytest.mark.parametrize(
    "story",
    [
        disjoint,
        through_the_api,
        cancelled,
        replaced,
        cancelled_while_a_new_replica_leads,
        replaced_while_a_new_replica_leads,
        added_to_a_pending_request,
        deleted_on_the_way,
    ],
    ids=lambda s: s.__name__,
)
def test_whenever_the_controller_dies_the_next_one_comes_to_the_same_end(story: Story) -> None:
    ends: list[End] = []
    for fatal_write in range(SAFETY_LIMIT):
        end, dying = simulate(lambda: story(Moving(seed=1), fatal_write))  # noqa: B023 (run at once)
        ends.append(end)
        if fatal_write and not dying.died:
            break
    assert len(ends) > 5, "the controller died several times"
    assert all(end == ends[0] for end in ends), ends
