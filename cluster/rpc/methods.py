"""Lists every RPC with its service, its name and the codecs of its messages, for servers and clients.

All of it is derived by name: the methods from the services of `klamm.v1`, their types from `cluster.requests`.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message_factory import GetMessageClass

from cluster import requests
from cluster.model.errors import ApiError, ErrorCode
from cluster.rpc.codec import Codec, codec_for
from cluster.rpc.control_encoding import Encode, is_sharing, sharing_encoder
from klamm.v1 import broker_agent_pb2, cluster_pb2, controller_pb2


class Method(NamedTuple):
    """One RPC. The types are those that a handler takes and returns; `streams`: whether the response is a stream.

    Responses are encoded by `encode_response`, which knows the items that they share.
    """

    service: str
    name: str
    request_type: type
    response_type: type
    request: Codec
    response: Codec
    encode_response: Encode
    streams: bool

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


DOMAIN_TYPES: Final[dict[str, Any]] = {
    name: found
    for module in iter_modules(requests.__path__, f"{requests.__name__}.")
    for name, found in vars(import_module(module.name)).items()
}
"""Every request and response type by name, which is the name of its message."""


def _methods(file: FileDescriptor, service: str) -> tuple[Method, ...]:
    described = file.services_by_name[service]
    return tuple(
        Method(
            described.full_name,
            method.name,
            _domain_type(method.input_type),
            _domain_type(method.output_type),
            _codec(method.input_type),
            _codec(method.output_type),
            _encode_response(method.output_type),
            method.server_streaming,
        )
        for method in described.methods
    )


def _domain_type(message: Descriptor) -> Any:
    assert message.name in DOMAIN_TYPES, f"cluster.requests has no type for {message.full_name}"
    return DOMAIN_TYPES[message.name]


def _codec(message: Descriptor) -> Codec:
    return codec_for(_domain_type(message), GetMessageClass(message))


def _encode_response(message: Descriptor) -> Encode:
    """Make the encoder of a response, of which items may be encoded once for all responses."""
    kind = _domain_type(message)
    return sharing_encoder(kind, GetMessageClass(message)) if is_sharing(kind) else _codec(message).encode


CLUSTER_SERVICE: Final = _methods(cluster_pb2.DESCRIPTOR, "ClusterService")
CONTROLLER_SERVICE: Final = _methods(controller_pb2.DESCRIPTOR, "ControllerService")
BROKER_AGENT_SERVICE: Final = _methods(broker_agent_pb2.DESCRIPTOR, "BrokerAgentService")
REPLICA_FETCH: Final = next(method for method in BROKER_AGENT_SERVICE if method.name == "ReplicaFetch")
"""Fetch for followers. Only FetchRequest has two methods: a server knows followers before it reads their calls."""
METHOD_OF_REQUEST: Final = {
    method.request_type: method
    for method in (*CLUSTER_SERVICE, *CONTROLLER_SERVICE, *BROKER_AGENT_SERVICE)
    if method is not REPLICA_FETCH
}
_SHARING: Final = {
    kind: sharing_encoder(kind, method.request.message_class)
    for kind, method in METHOD_OF_REQUEST.items()
    if is_sharing(kind)
}


def encode_request(request: Any) -> bytes:
    """Encode a request; the control requests of one batch share their common parts.

    Raises ApiError(INVALID_REQUEST) that names the field of a number that is too large.
    """
    sharing = _SHARING.get(type(request))
    if sharing is not None:
        return sharing(request)
    try:
        return METHOD_OF_REQUEST[type(request)].request.encode(request)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
