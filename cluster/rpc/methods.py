"""Every RPC: service, name and the codecs of its messages; used by servers and clients."""

from typing import Any, Final, NamedTuple

from cluster.errors import ApiError, ErrorCode
from cluster.requests import agents, cluster, configs, control, data, elections, reassignments, topics
from cluster.rpc import control_encoding
from cluster.rpc.codec import Codec, codec_for
from klamm.v1 import (
    broker_agent_pb2,
    cluster_pb2,
    configs_pb2,
    control_pb2,
    controller_pb2,
    elections_pb2,
    reassignments_pb2,
    topics_pb2,
    watch_pb2,
)


class Method(NamedTuple):
    """One RPC. `request_type`: the domain type passed to the handler; `streams`: whether the response is a stream."""

    service: str
    name: str
    request_type: type
    request: Codec
    response: Codec
    streams: bool = False

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


DOMAIN_TYPES: Final[dict[str, Any]] = {
    name: found
    for module in (agents, cluster, configs, control, data, elections, reassignments, topics)
    for name, found in vars(module).items()
}
"""Every request and response type by name, which is the name of its message."""
_STREAMED: Final = frozenset({"Watch"})


def _methods(service: str, modules: tuple[Any, ...], names: tuple[str, ...]) -> tuple[Method, ...]:
    return tuple(_method(service, modules, name) for name in names)


def _method(service: str, modules: tuple[Any, ...], name: str) -> Method:
    request, response = (_codec(modules, name + suffix) for suffix in ("Request", "Response"))
    request_type = DOMAIN_TYPES[f"{name}Request"]
    return Method(f"klamm.v1.{service}", name, request_type, request, response, name in _STREAMED)


def _codec(modules: tuple[Any, ...], name: str) -> Codec:
    (message_class,) = (getattr(module, name) for module in modules if hasattr(module, name))
    return codec_for(DOMAIN_TYPES[name], message_class)


CLUSTER_SERVICE: Final = _methods("ClusterService", (cluster_pb2,), ("DescribeCluster", "ReadStateChanges"))

CONTROLLER_SERVICE: Final = _methods(
    "ControllerService",
    (controller_pb2, topics_pb2, reassignments_pb2, elections_pb2, configs_pb2, watch_pb2),
    (
        "AlterPartition",
        "ControlledShutdown",
        "AllocateProducerIds",
        "CreateTopics",
        "CreatePartitions",
        "DeleteTopics",
        "ListTopics",
        "DescribeTopics",
        "DescribeTopicDeletions",
        "AlterPartitionReassignments",
        "ListPartitionReassignments",
        "DescribeReassignments",
        "ElectLeaders",
        "PlanControlledShutdown",
        "DescribeConfigs",
        "AlterConfigs",
        "DescribeFeatures",
        "UpdateFeatures",
        "PlanFeatureUpdates",
        "Watch",
    ),
)

BROKER_AGENT_SERVICE: Final = _methods(
    "BrokerAgentService",
    (broker_agent_pb2, control_pb2, elections_pb2),
    (
        "LeaderAndIsr",
        "StopReplica",
        "UpdateMetadata",
        "Produce",
        "Fetch",
        "ListOffsets",
        "OffsetsForLeaderEpoch",
        "DeleteRecords",
        "Metadata",
        "Shutdown",
    ),
)

METHOD_OF_REQUEST: Final = {m.request_type: m for m in (*CLUSTER_SERVICE, *CONTROLLER_SERVICE, *BROKER_AGENT_SERVICE)}


def encode_request(request: Any) -> bytes:
    """Encode a request; control requests of one batch share their common parts.

    Raises ApiError(INVALID_REQUEST) that names the field of a number that is too large.
    """
    match request:
        case control.LeaderAndIsrRequest():
            return control_encoding.encode_leader_and_isr(request)
        case control.UpdateMetadataRequest():
            return control_encoding.encode_update_metadata(request)
    try:
        return METHOD_OF_REQUEST[type(request)].request.encode(request)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
