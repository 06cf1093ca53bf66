"""Every RPC by who calls: requests, identities with their rules, and what each is allowed."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final, get_origin, get_type_hints

from msgspec import Struct
from msgspec.structs import fields

from cluster.model.broker import BrokerId, ControllerId, TopicId
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests import acls, agents, configs, control, data, topics
from cluster.requests.cluster import (
    AcknowledgeDamageRequest,
    ClusterEvent,
    WatchRequest,
    WatchResponse,
)
from cluster.requests.context import RequestContext
from cluster.requests.elections import PlanControlledShutdownRequest, ShutdownRequest
from cluster.requests.log_dirs import AlterReplicaLogDirsRequest, OnlineLogDirRequest
from cluster.requests.reassignments import AlterPartitionReassignmentsRequest
from cluster.rpc.methods import BROKER_AGENT_SERVICE, CLUSTER_SERVICE, CONTROLLER_SERVICE, METHOD_OF_REQUEST, Method
from cluster.security.acls import (
    CLUSTER_NAME,
    EVERY_NAME,
    AccessRule,
    Authorizer,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from cluster.security.identities import Identity, NodeName, NodeRole
from cluster.security.principals import ANONYMOUS, Principal

METHODS: Final = (*CLUSTER_SERVICE, *CONTROLLER_SERVICE, *BROKER_AGENT_SERVICE)
ALICE, ROOT, NODES = (Principal("User", f"CN={name}") for name in ("alice", "root", "nodes"))
AGENT, CONTROLLER = 1, 1001
SHOWN, HIDDEN = "orders", "secret"
ID_OF_HIDDEN = TopicId("B" * 21 + "Q")

FREE = {"Authenticate", "DescribeCluster", "DescribeFeatures"}
OF_BROKERS = {
    "AlterPartition",
    "ControlledShutdown",
    "AllocateProducerIds",
    "ReportDamagedReplicas",
    "ReplicaFetch",
}
OF_CONTROLLERS = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "DescribeReplicas"}
BY_TOPIC = {
    "CreateTopics": Operation.CREATE,
    "CreatePartitions": Operation.ALTER,
    "DeleteTopics": Operation.DELETE,
    "DescribeTopics": Operation.DESCRIBE,
    "DescribeConfigs": Operation.DESCRIBE_CONFIGS,
    "AlterConfigs": Operation.ALTER_CONFIGS,
    "Produce": Operation.WRITE,
    "Fetch": Operation.READ,
    "ListOffsets": Operation.DESCRIBE,
    "OffsetsForLeaderEpoch": Operation.DESCRIBE,
    "DeleteRecords": Operation.DELETE,
    "Metadata": Operation.DESCRIBE,
}
FILTERED = {"ListTopics", "DescribeTopicDeletions", "Watch"}
ALTER_CLUSTER = {
    "AlterPartitionReassignments",
    "ElectLeaders",
    "UpdateFeatures",
    "RecoverCluster",
    "CreateAcls",
    "AlterUserScramCredentials",
    "DeleteAcls",
    "Shutdown",
    "AcknowledgeDamage",
    "AlterReplicaLogDirs",
    "OnlineLogDir",
}
"""All others need Describe on the cluster, InitProducerId IdempotentWrite, and DescribeClientQuotas DescribeConfigs."""

_TWO = (SHOWN, HIDDEN)
REQUESTS: dict[str, Any] = {
    "AlterPartition": agents.AlterPartitionRequest(BrokerId(AGENT), 7, ()),
    "ControlledShutdown": agents.ControlledShutdownRequest(BrokerId(AGENT)),
    "AllocateProducerIds": agents.AllocateProducerIdsRequest(BrokerId(AGENT)),
    "ReportDamagedReplicas": agents.ReportDamagedReplicasRequest(BrokerId(AGENT), 7, ()),
    "ReplicaFetch": data.FetchRequest(BrokerId(AGENT), (), 0, 0, 0),
    "LeaderAndIsr": control.LeaderAndIsrRequest(ControllerId(CONTROLLER), 1),
    "StopReplica": control.StopReplicaRequest(ControllerId(CONTROLLER), 1),
    "UpdateMetadata": control.UpdateMetadataRequest(ControllerId(CONTROLLER), 1),
    "CreateTopics": topics.CreateTopicsRequest(tuple(map(topics.NewTopic, _TWO))),
    "CreatePartitions": topics.CreatePartitionsRequest(tuple(topics.NewPartitions(t, 2) for t in _TWO)),
    "DeleteTopics": topics.DeleteTopicsRequest(tuple(map(topics.TopicToDelete, _TWO))),
    "DescribeTopics": topics.DescribeTopicsRequest(_TWO),
    "DescribeConfigs": configs.DescribeConfigsRequest(tuple(configs.ConfigResource(2, t) for t in _TWO)),
    "AlterConfigs": configs.AlterConfigsRequest(tuple(configs.AlterConfigsResource(2, t, ()) for t in _TWO)),
    "Produce": data.ProduceRequest(1, 0, tuple(data.ProducePartition(t, 0, b"") for t in _TWO)),
    "Fetch": data.FetchRequest(data.CONSUMER, tuple(data.FetchPartition(t, None, 0, 0, 1) for t in _TWO), 0, 0, 0),
    "ListOffsets": data.ListOffsetsRequest(data.CONSUMER, tuple(data.ListOffsetsPartition(t, 0, -1) for t in _TWO)),
    "OffsetsForLeaderEpoch": data.OffsetsForLeaderEpochRequest(
        data.CONSUMER, tuple(data.OffsetForLeaderPartition(t, 0, 0) for t in _TWO)
    ),
    "DeleteRecords": data.DeleteRecordsRequest(0, tuple(data.DeleteRecordsPartition(t, 0, 1) for t in _TWO)),
    "Metadata": data.MetadataRequest(_TWO),
    "CreateAcls": acls.CreateAclsRequest(()),
    "DescribeAcls": acls.DescribeAclsRequest(1, 1, 1),
    "DeleteAcls": acls.DeleteAclsRequest(()),
    "AlterPartitionReassignments": AlterPartitionReassignmentsRequest(()),
    "UpdateFeatures": configs.UpdateFeaturesRequest(()),
    "PlanFeatureUpdates": configs.PlanFeatureUpdatesRequest(()),
    "PlanControlledShutdown": PlanControlledShutdownRequest(BrokerId(AGENT)),
    "Shutdown": ShutdownRequest(BrokerId(AGENT)),
    "AcknowledgeDamage": AcknowledgeDamageRequest(BrokerId(AGENT), SHOWN, 0),
    "AlterReplicaLogDirs": AlterReplicaLogDirsRequest(()),
    "OnlineLogDir": OnlineLogDirRequest(BrokerId(AGENT), "/data"),
}
"""Requests that name both topics, or say that broker 1 or controller 1001 sends them; of all others the defaults."""


class Node:
    """Handles everything: one result for each item, and both topics wherever something is listed."""

    def __init__(self) -> None:
        self.handled: list[Any] = []

    async def handle(self, _: RequestContext, request: Any) -> Any:  # noqa: PLR0911 - one answer for each API.
        self.handled.append(request)
        match request:
            case topics.CreateTopicsRequest():
                return topics.CreateTopicsResponse(
                    tuple(topics.CreatableTopicResult(t.name, ErrorCode.NONE) for t in request.topics)
                )
            case topics.CreatePartitionsRequest():
                return topics.CreatePartitionsResponse(
                    tuple(topics.CreatePartitionsResult(t.name, ErrorCode.NONE) for t in request.topics)
                )
            case topics.DeleteTopicsRequest():
                return topics.DeleteTopicsResponse(
                    tuple(topics.DeletableTopicResult(t.name, t.topic_id, ErrorCode.NONE) for t in request.topics)
                )
            case topics.DescribeTopicsRequest():
                names = _TWO if request.topics is None else request.topics
                return topics.DescribeTopicsResponse(tuple(topics.DescribedTopic(n, ErrorCode.NONE) for n in names))
            case topics.ListTopicsRequest():
                return topics.ListTopicsResponse(tuple(topics.ListedTopic(n, None, 1, 1) for n in _TWO))
            case topics.DescribeTopicDeletionsRequest():
                return topics.DescribeTopicDeletionsResponse(
                    tuple(topics.DescribedTopicDeletion(n, "waiting", "", 0, 1) for n in _TWO)
                )
            case configs.DescribeConfigsRequest():
                return configs.DescribeConfigsResponse(
                    tuple(
                        configs.DescribeConfigsResult(ErrorCode.NONE, None, r.resource_type, r.resource_name)
                        for r in request.resources
                    )
                )
            case configs.AlterConfigsRequest():
                return configs.AlterConfigsResponse(
                    tuple(
                        configs.AlterConfigsResourceResponse(ErrorCode.NONE, None, r.resource_type, r.resource_name)
                        for r in request.resources
                    )
                )
            case data.ProduceRequest():
                return data.ProduceResponse(
                    tuple(data.ProducePartitionResult(p.topic, p.partition, ErrorCode.NONE) for p in request.partitions)
                )
            case data.FetchRequest():
                return data.FetchResponse(
                    ErrorCode.NONE,
                    tuple(data.FetchPartitionData(p.topic, p.partition, ErrorCode.NONE) for p in request.partitions),
                )
            case data.ListOffsetsRequest():
                return data.ListOffsetsResponse(
                    tuple(data.ListOffsetsResult(p.topic, p.partition, ErrorCode.NONE) for p in request.partitions)
                )
            case data.OffsetsForLeaderEpochRequest():
                return data.OffsetsForLeaderEpochResponse(
                    tuple(data.OffsetForLeaderResult(p.topic, p.partition, ErrorCode.NONE) for p in request.partitions)
                )
            case data.DeleteRecordsRequest():
                return data.DeleteRecordsResponse(
                    tuple(data.DeleteRecordsResult(p.topic, p.partition, ErrorCode.NONE) for p in request.partitions)
                )
            case data.MetadataRequest():
                names = _TWO if request.topics is None else request.topics
                return data.MetadataResponse(
                    (), "", ControllerId(-1), tuple(data.MetadataTopic(n, None, ErrorCode.NONE) for n in names)
                )
            case WatchRequest():
                return self._events()
        answer: Any = empty(METHOD_OF_REQUEST[type(request)].response_type)
        return answer

    async def _events(self) -> AsyncIterator[WatchResponse]:
        of_topics = (ClusterEvent("topic_created", 0, 1, topic=name) for name in _TWO)
        yield WatchResponse("1-1", (ClusterEvent("broker_joined", 0, 1), *of_topics))


def empty(kind: Any) -> Any:
    """A response of this type that says nothing."""
    hints = get_type_hints(kind)
    return kind(**{field.name: _nothing(hints[field.name]) for field in fields(kind) if field.required})


def _nothing(hint: Any) -> Any:
    if get_origin(hint) in (tuple, dict):
        return get_origin(hint)()
    if isinstance(hint, type) and issubclass(hint, Struct):
        return empty(hint)
    return ErrorCode.NONE if hint is ErrorCode else getattr(hint, "__supertype__", hint)()


class Rules:
    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer


def allowing(operations: Iterable[Operation], resource_type: ResourceType, name: str) -> Authorizer:
    rules = frozenset(AccessRule(ALICE, operation) for operation in operations)
    return Authorizer({Pattern(resource_type, name): rules}, super_users={ROOT})


def right_of(method: str) -> tuple[Operation, ResourceType, str]:
    """The right that a client needs for its topic, or the cluster."""
    if method in BY_TOPIC:
        return BY_TOPIC[method], ResourceType.TOPIC, SHOWN
    if method in FILTERED:
        return Operation.DESCRIBE, ResourceType.TOPIC, SHOWN
    if method in OF_BROKERS | OF_CONTROLLERS:
        return Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    if method == "InitProducerId":
        return Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
    if method == "DescribeClientQuotas":
        return Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME
    operation = Operation.ALTER if method in ALTER_CLUSTER else Operation.DESCRIBE
    return operation, ResourceType.CLUSTER, CLUSTER_NAME


NONE = Authorizer({}, super_users={ROOT})
IMPLYING = {Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}}
IMPLYING[Operation.DESCRIBE_CONFIGS] = {Operation.ALTER_CONFIGS}


def all_but(operation: Operation) -> Authorizer:
    """Everything is allowed to everyone that is another right than this one."""
    others = set(Operation) - {operation, Operation.ALL} - IMPLYING.get(operation, set())
    # A topic may be created also by who may create on the cluster.
    rules = frozenset(AccessRule(ALICE, other) for other in others)
    patterns = (Pattern(ResourceType.TOPIC, EVERY_NAME), Pattern(ResourceType.CLUSTER, CLUSTER_NAME))
    return Authorizer(dict.fromkeys(patterns, rules), super_users={ROOT})


IDENTITIES: dict[str, Identity] = {
    "anonymous": Identity(ANONYMOUS, "10.0.0.9"),
    "client without rights": Identity(ALICE, "10.0.0.9"),
    "client with exactly the rights": Identity(ALICE, "10.0.0.9"),
    "client with all other rights": Identity(ALICE, "10.0.0.9"),
    "client with the rights, and one that denies": Identity(ALICE, "10.0.0.9"),
    "agent": Identity(NODES, "10.0.0.1", NodeName(NodeRole.BROKER, AGENT)),
    "another agent": Identity(NODES, "10.0.0.2", NodeName(NodeRole.BROKER, 2)),
    "another agent of a super user": Identity(ROOT, "10.0.0.2", NodeName(NodeRole.BROKER, 2)),
    "controller": Identity(NODES, "10.0.0.3", NodeName(NodeRole.CONTROLLER, CONTROLLER)),
    "another controller": Identity(NODES, "10.0.0.4", NodeName(NodeRole.CONTROLLER, 1002)),
    "super user": Identity(ROOT, "10.0.0.9"),
}


def authorizer_for(who: str, method: str) -> Authorizer:
    operation, resource_type, name = right_of(method)
    match who:
        case "client with exactly the rights":
            return allowing([operation], resource_type, name)
        case "client with all other rights":
            return all_but(operation)
        case "client with the rights, and one that denies":
            rules = frozenset({AccessRule(ALICE, operation), AccessRule(ALICE, operation, Permission.DENY)})
            return Authorizer({Pattern(resource_type, name): rules})
    return NONE


def expected(who: str, method: str) -> str:  # noqa: PLR0911 - one for each kind of API.
    """`all`, `shown` (of two topics the one that is allowed), or `nothing`."""
    if method in FREE:
        return "all"
    node = IDENTITIES[who].node
    if method in OF_BROKERS and node is not None:
        return "all" if node == NodeName(NodeRole.BROKER, AGENT) else "nothing"
    if method == "DescribeReplicas" and node is not None:
        return "all" if node.role is NodeRole.CONTROLLER else "nothing"
    if method in OF_CONTROLLERS and node is not None:
        return "all" if node == NodeName(NodeRole.CONTROLLER, CONTROLLER) else "nothing"
    if IDENTITIES[who].principal == ROOT:
        return "all"
    if who == "client with exactly the rights":
        return "shown" if method in BY_TOPIC.keys() | FILTERED else "all"
    if who == "client with all other rights" and method == "InitProducerId":
        # Who may write to some topic needs no right to be idempotent.
        return "all"
    return "nothing"


def request_of(method: Method) -> Any:
    request_type: Any = method.request_type
    return REQUESTS[method.name] if method.name in REQUESTS else request_type()


Ask = Callable[[Any], Awaitable[Any]]


async def seen(method: str, request: Any, node: Node, ask: Ask) -> str:
    """What the caller gets of the two topics, or of the whole. `ask` returns the response, a list for a stream."""
    node.handled.clear()
    try:
        response = await ask(request)
    except ApiError as error:
        refused_with = error.code
    else:
        refused_with = ErrorCode.NONE
        if method in OF_BROKERS | OF_CONTROLLERS:
            refused_with = getattr(response, "error_code", ErrorCode.NONE)
    if refused_with:
        assert refused_with is ErrorCode.CLUSTER_AUTHORIZATION_FAILED, (method, refused_with)
        assert node.handled == [], "a refused request changes nothing"
        return "nothing"
    if method == "Watch":
        events = [event for answer in response for event in answer.events]
        assert events[0].kind == "broker_joined"
        names = {event.topic for event in events[1:]}
    elif method in FILTERED:
        names = {getattr(item, "name", "") or item.topic for item in getattr(response, response.__struct_fields__[0])}
    elif method in BY_TOPIC:
        names = allowed_items(response, node)
    else:
        return "all"
    return {frozenset(_TWO): "all", frozenset({SHOWN}): "shown", frozenset(): "nothing"}[frozenset(names)]


def allowed_items(response: Any, node: Node) -> set[str]:
    (results,) = (
        value
        for name in response.__struct_fields__
        if isinstance(value := getattr(response, name), tuple) and value and hasattr(value[0], "error_code")
    )
    names = [getattr(r, "name", "") or getattr(r, "topic", "") or getattr(r, "resource_name", "") for r in results]
    assert names == list(_TWO), "each item has its result, in the order of the request"
    denied = {n for n, r in zip(names, results, strict=True) if r.error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert all(not any(n in repr(request) for n in denied) for request in node.handled), "a denied item is not handled"
    return set(names) - denied
