"""The exceptions of klamm and the wire code of each.

Codes are Kafka's numbers. Expected outcomes are values with an `ErrorCode`; what is raised is either an environment
failure (`ClusterError`) or a bug (`AssertionError`).
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import msgspec
from msgspec import Struct

from cluster.model.exit_codes import ExitCode
from cluster.model.printable import printable

DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not what they should be: catch all of them wherever bytes come from others."""


_REFUSALS_NAMED: Final = 100


class ErrorCode(IntEnum):
    """Kafka's protocol error codes, those that klamm uses."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    UNKNOWN_TOPIC_ID = 100
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108


def known_code(number: int) -> ErrorCode:
    """The code with this number; UNKNOWN_SERVER_ERROR for one of Kafka's that has no name here."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


class ClusterError(Exception):
    """Base of all failures caused by the environment or a caller; `code` is the wire code."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


class ControllerMovedError(ClusterError):
    """Another controller was elected: a fenced write was refused, or this candidate is not active."""

    code = ErrorCode.STALE_CONTROLLER_EPOCH


class ZooKeeperError(ClusterError):
    """A ZooKeeper operation failed unexpectedly."""


class ZooKeeperUnreachableError(ZooKeeperError):
    """No connection to ZooKeeper within the connection timeout."""


class ZooKeeperAuthenticationError(ZooKeeperError):
    """ZooKeeper refused the credentials of this process."""


class ZooKeeperAccessError(ZooKeeperError):
    """The ACL of a znode does not permit the operation; it was set by another identity."""


class SessionExpiredError(ZooKeeperError):
    """The ZooKeeper session has expired; requests in flight may or may not have been applied."""


class OutcomeUnknownError(ZooKeeperError):
    """The connection was lost after a write was sent: it may or may not have been applied. Read again to find out."""


class MalformedZnodeError(ClusterError):
    """A znode's content is malformed. Carries path and content, for the log."""

    def __init__(self, path: str, data: bytes, why: str) -> None:
        super().__init__(f"malformed znode {path}: {why}: {data[:200]!r}")
        self.path, self.data, self.why = path, data, why


class StorageError(ClusterError):
    """An operation in a log directory failed, by an I/O error that took everything in it offline."""

    code = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, directory: str, why: str) -> None:
        super().__init__(f"log directory {directory}: {why}")
        self.directory, self.why = directory, why


class LogOperationError(StorageError):
    """An operation in a log directory failed for a reason of the process or of the request, such as too many open
    files or too long a name. Nothing of it was done; the directory stays in service, and a later attempt may succeed.
    """


class FullDirectoryError(LogOperationError):
    """There is no room for it: the log directory takes records again, by itself, when there is."""


class RecordError(Struct, frozen=True):
    """Why one record of a refused batch is invalid. `batch_index`: from 0."""

    batch_index: int
    batch_index_error_message: str


class LogAppendError(ClusterError):
    """A record set was refused and nothing of it was appended; `code` says why, `record_errors` which records.

    `meter`: the meter of BrokerTopicMetrics for this reason, where the code alone does not name it.
    """

    def __init__(
        self, code: ErrorCode, why: str, *, record_errors: tuple[RecordError, ...] = (), meter: str = ""
    ) -> None:
        super().__init__(f"{code.name}: {why}")
        self.code, self.why, self.record_errors, self.meter = code, why, record_errors, meter


class PeerUnreachableError(ClusterError):
    """A request to another node failed or timed out; it may or may not have been processed."""

    code = ErrorCode.NETWORK_EXCEPTION

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"{address}: {why}")
        self.address, self.why = address, why


class PeerNotConnectedError(PeerUnreachableError):
    """There is no connection to the other node; the request was not sent."""


class ConnectionRefusedByHostError(PeerNotConnectedError):
    """The host refused the connection: nobody listens at the address."""


class UnresolvableHostError(PeerNotConnectedError):
    """The host name in an address cannot be resolved."""


class TlsFailedError(PeerNotConnectedError):
    """No connection can be made with the settings of TLS, and certificates, that this side has: one of the two sides
    speaks no TLS, the other's certificate is refused, or its own has expired.
    """


class TlsMissingError(TlsFailedError):
    """The other side speaks TLS, and this side has no settings of it at all."""


class TlsRefusedError(PeerNotConnectedError):
    """The other side ended the handshake without a word: perhaps it refuses the certificate of this side."""


class ForeignProtocolError(PeerUnreachableError):
    """Whoever answers at the address is none of klamm's."""


class PeerRefusesError(PeerUnreachableError):
    """The other node takes no request of this one until a setting is changed; what was sent was not processed."""

    def __init__(self, address: str, code: ErrorCode, why: str) -> None:
        super().__init__(address, why)
        self.code = code


class PeerTooOldError(PeerUnreachableError):
    """The other node is of a release that does not know the request; nothing was processed."""

    code = ErrorCode.UNSUPPORTED_VERSION


class PeerBusyError(PeerUnreachableError):
    """A request was refused for lack of room; it was not processed. Later attempts may be."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class FieldViolation(Struct, frozen=True):
    """One invalid field of a request, as in google.rpc.BadRequest."""

    field: str
    description: str


class StoppingError(ClusterError):
    """The process is ending and starts nothing new."""

    code = ErrorCode.BROKER_NOT_AVAILABLE


class ApiError(ClusterError):
    """An administrative request, or one item of it, is refused; as a whole it becomes a gRPC status.

    `field` and `value`: the invalid field; `violations`: all invalid fields; `leader_address`: address of the active
    controller (NOT_CONTROLLER only).
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        field: str | None = None,
        value: object = None,
        leader_address: str | None = None,
        violations: Sequence[FieldViolation] = (),
    ) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code, self.message, self.field, self.value = code, message, field, value
        self.leader_address = leader_address
        self.violations = tuple(violations)
        if field is not None and not violations:
            self.violations = (FieldViolation(field, message),)


class RequestTooLargeError(ApiError):
    """A peer refused a request for its size, without processing it. `size` and `limit` in bytes."""

    def __init__(self, address: str, size: int, limit: int) -> None:
        super().__init__(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{address} takes requests of at most {limit} bytes (socket.request.max.bytes); this one has {size}",
        )
        self.size, self.limit = size, limit


def all_refusals(errors: Sequence[ApiError]) -> ApiError:
    """Join errors into one with the messages of all, or of a hundred; code, field and value are those of the first."""
    first, named = errors[0], errors[:_REFUSALS_NAMED]
    more = len(errors) - len(named)
    return ApiError(
        first.code,
        "; ".join([error.message for error in named] + ([f"and {more} more"] if more else [])),
        field=first.field,
        value=first.value,
        violations=[violation for error in named for violation in error.violations],
    )


class ConfigError(ClusterError):
    """All errors of a configuration, one line each: `field: value: why`. What they name may have any characters."""

    code = ErrorCode.INVALID_CONFIG

    def __init__(self, errors: list[str]) -> None:
        self.errors = [printable(error) for error in errors]
        super().__init__("\n".join(self.errors))


class StartupError(ClusterError):
    """A program cannot start for a reason the operator can fix; the message says how."""

    exit_code = ExitCode.REFUSED


class LogDirectoriesError(StartupError):
    """No log directory can be used, or none is left; the message has the error of each."""

    exit_code = ExitCode.DISK
