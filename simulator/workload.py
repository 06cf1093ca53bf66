"""Requests of clients and tools to a simulated cluster: administrative requests, the same written to ZooKeeper
directly, and produce requests.
"""

import asyncio
from random import Random
from typing import Any, Final

from broker_agent.log.record_batch import parse_header
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.requests.configs import (
    SET_CONFIG,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from cluster.requests.data import ProducePartition, ProduceRequest
from cluster.requests.elections import PREFERRED, ElectLeadersRequest
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic
from cluster.requests.request import RequestFor
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from cluster.znodes.admin_requests import encode_partitions, encode_reassignments
from cluster.znodes.paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS, topic_path
from cluster.znodes.topics import encode_topic
from cluster.zookeeper.port import Create
from cluster.zookeeper.znode_tree import ZnodeTree
from simulator.actions import BackgroundRequests, Weights
from simulator.cluster import SimulatedCluster
from simulator.nodes import SimulatedAgent
from simulator.partition_znodes import assignments, assignments_of_topic, topics
from simulator.record_batches import encode_client_batch
from simulator.zookeeper_client import SimulatedZooKeeperClient

_TOPIC_CONFIGS: Final = (("min.insync.replicas", "1"), ("min.insync.replicas", "2"), ("segment.bytes", "600"))


class AdminWorkload:
    """Creates, expands, deletes and reassigns topics, elects leaders and changes configs."""

    def __init__(self, cluster: SimulatedCluster, random: Random, background: BackgroundRequests) -> None:
        self.zookeeper = SimulatedZooKeeperClient(cluster.zookeeper, session_timeout_ms=600_000)
        self.zookeeper.listen(lambda _: None)
        self._cluster, self._random, self._background = cluster, random, background
        self._topics_created = 0

    def topic_requests(self) -> Weights:
        """The weights of requests about topics and reassignments."""
        return {
            self.create_topic: 6,
            self.create_topic_in_zookeeper: 3,
            self.expand_topic: 2,
            self.delete_topic: 2,
            self.reassign: 3,
        }

    def leader_and_config_requests(self) -> Weights:
        """The weights of elections, config changes and reassignments through ZooKeeper."""
        return {
            self.reassign_in_zookeeper: 2,
            self.elect: 2,
            self.elect_in_zookeeper: 1,
            self.change_settings: 2,
        }

    async def create_topic(self) -> None:
        """Ask the active controller to create a topic."""
        self._topics_created += 1
        factor = self._random.randint(1, 3)
        topic = NewTopic(f"t{self._topics_created}", self._random.randint(1, 4), factor)
        self._request(CreateTopicsRequest((topic,)))

    async def create_topic_in_zookeeper(self) -> None:
        """Write the znode of a new topic, as older tools do."""
        self._topics_created += 1
        brokers = list(self._cluster.agents)
        partitions = {
            p: ReplicaAssignment(tuple(self._random.sample(brokers, self._random.randint(1, 3))))
            for p in range(self._random.randint(1, 3))
        }
        await self._create(topic_path(f"t{self._topics_created}"), encode_topic(TopicAssignment(partitions, None)))

    async def expand_topic(self) -> None:
        """Ask for more partitions of a topic."""
        topic = self._any_topic()
        if topic is not None:
            count = len(assignments_of_topic(self._tree, topic)) + self._random.randint(1, 2)
            self._request(CreatePartitionsRequest((NewPartitions(topic, count),)))

    async def delete_topic(self) -> None:
        """Ask for the deletion of a topic."""
        topic = self._any_topic()
        if topic is not None:
            self._request(DeleteTopicsRequest((TopicToDelete(topic),)))

    async def reassign(self) -> None:
        """Move a partition to random brokers, or cancel its reassignment."""
        topic = self._any_topic()
        partitions = {} if topic is None else assignments_of_topic(self._tree, topic)
        if topic is None or not partitions:
            return
        partition = self._random.choice(sorted(partitions))
        target = tuple(self._random.sample(list(self._cluster.agents), self._random.randint(1, 3)))
        move = ReassignablePartition(partition, self._random.choice((target, target, target, None)))
        self._request(AlterPartitionReassignmentsRequest((ReassignableTopic(topic, (move,)),)))

    async def reassign_in_zookeeper(self) -> None:
        """Write a reassignment to `/admin/reassign_partitions`, as older tools do."""
        partitions = list(assignments(self._tree))
        if partitions:
            target = tuple(self._random.sample(list(self._cluster.agents), self._random.randint(1, 3)))
            await self._create(REASSIGN_PARTITIONS, encode_reassignments({self._random.choice(partitions): target}))

    async def elect(self) -> None:
        """Ask for the preferred leaders of all partitions."""
        self._request(ElectLeadersRequest(PREFERRED, None, 5000))

    async def elect_in_zookeeper(self) -> None:
        """Write partitions to `/admin/preferred_replica_election`, as older tools do."""
        partitions = list(assignments(self._tree))
        await self._create(PREFERRED_REPLICA_ELECTION, encode_partitions(partitions[: self._random.randint(1, 4)]))

    async def change_settings(self) -> None:
        """Change a config of a topic."""
        topic = self._any_topic()
        if topic is not None:
            name, value = self._random.choice(_TOPIC_CONFIGS)
            config = AlterableConfig(name, SET_CONFIG, value)
            self._request(AlterConfigsRequest((AlterConfigsResource(TOPIC_RESOURCE, topic, (config,)),)))

    @property
    def _tree(self) -> ZnodeTree:
        return self._cluster.zookeeper.tree

    def _any_topic(self) -> str | None:
        names = topics(self._tree)
        return self._random.choice(names) if names else None

    def _request(self, request: RequestFor[Any]) -> None:
        """Send a request to the active controller, if there is one when it is sent."""

        async def send() -> None:
            active = self._cluster.active_controller()
            if active is not None:
                await self._cluster.network.call("client", active.address, request)

        self._background.start(send())

    async def _create(self, path: str, body: bytes) -> None:
        if self._cluster.zookeeper.is_reachable:
            await self.zookeeper.multi([Create(path, body)])


class Producers:
    """Produces batches with acks=all to any partition, until `stop`; `acknowledged`: the accepted ones."""

    def __init__(self, cluster: SimulatedCluster, random: Random, background: BackgroundRequests) -> None:
        self.acknowledged: dict[TopicPartition, list[tuple[int, int]]] = {}
        """Base offset and checksum of each acknowledged batch."""
        self._cluster, self._random, self._background = cluster, random, background
        self._sent = 0
        self._is_over = False

    async def run(self) -> None:
        """Produce to random partitions until `stop`."""
        while not self._is_over:
            await asyncio.sleep(self._random.expovariate(15))
            partitions = list(assignments(self._cluster.zookeeper.tree))
            if partitions:
                self._produce_to_a_leader(self._random.choice(partitions))

    def stop(self) -> None:
        """Produce no more; batches that were sent are still answered."""
        self._is_over = True

    def _produce_to_a_leader(self, tp: TopicPartition) -> None:
        """Produce to the partition's leader; if several agents believe to be leader, to any of them."""
        leaders = [agent for agent in self._cluster.agents.values() if agent.is_running and _leads(agent, tp)]
        if leaders:
            self._background.start(self._produce(tp, self._random.choice(leaders)))

    async def _produce(self, tp: TopicPartition, leader: SimulatedAgent) -> None:
        self._sent += 1
        count = self._random.randint(1, 3)
        records = encode_client_batch(
            b"%08d" % self._sent, count, timestamp=self._cluster.clock.now_ms(), gzip=self._sent % 5 == 0
        )
        request = ProduceRequest(-1, 3000, (ProducePartition(tp.topic, tp.partition, records),))
        answer = await self._cluster.network.call("client", leader.address, request)
        [result] = answer.partitions
        if result.error_code is ErrorCode.NONE:
            batch = (result.base_offset, parse_header(records).crc)
            self.acknowledged.setdefault(tp, []).append(batch)


def _leads(agent: SimulatedAgent, tp: TopicPartition) -> bool:
    partition = agent.hosted(tp)
    return partition is not None and partition.is_leader
