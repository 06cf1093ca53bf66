"""A controller dies between any two writes of a topic's creation or growth; the next one comes to the same end."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from cluster.model.broker import BrokerId, TopicId
from cluster.model.errors import ClusterError, ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    NewPartitions,
    NewPartitionsAssignment,
    NewTopic,
)
from cluster.znodes.configs import decode_config
from cluster.znodes.paths import state_path, topic_config_path, topic_path
from cluster.znodes.topics import decode_state, decode_topic, encode_topic
from cluster.zookeeper.port import Create
from simulator.cluster import SimulatedCluster, simulate
from simulator.zookeeper_client import SimulatedZooKeeperClient
from state_log.invariants import check_all
from tests.controllers.contexts import ids
from tests.controllers.controller_crashes import SAFETY_LIMIT, DyingController

T = "orders"
End = dict[int, tuple[tuple[int, ...], int, int]]
"""Partition -> replicas, leader, leader epoch; all replicas are in sync."""


class Creating:
    """Three agents, and a client that asks until its wish is fulfilled."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(3, controllers=2, brokers=3)
        self.tool = SimulatedZooKeeperClient(self.cluster.zookeeper, session_timeout_ms=600_000)
        self.tool.listen(lambda _: None)

    async def start(self) -> None:
        cluster = self.cluster
        await self.tool.start_session()
        cluster.start_all()
        await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
        await cluster.until(lambda: len(cluster.zookeeper.tree.children("/brokers/ids") or ()) == 3, "all agents")

    async def ask(self, request: CreateTopicsRequest | CreatePartitionsRequest, done: Sequence[ErrorCode]) -> None:
        """Until it is answered by one of the codes: of a repetition, that it is so already."""
        while True:
            active = self.cluster.active_controller()
            if active is not None:
                try:
                    answer = await self.cluster.network.call("client", active.address, request)
                except ClusterError:
                    # Whatever a dying controller does to a caller.
                    pass
                else:
                    results = answer.topics if isinstance(request, CreateTopicsRequest) else answer.results  # type: ignore[attr-defined]
                    if all(result.error_code in done for result in results):
                        return
            await self.cluster.until(lambda: self.cluster.active_controller() is not None, "an active controller")

    async def come_to_rest(self, partitions: int) -> End:
        cluster = self.cluster
        await cluster.until(lambda: cluster.active_controller() is not None, "an active controller")
        # Followers that the dead controller did not reach leave the ISR and come back.
        await cluster.until(lambda: len(self.end()) == partitions, "every replica of every partition is in sync")
        await cluster.until(self.is_stable, "agents lead what ZooKeeper says")
        znode = cluster.zookeeper.tree.get(topic_path(T))
        assert znode is not None
        assert decode_topic(T, znode.data).topic_id is not None
        end = self.end()
        await cluster.stop_all()
        assert check_all(cluster.records()) == []
        return end

    def end(self) -> End:
        tree = self.cluster.zookeeper.tree
        found: End = {}
        znode = tree.get(topic_path(T))
        partitions = {} if znode is None else decode_topic(T, znode.data).partitions
        for partition, assignment in partitions.items():
            tp = TopicPartition(T, partition)
            state_znode = tree.get(state_path(tp))
            if state_znode is not None:
                state = decode_state(tp, state_znode.data, state_znode.stat.version)  # type: ignore[arg-type]
                assert state is not None
                if set(state.isr) == set(assignment.replicas):
                    found[partition] = (assignment.replicas, state.leader, state.leader_epoch)
        return found

    def is_stable(self) -> bool:
        for partition, (_, leader, leader_epoch) in self.end().items():
            agent = self.cluster.agents[BrokerId(leader)].agent
            hosted = None if agent is None else agent.manager.online(TopicPartition(T, partition))
            if hosted is None or not hosted.is_leader or hosted.leader_epoch != leader_epoch:
                return False
        return True


Story = Callable[[Creating, int], Awaitable[tuple[End, DyingController]]]
PLACED = {0: ids(1, 2, 3), 1: ids(2, 3, 1), 2: ids(3, 1, 2)}


async def through_the_api(creating: Creating, fatal_write: int) -> tuple[End, DyingController]:
    dying = DyingController(creating.cluster, fatal_write)
    topic = NewTopic(T, assignments=PLACED, configs={"retention.ms": "1000"})
    await creating.ask(CreateTopicsRequest((topic,)), [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS])
    znode = creating.cluster.zookeeper.tree.get(topic_config_path(T))
    assert znode is not None
    assert decode_config(topic_config_path(T), znode.data) == {"retention.ms": "1000"}
    return await creating.come_to_rest(3), dying


async def through_zookeeper(creating: Creating, fatal_write: int) -> tuple[End, DyingController]:
    """Without an id, which the controller has to give it."""
    dying = DyingController(creating.cluster, fatal_write)
    partitions = {p: ReplicaAssignment(replicas) for p, replicas in PLACED.items()}
    await creating.tool.multi([Create(topic_path(T), encode_topic(TopicAssignment(partitions)))])
    return await creating.come_to_rest(3), dying


async def grown(creating: Creating, fatal_write: int) -> tuple[End, DyingController]:
    topic = NewTopic(T, assignments={0: PLACED[0]})
    await creating.ask(CreateTopicsRequest((topic,)), [ErrorCode.NONE])
    topic_id = the_id(creating)
    dying = DyingController(creating.cluster, fatal_write)
    added = tuple(NewPartitionsAssignment(PLACED[p]) for p in (1, 2))
    request = CreatePartitionsRequest((NewPartitions(T, 3, added),))
    await creating.ask(request, [ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS])
    end = await creating.come_to_rest(3)
    assert the_id(creating) == topic_id
    return end, dying


def the_id(creating: Creating) -> TopicId:
    znode = creating.cluster.zookeeper.tree.get(topic_path(T))
    assert znode is not None
    return TopicId(str(decode_topic(T, znode.data).topic_id))


async def tell(story: Story, fatal_write: int) -> tuple[End, DyingController]:
    creating = Creating()
    await creating.start()
    return await story(creating, fatal_write)


@pytest.mark.rule("TP-1", "TP-2", "TP-14", "TP-23", "TI-1", "TI-3", "PS-9", "FO-11")
@pytest.mark.parametrize("story", [through_the_api, through_zookeeper, grown], ids=lambda s: s.__name__)
def test_whenever_the_controller_dies_the_next_one_comes_to_the_same_end(story: Story) -> None:
    ends: list[End] = []
    for fatal_write in range(SAFETY_LIMIT):
        end, dying = simulate(lambda: tell(story, fatal_write))  # noqa: B023 (run at once)
        ends.append(end)
        if fatal_write and not dying.died:
            break
    # The topic node, the node above its partitions, and the partitions themselves at the least.
    assert len(ends) > 3, "the controller died several times"
    assert all(end == ends[0] for end in ends), ends
