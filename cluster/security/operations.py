"""The table of rights: what each request needs, of which resources, and what becomes of what is denied.

It names requests, and the fields that name resources, as `cluster.requests` does. Requests are authorised by it
(`cluster.rpc.rights`), and docs/security-requests.md is made from it. Source: Kafka KafkaApis, AclAuthorizer.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from cluster.model.errors import ErrorCode
from cluster.security.acls import Operation, ResourceType
from cluster.security.identities import NodeRole

_TOPIC_CONFIGS: Final = 2
"""Kafka's number of topics among the resources that have configs; configs of all others belong to the cluster."""


CODE_OF_DENIAL: Final[Mapping[ResourceType, ErrorCode]] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
"""klamm has neither groups nor transactions, so no request names one of the other types."""


class Requirement(Struct, frozen=True):
    """What a request needs. `operation` None: nothing.

    `items`: where the request names its resources, as `LIST.FIELD`, or `LIST` if its items are the names. Each item
    that is denied gets an error, and the others are handled. Empty: the request is allowed or refused as a whole.

    `shown`: what the response shows, in the same form: items that are denied are left out of it. Beside `items` it is
    for requests without a list, which means all.

    `results`: where the response has results of resources, in the same form, that the request need not name: those of a
    fetch session. What is denied by now is an error there.

    `types`: the field of an item with the type of the resource, as Kafka numbers those with configs.
    `on_cluster`: whether the right to do it on the cluster is enough for every item.
    `somewhere`: what is enough instead, on any resource of the type of this pair.

    `sender`: the nodes of the cluster that send it, each for itself only; they need no rule for it.
    `sender_id`: the field with the id of the sender. `follower_id`: the field in which a follower has its broker id;
    such requests are those of brokers.
    """

    operation: Operation | None = None
    resource_type: ResourceType = ResourceType.CLUSTER
    items: str = ""
    shown: str = ""
    results: str = ""
    types: str = ""
    on_cluster: bool = False
    somewhere: tuple[Operation, ResourceType] | None = None
    sender: NodeRole | None = None
    sender_id: str = ""
    follower_id: str = ""

    def type_of(self, number: int) -> ResourceType:
        """The type of the resource with configs that Kafka numbers so."""
        return ResourceType.TOPIC if number == _TOPIC_CONFIGS else ResourceType.CLUSTER


_NOTHING: Final = Requirement()
_DESCRIBE_CLUSTER: Final = Requirement(Operation.DESCRIBE)
_ALTER_CLUSTER: Final = Requirement(Operation.ALTER)
FROM_FOLLOWER: Final = Requirement(Operation.CLUSTER_ACTION, sender=NodeRole.BROKER, sender_id="replica_id")
"""What the requests of followers need that clients send too."""


def _from(role: NodeRole, sender_id: str = "") -> Requirement:
    return Requirement(Operation.CLUSTER_ACTION, sender=role, sender_id=sender_id)


def _of_topics(operation: Operation, items: str = "", shown: str = "", follower_id: str = "") -> Requirement:
    return Requirement(operation, ResourceType.TOPIC, items, shown, follower_id=follower_id)


def _of_configs(operation: Operation) -> Requirement:
    return Requirement(operation, ResourceType.TOPIC, "resources.resource_name", types="resource_type")


REQUIREMENTS: Final[Mapping[str, Requirement]] = {
    # Of every process. A part of the state-change log could not be verified: it is shown as a whole or not at all.
    "Authenticate": _NOTHING,
    "DescribeCluster": _NOTHING,
    "ReadStateChanges": _DESCRIBE_CLUSTER,
    "DescribeLogHeads": _DESCRIBE_CLUSTER,
    "DescribeFindings": _DESCRIBE_CLUSTER,
    # From brokers to the controller.
    "AlterPartition": _from(NodeRole.BROKER, "broker_id"),
    "ControlledShutdown": _from(NodeRole.BROKER, "broker_id"),
    "AllocateProducerIds": _from(NodeRole.BROKER, "broker_id"),
    "ReportDamagedReplicas": _from(NodeRole.BROKER, "broker_id"),
    # From clients to the controller.
    "CreateTopics": Requirement(Operation.CREATE, ResourceType.TOPIC, "topics.name", on_cluster=True),
    "CreatePartitions": _of_topics(Operation.ALTER, "topics.name"),
    "DeleteTopics": _of_topics(Operation.DELETE, "topics.name"),
    "ListTopics": _of_topics(Operation.DESCRIBE, shown="topics.name"),
    "DescribeTopics": _of_topics(Operation.DESCRIBE, "topics", "topics.name"),
    "DescribeTopicDeletions": _of_topics(Operation.DESCRIBE, shown="deletions.topic"),
    "AlterPartitionReassignments": _ALTER_CLUSTER,
    "ListPartitionReassignments": _DESCRIBE_CLUSTER,
    "DescribeReassignments": _DESCRIBE_CLUSTER,
    "ElectLeaders": _ALTER_CLUSTER,
    "PlanControlledShutdown": _DESCRIBE_CLUSTER,
    "DescribeConfigs": _of_configs(Operation.DESCRIBE_CONFIGS),
    "AlterConfigs": _of_configs(Operation.ALTER_CONFIGS),
    "DescribeFeatures": _NOTHING,
    "UpdateFeatures": _ALTER_CLUSTER,
    "PlanFeatureUpdates": _DESCRIBE_CLUSTER,
    "PlanClusterRecovery": _DESCRIBE_CLUSTER,
    "RecoverCluster": _ALTER_CLUSTER,
    "CreateAcls": _ALTER_CLUSTER,
    "DescribeAcls": _DESCRIBE_CLUSTER,
    "DeleteAcls": _ALTER_CLUSTER,
    "Watch": _of_topics(Operation.DESCRIBE, shown="events.topic"),
    "DescribeUserScramCredentials": _DESCRIBE_CLUSTER,
    "AlterUserScramCredentials": _ALTER_CLUSTER,
    "DescribeClientQuotas": Requirement(Operation.DESCRIBE_CONFIGS),
    # From controllers to brokers.
    "LeaderAndIsr": _from(NodeRole.CONTROLLER, "controller_id"),
    "StopReplica": _from(NodeRole.CONTROLLER, "controller_id"),
    "UpdateMetadata": _from(NodeRole.CONTROLLER, "controller_id"),
    "DescribeReplicas": _from(NodeRole.CONTROLLER),
    # From clients and followers to brokers.
    "Produce": _of_topics(Operation.WRITE, "partitions.topic"),
    "Fetch": Requirement(
        Operation.READ,
        ResourceType.TOPIC,
        "partitions.topic",
        results="partitions.topic",
        follower_id="replica_id",
    ),
    "ListOffsets": _of_topics(Operation.DESCRIBE, "partitions.topic", follower_id="replica_id"),
    "OffsetsForLeaderEpoch": _of_topics(Operation.DESCRIBE, "partitions.topic", follower_id="replica_id"),
    "DeleteRecords": _of_topics(Operation.DELETE, "partitions.topic"),
    "InitProducerId": Requirement(Operation.IDEMPOTENT_WRITE, somewhere=(Operation.WRITE, ResourceType.TOPIC)),
    "Metadata": _of_topics(Operation.DESCRIBE, "topics", "topics.name"),
    "Shutdown": _ALTER_CLUSTER,
    "AcknowledgeDamage": _ALTER_CLUSTER,
    "DescribeLogDirs": _DESCRIBE_CLUSTER,
    "AlterReplicaLogDirs": _ALTER_CLUSTER,
    "OnlineLogDir": _ALTER_CLUSTER,
}
"""By the name of the request, which is that of its RPC; ReplicaFetch is a Fetch."""
