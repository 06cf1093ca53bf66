"""Answers that a broker gives to this controller, and this controller to those clients who may have them.

A broker would judge the controller that asks it, or another host than the client's: a request of a client is never
passed on as it is where there are access control lists. For the APIs in this table the controller decides itself, by
the principal and the host of the client, as the broker would; it asks under its own identity only for what the client
may have, and leaves out of the answer what it may not see. Source: Kafka KafkaApis, AuthHelper, AclEntry.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import configs as wire_configs
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.coordinators import (
    Coordinator,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from cluster.kafka_wire.messages.data import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from cluster.model.errors import ErrorCode
from cluster.security.acl_numbers import NUMBER_OF_OPERATION
from cluster.security.acls import Operation, ResourceType
from cluster.security.authorization import CLUSTER, CallerRights, Resource

OF_CLUSTER: Final[Mapping[ApiKey, Operation]] = {
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Operation.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Operation.DESCRIBE,
}
"""What is allowed as a whole or not at all, and what it needs on the cluster."""
_WITHOUT_CREATION: Final = 4
"""The first version of Metadata that can say that no topic is to be created."""
_WITH_KEYS: Final = 4
"""The first version of FindCoordinator with several keys."""
_NOT_ASKED: Final = -(2**31)
_COORDINATED: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
_TYPES_WITH_CONFIGS: Final = {2: ResourceType.TOPIC, 4: ResourceType.CLUSTER, 8: ResourceType.CLUSTER}
"""Topics, brokers and their loggers; a broker refuses others."""
_OPERATIONS: Final[Mapping[ResourceType, Collection[Operation]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
_DENIED: Final[Mapping[ResourceType, tuple[ErrorCode, str]]] = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."),
    ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
    ResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
}
"""Codes and messages as Kafka's."""


class ClientRights:
    """Decides what one client may do. `denied`: what it may not, of all that was asked."""

    def __init__(self, rights: CallerRights) -> None:
        self._rights = rights
        self.denied: list[tuple[Operation, Resource]] = []

    def may(self, operation: Operation, resource: Resource, *, is_reported: bool = True) -> bool:
        """Whether the client may do this. `is_reported`: whether a denial is one that it hears of."""
        allowed = self._rights.may(operation, resource)
        if is_reported and not allowed:
            self.denied.append((operation, resource))
        return allowed

    def may_write_somewhere(self) -> bool:
        """Whether the client may write to some topic, which is enough for an idempotent producer (KIP-679)."""
        return self._rights.may_somewhere(Operation.WRITE, ResourceType.TOPIC)

    def operations(self, resource: Resource) -> int:
        """Write what the client may do to a resource as responses have it, a bit for each operation."""
        allowed = (op for op in _OPERATIONS[resource.type] if self.may(op, resource, is_reported=False))
        return sum(1 << NUMBER_OF_OPERATION[operation] for operation in allowed)

    def cluster_operations(self, *, is_asked: bool) -> int:
        """Write the same for the cluster; nothing for who may not describe it."""
        if not is_asked:
            return _NOT_ASKED
        return self.operations(CLUSTER) if self.may(Operation.DESCRIBE, CLUSTER, is_reported=False) else 0


class AuthorizedRequest(Struct, frozen=True):
    """What becomes of a request. `sent`: what the broker is asked, None if nothing; `version`: of both.

    `completed`: the answer to the client, from that of the broker, or from an empty one if it was not asked.
    """

    sent: Message | None
    version: int
    completed: Callable[[Any], Message]


def _metadata(request: MetadataRequest, version: int, rights: ClientRights) -> AuthorizedRequest:
    """Authorise Metadata: topics without the right to describe them are refused, and left out where all are asked for.

    Kafka tells the id of a topic that was asked for by its id to anybody.
    """
    asks_for_all = request.topics is None or (version == 0 and not request.topics)
    topics = () if asks_for_all else request.topics or ()
    names = [topic.name for topic in topics if topic.name is not None]
    denied = {name for name in names if not rights.may(Operation.DESCRIBE, Resource(ResourceType.TOPIC, name))}
    rest = tuple(topic for topic in topics if topic.name is None or topic.name not in denied)
    allowed = [name for name in names if name not in denied]
    creates = request.allow_auto_topic_creation and bool(allowed) and _may_create(rights, allowed)
    sent = MetadataRequest(topics=None if asks_for_all else rest, allow_auto_topic_creation=creates)

    def shown(topic: MetadataResponseTopic) -> MetadataResponseTopic | None:
        # Without a name it is an id that no topic has.
        if topic.name and not rights.may(
            Operation.DESCRIBE, Resource(ResourceType.TOPIC, topic.name), is_reported=False
        ):
            return None if asks_for_all else _denied_topic(None, topic.topic_id)
        if not (request.include_topic_authorized_operations and topic.name and not topic.error_code):
            return topic
        return replace(topic, topic_authorized_operations=rights.operations(Resource(ResourceType.TOPIC, topic.name)))

    def completed(response: MetadataResponse) -> MetadataResponse:
        found = [one for topic in response.topics if (one := shown(topic)) is not None]
        operations = rights.cluster_operations(is_asked=request.include_cluster_authorized_operations)
        refused = (_denied_topic(name) for name in dict.fromkeys(names) if name in denied)
        return replace(response, topics=(*found, *refused), cluster_authorized_operations=operations)

    return AuthorizedRequest(sent, max(version, _WITHOUT_CREATION), completed)


def _may_create(rights: ClientRights, names: Iterable[str]) -> bool:
    """Whether the client may create each of these topics. Otherwise a broker is to create none of them."""
    if rights.may(Operation.CREATE, CLUSTER, is_reported=False):
        return True
    return all(rights.may(Operation.CREATE, Resource(ResourceType.TOPIC, name), is_reported=False) for name in names)


def _denied_topic(name: str | None, topic_id: Any = None) -> MetadataResponseTopic:
    ids = {} if topic_id is None else {"topic_id": topic_id}
    return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, **ids)


def _find_coordinator(request: FindCoordinatorRequest, version: int, rights: ClientRights) -> AuthorizedRequest:
    """Authorise FindCoordinator: each group or transactional id needs the right to describe it, and others, which are
    the business of brokers, ClusterAction.
    """
    kind = _COORDINATED.get(request.key_type, ResourceType.CLUSTER)
    keys = request.coordinator_keys if version >= _WITH_KEYS else (request.key,)
    is_of_brokers = kind is ResourceType.CLUSTER
    needed = Operation.CLUSTER_ACTION if is_of_brokers else Operation.DESCRIBE
    denied = {k: None for k in keys if not rights.may(needed, CLUSTER if is_of_brokers else Resource(kind, k))}
    rest = tuple(key for key in keys if key not in denied)
    code, text = _DENIED[kind]

    def completed(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        if version < _WITH_KEYS:
            if not denied:
                return response
            return replace(response, error_code=code, error_message=text, node_id=-1, port=-1)
        refused = (Coordinator(key=k, node_id=-1, port=-1, error_code=code, error_message=text) for k in denied)
        return replace(response, coordinators=(*response.coordinators, *refused))

    sent = request if version < _WITH_KEYS else replace(request, coordinator_keys=rest)
    return AuthorizedRequest(sent if rest or not denied else None, version, completed)


def _init_producer_id(request: InitProducerIdRequest, version: int, rights: ClientRights) -> AuthorizedRequest:
    """Authorise InitProducerId: a transactional id needs Write, an idempotent producer a topic to write to."""
    code = ErrorCode.NONE
    if request.transactional_id is not None:
        if not rights.may(Operation.WRITE, Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)):
            code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not (rights.may_write_somewhere() or rights.may(Operation.IDEMPOTENT_WRITE, CLUSTER)):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    def completed(response: InitProducerIdResponse) -> InitProducerIdResponse:
        return replace(response, error_code=code, producer_epoch=-1) if code else response

    return AuthorizedRequest(None if code else request, version, completed)


def _describe_cluster(request: DescribeClusterRequest, version: int, rights: ClientRights) -> AuthorizedRequest:
    """Authorise DescribeCluster, which needs no right: what the client may do to the cluster is what it learns."""

    def completed(response: DescribeClusterResponse) -> DescribeClusterResponse:
        operations = rights.cluster_operations(is_asked=request.include_cluster_authorized_operations)
        return replace(response, cluster_authorized_operations=operations)

    return AuthorizedRequest(replace(request, include_cluster_authorized_operations=False), version, completed)


def _describe_configs(
    request: wire_configs.DescribeConfigsRequest, version: int, rights: ClientRights
) -> AuthorizedRequest:
    allowed, denied = _by_right(request.resources, Operation.DESCRIBE_CONFIGS, rights)

    def completed(response: wire_configs.DescribeConfigsResponse) -> wire_configs.DescribeConfigsResponse:
        refused = (wire_configs.DescribeConfigsResult(**_error(resource)) for resource in denied)
        return replace(response, results=(*response.results, *refused))

    return AuthorizedRequest(replace(request, resources=allowed) if allowed else None, version, completed)


def _alter_configs(refused_type: type[Message]) -> Callable[[Any, int, ClientRights], AuthorizedRequest]:
    """Make the function that authorises IncrementalAlterConfigs, or AlterConfigs, which it has replaced (KIP-339): the
    messages of both have the same fields. `refused_type`: of a resource in the response.
    """

    def authorized(request: Any, version: int, rights: ClientRights) -> AuthorizedRequest:
        allowed, denied = _by_right(request.resources, Operation.ALTER_CONFIGS, rights)

        def completed(response: Any) -> Message:
            refused = (refused_type(**_error(resource)) for resource in denied)
            completed: Message = replace(response, responses=(*response.responses, *refused))
            return completed

        return AuthorizedRequest(replace(request, resources=allowed) if allowed else None, version, completed)

    return authorized


def _alter_client_quotas(
    request: wire_configs.AlterClientQuotasRequest, version: int, rights: ClientRights
) -> AuthorizedRequest:
    """Authorise AlterClientQuotas: all of it or nothing, and a refusal names each entity."""
    is_allowed = rights.may(Operation.ALTER_CONFIGS, CLUSTER)
    code, text = _DENIED[ResourceType.CLUSTER]

    def completed(response: wire_configs.AlterClientQuotasResponse) -> wire_configs.AlterClientQuotasResponse:
        if is_allowed:
            return response
        refused = (
            wire_configs.AlterClientQuotasResponseEntryData(
                error_code=code,
                error_message=text,
                entity=tuple(
                    wire_configs.AlterClientQuotasResponseEntityData(
                        entity_type=one.entity_type, entity_name=one.entity_name
                    )
                    for one in entry.entity
                ),
            )
            for entry in request.entries
        )
        return replace(response, entries=tuple(refused))

    return AuthorizedRequest(request if is_allowed else None, version, completed)


def _by_right(
    resources: Iterable[Any], operation: Operation, rights: ClientRights
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The resources with configs whose right the client has, and the others."""
    found = [(resource, rights.may(operation, _configured(resource))) for resource in resources]
    return tuple(r for r, allowed in found if allowed), tuple(r for r, allowed in found if not allowed)


def _configured(resource: Any) -> Resource:
    kind = _TYPES_WITH_CONFIGS.get(resource.resource_type, ResourceType.CLUSTER)
    return CLUSTER if kind is ResourceType.CLUSTER else Resource(kind, resource.resource_name)


def _error(resource: Any) -> dict[str, Any]:
    code, text = _DENIED[_configured(resource).type]
    named = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    return {"error_code": code, "error_message": text, **named}


AUTHORIZED: Final[Mapping[ApiKey, Callable[[Any, int, ClientRights], AuthorizedRequest]]] = {
    ApiKey.METADATA: _metadata,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs(
        wire_configs.IncrementalAlterConfigsResponseAlterConfigsResourceResponse
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.ALTER_CONFIGS: _alter_configs(wire_configs.AlterConfigsResponseAlterConfigsResourceResponse),
}
"""The functions that judge a request, from the request, its version and the rights."""
