"""A cluster as klamm's commands find it where the brokers are of Apache Kafka: a scripted controller behind real gRPC,
scripted brokers behind real sockets.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from msgspec.structs import replace

from cluster.kafka_wire.messages import configs as wire_configs
from cluster.kafka_wire.messages import data as wire_data
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.model.broker import (
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    LeaderEpoch,
    PartitionEpoch,
)
from cluster.model.errors import ErrorCode
from cluster.requests import cluster as asked
from cluster.requests.data import EARLIEST_TIMESTAMP
from cluster.requests.elections import PlanControlledShutdownRequest, PlanControlledShutdownResponse
from cluster.requests.plans import DescribedPartition
from cluster.requests.quotas import ClientQuotaEntry, DescribeClientQuotasRequest, DescribeClientQuotasResponse
from cluster.requests.reassignments import DescribeReassignmentsRequest, DescribeReassignmentsResponse
from cluster.requests.topics import (
    DescribedTopic,
    DescribeTopicDeletionsRequest,
    DescribeTopicDeletionsResponse,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
)
from cluster.requests.users import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from cluster.rpc.serving import RpcServer
from state_log.record import incarnation_id
from tests.kafka.peers import KafkaPeer, kafka_broker
from tests.processes.scripted_servers import controller

TOPIC = "orders"
CONTROLLER = 1001
LOG_DIR = "/var/kafka"


class KafkaGoverned:
    """Two brokers and one topic. `leaders`, `starts` and `ends` are by partition; `errors` are answered once each,
    before the leader answers.
    """

    def __init__(self) -> None:
        self.leaders = [1, 2, 1]
        self.starts, self.ends = [5, 0, 0], [100, 50, 0]
        self.cleanup_policy = "delete"
        self.errors: list[ErrorCode] = []
        self.log_dir_error = ErrorCode.NONE
        self.log_dirs_refused = {1: ErrorCode.NONE, 2: ErrorCode.NONE}
        self.peers = {broker: self._peer(broker) for broker in (1, 2)}
        self.brokers: dict[int, Broker] = {}
        self.controller: RpcServer | None = None
        self.asked: list[Any] = []
        self.security_protocol = "PLAINTEXT"
        self.log_lines: tuple[bytes, ...] = ()
        self.findings: tuple[asked.Finding, ...] = ()
        """What the controller knows to be wrong."""
        self.knows_brokers_after = 0
        """So many descriptions are without brokers first, as of a controller that has not loaded them yet."""
        self.quotas: tuple[ClientQuotaEntry, ...] = ()
        self.users: tuple[DescribeUserScramCredentialsResult, ...] = ()
        self.standbys: tuple[asked.DescribedController, ...] = ()
        head = asked.LogHead(f"controller-{CONTROLLER}", incarnation_id(1, 1), 2, "1" * 64, "", 1, "1" * 64)
        self._answers: dict[type, Callable[[Any], Any]] = {
            asked.DescribeClusterRequest: lambda _: self._description(),
            asked.DescribeFindingsRequest: lambda _: asked.DescribeFindingsResponse(self.findings),
            asked.ReadStateChangesRequest: lambda _: asked.ReadStateChangesResponse(self.log_lines),
            asked.DescribeLogHeadsRequest: lambda _: asked.DescribeLogHeadsResponse((head,)),
            DescribeTopicsRequest: lambda request: DescribeTopicsResponse(
                tuple(map(self._topic, request.topics or (TOPIC,)))
            ),
            DescribeReassignmentsRequest: lambda _: DescribeReassignmentsResponse(()),
            DescribeTopicDeletionsRequest: lambda _: DescribeTopicDeletionsResponse(()),
            PlanControlledShutdownRequest: lambda _: PlanControlledShutdownResponse(),
            DescribeClientQuotasRequest: lambda _: DescribeClientQuotasResponse(self.quotas),
            DescribeUserScramCredentialsRequest: lambda _: DescribeUserScramCredentialsResponse(self.users),
        }

    @property
    def address(self) -> str:
        """Of the controller."""
        assert self.controller is not None
        return self.controller.address

    def broker_address(self, broker: int) -> str:
        return self.brokers[broker].endpoints[0].address

    def answer(self, request: Any) -> Any:
        """What the controller answers."""
        self.asked.append(request)
        return self._answers[type(request)](request)

    def _description(self) -> asked.DescribeClusterResponse:
        brokers = tuple(
            asked.DescribedBroker(
                broker.id,
                replace(broker.endpoints[0], security_protocol=self.security_protocol),
                BrokerEpoch(broker.id),
            )
            for broker in self.brokers.values()
        )
        self.knows_brokers_after -= 1
        return asked.DescribeClusterResponse(
            "c",
            ControllerId(CONTROLLER),
            self.address,
            ControllerEpoch(1),
            brokers if self.knows_brokers_after < 0 else (),
            node_id=CONTROLLER,
            node_role="controller",
            controllers=(asked.DescribedController(ControllerId(CONTROLLER), self.address), *self.standbys),
            broker_protocol="kafka",
        )

    def _topic(self, name: str) -> DescribedTopic:
        if name != TOPIC:
            return DescribedTopic(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        both = (BrokerId(1), BrokerId(2))
        partitions = tuple(
            DescribedPartition(
                p,
                BrokerId(leader),
                LeaderEpoch(0),
                PartitionEpoch(0),
                both,
                (BrokerId(leader), BrokerId(3 - leader)),
            )
            for p, leader in enumerate(self.leaders)
        )
        return DescribedTopic(name, ErrorCode.NONE, partitions=partitions)

    def _peer(self, broker: int) -> KafkaPeer:
        return KafkaPeer(
            {
                ApiKey.METADATA: self._metadata,
                ApiKey.LIST_OFFSETS: lambda request: self._offsets(broker, request),
                ApiKey.DELETE_RECORDS: lambda request: self._delete(broker, request),
                ApiKey.DESCRIBE_CONFIGS: self._configs,
                ApiKey.DESCRIBE_LOG_DIRS: lambda request: self._log_dirs(broker, request),
            }
        )

    def _metadata(self, request: Any) -> wire_data.MetadataResponse:
        assert not request.allow_auto_topic_creation
        brokers = tuple(
            wire_data.MetadataResponseBroker(node_id=b.id, host=b.endpoints[0].host, port=b.endpoints[0].port)
            for b in self.brokers.values()
        )
        partitions = tuple(
            wire_data.MetadataResponsePartition(
                partition_index=p, leader_id=leader, leader_epoch=0, replica_nodes=(1, 2), isr_nodes=(1, 2)
            )
            for p, leader in enumerate(self.leaders)
        )
        topics = tuple(
            wire_data.MetadataResponseTopic(name=TOPIC, partitions=partitions)
            if topic.name == TOPIC
            else wire_data.MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=topic.name)
            for topic in request.topics
        )
        return wire_data.MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1001, topics=topics)

    def _error(self, broker: int, partition: int) -> ErrorCode:
        if self.leaders[partition] != broker:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self.errors.pop(0) if self.errors else ErrorCode.NONE

    def _offsets(self, broker: int, request: Any) -> wire_data.ListOffsetsResponse:
        def of(part: Any) -> wire_data.ListOffsetsPartitionResponse:
            known = self.starts if part.timestamp == EARLIEST_TIMESTAMP else self.ends
            error = self._error(broker, part.partition_index)
            return wire_data.ListOffsetsPartitionResponse(
                partition_index=part.partition_index, error_code=error, offset=known[part.partition_index]
            )

        return wire_data.ListOffsetsResponse(
            topics=tuple(
                wire_data.ListOffsetsTopicResponse(name=topic.name, partitions=tuple(map(of, topic.partitions)))
                for topic in request.topics
            )
        )

    def _delete(self, broker: int, request: Any) -> wire_data.DeleteRecordsResponse:
        def of(part: Any) -> wire_data.DeleteRecordsPartitionResult:
            error, p = self._error(broker, part.partition_index), part.partition_index
            if error is ErrorCode.NONE:
                self.starts[p] = self.ends[p] if part.offset == -1 else part.offset
            low = self.starts[p] if error is ErrorCode.NONE else -1
            return wire_data.DeleteRecordsPartitionResult(partition_index=p, low_watermark=low, error_code=error)

        return wire_data.DeleteRecordsResponse(
            topics=tuple(
                wire_data.DeleteRecordsTopicResult(name=topic.name, partitions=tuple(map(of, topic.partitions)))
                for topic in request.topics
            )
        )

    def _configs(self, request: Any) -> wire_configs.DescribeConfigsResponse:
        config = wire_configs.DescribeConfigsResourceResult(name="cleanup.policy", value=self.cleanup_policy)
        return wire_configs.DescribeConfigsResponse(
            results=tuple(
                wire_configs.DescribeConfigsResult(
                    resource_type=r.resource_type, resource_name=r.resource_name, configs=(config,)
                )
                for r in request.resources
            )
        )

    def _log_dirs(self, broker: int, request: Any) -> wire_data.DescribeLogDirsResponse:
        partition = wire_data.DescribeLogDirsPartition(partition_size=1000, offset_lag=broker)
        named = (TOPIC,) if request.topics is None else tuple(topic.topic for topic in request.topics)
        topics = tuple(wire_data.DescribeLogDirsTopic(name=name, partitions=(partition,)) for name in named)
        result = wire_data.DescribeLogDirsResult(
            error_code=self.log_dir_error, log_dir=LOG_DIR, topics=topics, total_bytes=5000, usable_bytes=4000
        )
        refused = self.log_dirs_refused[broker]
        results = (result,) if refused is ErrorCode.NONE else ()
        return wire_data.DescribeLogDirsResponse(error_code=refused, results=results)


@asynccontextmanager
async def kafka_governed() -> AsyncIterator[KafkaGoverned]:
    cluster = KafkaGoverned()
    async with AsyncExitStack() as stack:
        for broker, peer in cluster.peers.items():
            cluster.brokers[broker] = await stack.enter_async_context(kafka_broker(peer, broker))
        cluster.controller, _, _ = await stack.enter_async_context(controller(cluster.answer))
        yield cluster
