"""Maps errors to gRPC statuses and back: the code is for gRPC's tools, `google.rpc.ErrorInfo` for klamm's.

ErrorInfo's reason is Kafka's name of the error; its metadata may have `field`, `value` and `leader_address`.
`google.rpc.BadRequest` lists every invalid field.
"""

import re
from typing import Final

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from cluster.model.errors import (
    ApiError,
    ClusterError,
    ConnectionRefusedByHostError,
    ErrorCode,
    FieldViolation,
    PeerBusyError,
    PeerNotConnectedError,
    PeerTooOldError,
    PeerUnreachableError,
    RequestTooLargeError,
    TlsFailedError,
    UnresolvableHostError,
)
from cluster.tls.untrusted import why_not_accepted

DOMAIN: Final = "klamm"

_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_CONFLICT = grpc.StatusCode.FAILED_PRECONDITION
_LATER = grpc.StatusCode.UNAVAILABLE
_MISSING = grpc.StatusCode.NOT_FOUND

STATUS_OF_ERROR: Final[dict[ErrorCode, grpc.StatusCode]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: grpc.StatusCode.INTERNAL,
    ErrorCode.OFFSET_OUT_OF_RANGE: grpc.StatusCode.OUT_OF_RANGE,
    ErrorCode.CORRUPT_MESSAGE: _INVALID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _MISSING,
    ErrorCode.LEADER_NOT_AVAILABLE: _LATER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _CONFLICT,
    ErrorCode.REQUEST_TIMED_OUT: grpc.StatusCode.DEADLINE_EXCEEDED,
    ErrorCode.BROKER_NOT_AVAILABLE: _LATER,
    ErrorCode.REPLICA_NOT_AVAILABLE: _LATER,
    ErrorCode.MESSAGE_TOO_LARGE: _INVALID,
    ErrorCode.STALE_CONTROLLER_EPOCH: _CONFLICT,
    ErrorCode.NETWORK_EXCEPTION: _LATER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _LATER,
    ErrorCode.INVALID_TOPIC_EXCEPTION: _INVALID,
    ErrorCode.RECORD_LIST_TOO_LARGE: _INVALID,
    ErrorCode.NOT_ENOUGH_REPLICAS: _LATER,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _LATER,
    ErrorCode.INVALID_REQUIRED_ACKS: _INVALID,
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.SECURITY_DISABLED: grpc.StatusCode.FAILED_PRECONDITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: grpc.StatusCode.PERMISSION_DENIED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: grpc.StatusCode.PERMISSION_DENIED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: grpc.StatusCode.PERMISSION_DENIED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: grpc.StatusCode.PERMISSION_DENIED,
    ErrorCode.INVALID_TIMESTAMP: _INVALID,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: _INVALID,
    ErrorCode.ILLEGAL_SASL_STATE: grpc.StatusCode.UNAUTHENTICATED,
    ErrorCode.UNSUPPORTED_VERSION: grpc.StatusCode.UNIMPLEMENTED,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: grpc.StatusCode.INVALID_ARGUMENT,
    ErrorCode.TOPIC_ALREADY_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    ErrorCode.INVALID_PARTITIONS: _INVALID,
    ErrorCode.INVALID_REPLICATION_FACTOR: _INVALID,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: _INVALID,
    ErrorCode.INVALID_CONFIG: _INVALID,
    ErrorCode.NOT_CONTROLLER: _CONFLICT,
    ErrorCode.INVALID_REQUEST: _INVALID,
    ErrorCode.POLICY_VIOLATION: _CONFLICT,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: _CONFLICT,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: _CONFLICT,
    ErrorCode.INVALID_PRODUCER_EPOCH: _CONFLICT,
    ErrorCode.OPERATION_NOT_ATTEMPTED: grpc.StatusCode.ABORTED,
    ErrorCode.KAFKA_STORAGE_ERROR: _LATER,
    ErrorCode.LOG_DIR_NOT_FOUND: _MISSING,
    ErrorCode.SASL_AUTHENTICATION_FAILED: grpc.StatusCode.UNAUTHENTICATED,
    ErrorCode.UNKNOWN_PRODUCER_ID: _MISSING,
    ErrorCode.REASSIGNMENT_IN_PROGRESS: _CONFLICT,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: _MISSING,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: _CONFLICT,
    ErrorCode.LISTENER_NOT_FOUND: _MISSING,
    ErrorCode.TOPIC_DELETION_DISABLED: _CONFLICT,
    ErrorCode.FENCED_LEADER_EPOCH: _CONFLICT,
    ErrorCode.UNKNOWN_LEADER_EPOCH: _LATER,
    ErrorCode.STALE_BROKER_EPOCH: _CONFLICT,
    ErrorCode.OFFSET_NOT_AVAILABLE: _LATER,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: _LATER,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: _LATER,
    ErrorCode.ELECTION_NOT_NEEDED: _CONFLICT,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: _CONFLICT,
    ErrorCode.INVALID_RECORD: _INVALID,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.RESOURCE_NOT_FOUND: _MISSING,
    ErrorCode.DUPLICATE_RESOURCE: _INVALID,
    ErrorCode.UNACCEPTABLE_CREDENTIAL: _INVALID,
    ErrorCode.INVALID_UPDATE_VERSION: grpc.StatusCode.ABORTED,
    ErrorCode.FEATURE_UPDATE_FAILED: _CONFLICT,
    ErrorCode.UNKNOWN_TOPIC_ID: _MISSING,
    ErrorCode.BROKER_ID_NOT_REGISTERED: _MISSING,
    ErrorCode.INCONSISTENT_TOPIC_ID: _CONFLICT,
    ErrorCode.INELIGIBLE_REPLICA: _CONFLICT,
    ErrorCode.NEW_LEADER_ELECTED: _CONFLICT,
}

_REFUSED: Final = "connection refused"
CONNECTION_CLOSED: Final = "connection closed"
_UNRESOLVABLE: Final = "the host name cannot be resolved"
_NO_TLS: Final = "it does not speak TLS"
_OTHER_NAME: Final = "its certificate does not have the name by which it is reached"
_UNSENT: Final = {
    "Connection refused": _REFUSED,
    "DNS resolution failed": _UNRESOLVABLE,
    "address lookup failed": _UNRESOLVABLE,
    "Failed parsing HTTP/2": "it is no klamm gRPC port, perhaps a metrics port",
    "Timeout occurred": "connection timed out",
    # Of every TLS port that does not speak HTTP/2.
    "missing selected ALPN": "it speaks TLS, but is no klamm gRPC port, perhaps Kafka's, ZooKeeper's or for metrics",
    "SETTINGS frame": "it accepts connections, but does not answer",
    "tcp handshaker shutdown": "connection timed out",
    "connect() timed out": "connection timed out",
    "connection attempt timed out": "connection timed out",
    "SO_ERROR): Connection timed out": "connection timed out",
    "No route to host": "no route to the host",
    "Network is unreachable": "the network is unreachable",
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "Hostname Verification Check failed": _OTHER_NAME,
}
_REASONS: Final = {
    **_UNSENT,
    "Connection reset": CONNECTION_CLOSED,
    "Socket closed": CONNECTION_CLOSED,
    # TCP_USER_TIMEOUT of the socket, which the keepalive sets.
    "recvmsg:Connection timed out": "the connection broke: nothing was acknowledged",
}
"""Parts of gRPC's details, and what messages say instead. For those of `_UNSENT` there was no connection to send on."""


_HANDSHAKE: Final = "TLS handshake failed"
_UNTRUSTED: Final = f"{_HANDSHAKE}: CERTIFICATE_VERIFY_FAILED"
_HANDSHAKE_ERROR: Final = re.compile(r"handshake failed .*OPENSSL_internal:(?P<why>.*?)(: OK)?$")
"""OpenSSL's words for what is wrong with the peer's certificate."""
_TOO_LARGE: Final = re.compile(
    r"(SERVER: Received|CLIENT: Sent) message larger than max \((?P<size>\d+) vs\. (?P<limit>\d+)\)"
)
"""gRPC's text for a request that was too large; its status has no details."""


def status_of(error: ClusterError) -> grpc.Status:
    """Make the status of an error: code, message, ErrorInfo, and BadRequest for invalid fields."""
    info = ErrorInfo(reason=error.code.name, domain=DOMAIN)
    details: list[Message] = [info]
    message = str(error)
    if isinstance(error, ApiError):
        message = error.message
        given = {"field": error.field, "value": error.value, "leader_address": error.leader_address}
        info.metadata.update({key: str(value) for key, value in given.items() if value is not None})
        wrong = [BadRequest.FieldViolation(field=v.field, description=v.description) for v in error.violations]
        if wrong:
            details.append(BadRequest(field_violations=wrong))
    number: int = STATUS_OF_ERROR[error.code].value[0]
    status: grpc.Status = rpc_status.to_status(
        Status(code=number, message=message, details=[_packed(detail) for detail in details])
    )
    return status


def _packed(detail: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(detail)
    return packed


def error_of(call: grpc.aio.AioRpcError, address: str) -> ApiError | PeerUnreachableError:
    """Make the error of a failed call: ApiError if the peer refused, PeerUnreachableError if klamm did not respond.

    A request that was too large for the transport of either side becomes a RequestTooLargeError.
    """
    if call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and (found := _TOO_LARGE.search(call.details() or "")):
        return RequestTooLargeError(address, int(found["size"]), int(found["limit"]))
    status = rpc_status.from_call(call)
    details = () if status is None else status.details
    wrong = BadRequest()
    for detail in details:
        detail.Unpack(wrong)
    for detail in details:
        info = ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            known = ErrorCode.__members__.get(info.reason, ErrorCode.UNKNOWN_SERVER_ERROR)
            if known is ErrorCode.THROTTLING_QUOTA_EXCEEDED:
                return PeerBusyError(address, status.message)
            return ApiError(
                known,
                status.message,
                field=info.metadata.get("field"),
                value=info.metadata.get("value"),
                leader_address=info.metadata.get("leader_address"),
                violations=[FieldViolation(v.field, v.description) for v in wrong.field_violations],
            )
    return _without_answer(call, address)


def _without_answer(call: grpc.aio.AioRpcError, address: str) -> PeerUnreachableError:
    reason = _short_reason(call)
    if call.code() is grpc.StatusCode.UNIMPLEMENTED:
        return PeerTooOldError(address, reason)
    if reason == _UNRESOLVABLE:
        return UnresolvableHostError(address, reason)
    if reason == _REFUSED:
        return ConnectionRefusedByHostError(address, reason)
    if reason in (_NO_TLS, _OTHER_NAME) or reason.startswith(_UNTRUSTED):
        return TlsFailedError(address, reason)
    was_sent = reason not in _UNSENT.values() and not reason.startswith(_HANDSHAKE)
    return (PeerUnreachableError if was_sent else PeerNotConnectedError)(address, reason)


def _short_reason(call: grpc.aio.AioRpcError) -> str:
    """Say why there was no answer: gRPC's text, without the addresses and layers that it repeats."""
    details = call.details() or ""
    if call.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return "timed out"
    if (known := next((reason for text, reason in _REASONS.items() if text in details), None)) is not None:
        return known
    if (handshake := _HANDSHAKE_ERROR.search(details)) is not None:
        return f"{_HANDSHAKE}: {why_not_accepted(handshake['why'])}"
    return f"{call.code().name}: {details}"
