"""A controller under test whose partitions are moved: asking for it, playing the leader, and looking at the outcome."""

from collections.abc import Mapping, Sequence
from typing import Any

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicPartition
from cluster.requests.agents import AlterPartitionItem, AlterPartitionRequest
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.requests.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from cluster.znodes.admin_requests import decode_reassignments, encode_reassignments
from cluster.znodes.paths import REASSIGN_PARTITIONS
from tests.controllers.contexts import ids
from tests.controllers.worlds import RunningController, World, quiesce, running_cluster

E = ErrorCode
T0 = TopicPartition("t", 0)


class Cluster:
    """A controller, brokers that only answer, and what the tests do in their place."""

    def __init__(self, world: World, controller: RunningController) -> None:
        self.world, self.controller = world, controller

    async def submit(self, targets: Mapping[int, Sequence[int]], topic: str = "t") -> None:
        """As Kafka's tools do it."""
        entries = {TopicPartition(topic, p): ids(*target) for p, target in targets.items()}
        await self.world.create(REASSIGN_PARTITIONS, encode_reassignments(entries))
        await quiesce()

    async def alter(self, targets: Mapping[int, Sequence[int] | None], topic: str = "t", **options: Any) -> list[E]:
        answer = await self.ask_for(targets, topic, **options)
        return [p.error_code for t in answer.responses for p in t.partitions]

    async def ask_for(
        self, targets: Mapping[int, Sequence[int] | None], topic: str = "t", **options: Any
    ) -> AlterPartitionReassignmentsResponse:
        partitions = tuple(ReassignablePartition(p, None if t is None else ids(*t)) for p, t in targets.items())
        request = AlterPartitionReassignmentsRequest((ReassignableTopic(topic, partitions),), **options)
        answer = await self.controller.ask(request)
        await quiesce()
        assert isinstance(answer, AlterPartitionReassignmentsResponse)
        return answer

    async def in_sync(self, *isr: int, partition: int = 0) -> None:
        """The leader has the ISR written."""
        state = await self.world.state("t", partition)
        assert state is not None
        item = AlterPartitionItem("t", None, partition, state.leader_epoch, ids(*isr), state.partition_epoch)
        epoch = await self.world.broker_epoch(state.leader)
        answer = await self.controller.ask(AlterPartitionRequest(state.leader, epoch, (item,)))
        assert [r.error_code for r in answer.partitions] == [E.NONE]
        await quiesce()

    async def lists(self, partition: int = 0) -> ReplicaAssignment:
        topic = await self.world.topic("t")
        assert topic is not None
        return topic.partitions[partition]

    async def state(self, partition: int = 0) -> tuple[int, int, tuple[int, ...]]:
        """Leader, leader epoch, ISR."""
        state = await self.world.state("t", partition)
        assert state is not None
        return state.leader, state.leader_epoch, state.isr

    async def requested(self) -> dict[TopicPartition, tuple[BrokerId, ...]] | None:
        znode = await self.world.tool.get(REASSIGN_PARTITIONS)
        return None if znode is None else decode_reassignments(znode.data)

    def sent_to(self, broker: int) -> list[str]:
        """Which requests a broker got about partitions, in order; what LeaderAndIsr says about being new."""
        said: list[str] = []
        for _, request in (r for r in self.controller.brokers.received if r[0] == broker):
            match request:
                case LeaderAndIsrRequest():
                    new = {s.is_new for t in request.topic_states for s in t.partition_states}
                    said.append("lead or follow as new" if new == {True} else "lead or follow")
                case StopReplicaRequest():
                    (deletes,) = {s.delete_partition for s in request.partition_states}
                    said.append("delete" if deletes else "stop")
                case UpdateMetadataRequest():
                    pass
        return said

    def forget(self) -> None:
        self.controller.brokers.received.clear()


async def cluster(*brokers: int, topic: Sequence[Sequence[int]] = ((2, 5, 7),), **settings: Any) -> Cluster:
    world, controller = await running_cluster(*brokers, **settings)
    await world.create_topic("t", *topic)
    for partition, replicas in enumerate(topic):
        await world.leads("t", partition, leader=replicas[0])
    await quiesce()
    controller.brokers.received.clear()
    return Cluster(world, controller)
