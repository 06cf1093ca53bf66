"""Every remote call: its service, its name and the codecs of its two messages. Servers and clients share it.

All of it is derived: the calls from the services of `klamm.v1`, their types from `cluster.requests`, by name.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message_factory import GetMessageClass

from cluster import requests
from cluster.errors import ApiError, ErrorCode
from cluster.requests import control
from cluster.rpc import control_encoding
from cluster.rpc.codec import Codec, codec_for
from klamm.v1 import broker_agent_pb2, cluster_pb2, controller_pb2


class Method(NamedTuple):
    """One call. `request_type` is the domain type that a handler gets; `streams`: its answer is many responses."""

    service: str
    name: str
    request_type: type
    request: Codec
    response: Codec
    streams: bool

    @property
    def path(self) -> str:
        return f"/{self.service}/{self.name}"


DOMAIN_TYPES: Final[dict[str, Any]] = {
    name: found
    for module in iter_modules(requests.__path__, f"{requests.__name__}.")
    for name, found in vars(import_module(module.name)).items()
}
"""Every request and answer by its name, which is that of its message."""


def _methods(file: FileDescriptor, service: str) -> tuple[Method, ...]:
    described = file.services_by_name[service]
    return tuple(
        Method(
            described.full_name,
            method.name,
            _domain_type(method.input_type),
            _codec(method.input_type),
            _codec(method.output_type),
            method.server_streaming,
        )
        for method in described.methods
    )


def _domain_type(message: Descriptor) -> Any:
    assert message.name in DOMAIN_TYPES, f"cluster.requests has no type for {message.full_name}"
    return DOMAIN_TYPES[message.name]


def _codec(message: Descriptor) -> Codec:
    return codec_for(_domain_type(message), GetMessageClass(message))


CLUSTER_SERVICE: Final = _methods(cluster_pb2.DESCRIPTOR, "ClusterService")
CONTROLLER_SERVICE: Final = _methods(controller_pb2.DESCRIPTOR, "ControllerService")
BROKER_AGENT_SERVICE: Final = _methods(broker_agent_pb2.DESCRIPTOR, "BrokerAgentService")
METHOD_OF_REQUEST: Final = {m.request_type: m for m in (*CLUSTER_SERVICE, *CONTROLLER_SERVICE, *BROKER_AGENT_SERVICE)}


def encode_request(request: Any) -> bytes:
    """The bytes of any request; control requests of one batch share the parts they have in common.

    Raises ApiError(INVALID_REQUEST) naming the field of a number that is too large for it.
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
