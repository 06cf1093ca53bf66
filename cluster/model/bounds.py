"""The table of bounds: what a name, an id, an epoch, a size or a count may be, whoever sent it.

Applied to every request (`cluster.rpc.request_bounds`), znode (`cluster.znodes`) and file before anything acts on it. A
bound is what Kafka accepts, or what its protocol and its znodes can carry; where neither has a limit, the table says
why klamm has one. BD-1
"""

import re
from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from cluster.model.errors import ErrorCode

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
LARGEST_BATCH: Final = 1 << 30
"""The most bytes of a decompressed batch that a broker can be allowed, and that a consumer accepts."""
_SHOWN_LENGTH: Final = 40
_SHOWN_BITS: Final = 128
_IN_ZNODES: Final = r"[^/\0-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]"
"""A character that ZooKeeper allows in the name of a znode."""


class Number(Struct, frozen=True):
    """A number from `minimum` to `maximum`, both inclusive. `code`: the error for one beyond them."""

    what: str
    minimum: int
    maximum: int
    source: str
    code: ErrorCode = ErrorCode.INVALID_REQUEST

    def accepts(self, value: object) -> bool:
        return isinstance(value, int) and self.minimum <= value <= self.maximum

    def accepts_all(self, values: Collection[int]) -> bool:
        """Whether every value is within the bounds; far cheaper than asking for each."""
        return not values or (self.minimum <= min(values) and max(values) <= self.maximum)

    @property
    def rule(self) -> str:
        return f"must be a number from {self.minimum} to {self.maximum}"


class Text(Struct, frozen=True):
    """A text of at most `longest` characters without NUL; `pattern` must match all of it."""

    what: str
    longest: int
    source: str
    pattern: str = r"[^\0\ud800-\udfff]*"
    code: ErrorCode = ErrorCode.INVALID_REQUEST
    rule: str = ""

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and len(value) <= self.longest and re.fullmatch(self.pattern, value) is not None

    def accepts_all(self, values: Iterable[str]) -> bool:
        return all(map(self.accepts, values))


class Count(Struct, frozen=True):
    """Says how many items a list may have. `distinct`: no item may be there twice."""

    what: str
    maximum: int
    source: str
    distinct: bool = False

    def accepts(self, items: Collection[object]) -> bool:
        return len(items) <= self.maximum and (not self.distinct or len(set(items)) == len(items))

    @property
    def rule(self) -> str:
        return f"must have at most {self.maximum} items" + (", none of them twice" if self.distinct else "")


class Depth(Struct, frozen=True):
    """How deep brackets of a document may be nested."""

    what: str
    maximum: int
    source: str


Bound = Number | Text


# Names

TOPIC_NAME: Final = Text(
    "topic name",
    249,
    "Topic.validate; the directory of a partition has at most 255 characters",
    r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]+",
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    "must be 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-', and not '.' or '..'",
)
TOPIC_NAME_OR_NONE: Final = Text(
    "topic name, empty for none", 249, TOPIC_NAME.source, f"({TOPIC_NAME.pattern})?", TOPIC_NAME.code, TOPIC_NAME.rule
)
TOPIC_ID: Final = Text(
    "topic id", 22, "Uuid; KIP-516", r"[A-Za-z0-9_-]{22}", rule="must be 22 characters of URL-safe base64"
)
TEXT: Final = Text("text", INT16_MAX, "STRING of Kafka's protocol", rule="must have at most 32767 characters, none NUL")
EVENT_NAME: Final = Text(
    "name of an event, of which 64 characters are recorded", 1 << 27, "klamm", rule="must have no NUL"
)
USER_NAME: Final = Text(
    "name of a user, refused with an error of its own if no znode can have it",
    1 << 27,
    "klamm",
    r"(?s:.*)",
    rule="must be a text",
)
HOST: Final = Text(
    "host of an address", 255, "RFC 1035", r"[^\s\0-\x1f\ud800-\udfff]*", rule="must be a host name or an address"
)
LISTENER: Final = Text(
    "listener name", 249, "EndPoint", r"[^\s\0-\x1f\ud800-\udfff/:]*", rule="must be a name without blanks, '/' and ':'"
)
CLUSTER_ID: Final = Text(
    "cluster id", 249, "meta.properties: one line", r"[!-~]+", rule="must be 1 to 249 printable characters of ASCII"
)
ZNODE_NAME: Final = Text(
    "name of a config entity",
    1024,
    "PathUtils.validatePath of ZooKeeper",
    rf"(?!\.{{1,2}}(/|\Z)){_IN_ZNODES}+(/(?!\.{{1,2}}(/|\Z)){_IN_ZNODES}+)*",
    rule="must be a path of ZooKeeper without empty parts, '.', '..' and control characters",
)
CURSOR: Final = Text(
    "cursor of a stream", 30, "klamm", r"([0-9]{1,10}-[0-9]{1,19})?", rule="must be the cursor of an earlier response"
)

# Heads of state-change logs

LOG_NODE: Final = Text(
    "node of a state-change log",
    249,
    "klamm",
    r"(controller|broker)-[0-9]{1,10}",
    rule="must be controller-<id> or broker-<id>",
)
LOG_INCARNATION: Final = Text(
    "incarnation of a state-change log",
    40,
    "klamm",
    r"[0-9]{13}\.[0-9]{1,10}",
    rule="must be <start in ms, 13 digits>.<process id>",
)
LOG_DIGEST: Final = Text(
    "digest of a line", 64, "SHA-256", r"[0-9a-f]{64}", rule="must be 64 characters of 0-9 and a-f"
)
LOG_SEQUENCE: Final = Number("number of a line", 0, INT64_MAX - 1, "klamm")
BOOT_ID: Final = Text(
    "boot of a machine",
    64,
    "/proc/sys/kernel/random/boot_id",
    r"[!-~]*",
    rule="must be at most 64 printable characters",
)

# Ids and numbers

BROKER_ID: Final = Number("broker or controller id", 0, INT32_MAX, "KafkaConfig broker.id")
BROKER_ID_OR_NONE: Final = Number("broker id, -1 for none", -1, INT32_MAX, "LeaderAndIsr.NoLeader")
LEADER: Final = Number("leader, -1 for none, -2 during deletion", -2, INT32_MAX, "LeaderAndIsr.LeaderDuringDelete")
FETCHER_ID: Final = Number("replica id of a fetch", -3, INT32_MAX, "FetchRequest.FUTURE_LOCAL_REPLICA_ID")
PARTITION: Final = Number("partition number", 0, INT32_MAX, "TopicPartition")
PORT: Final = Number("port", -1, 65_535, "EndPoint; -1 where a listener has none")
INT8_CODE: Final = Number("choice", -128, 127, "INT8 of Kafka's protocol; unknown ones are answered by the handler")
INT32: Final = Number("number of a caller", -INT32_MAX - 1, INT32_MAX, "INT32 of Kafka's protocol")
INT64: Final = Number("offset or time of a caller", -INT64_MAX - 1, INT64_MAX, "INT64 of Kafka's protocol")
RECOVERY_STATE: Final = Number("leader recovery state", 0, 1, "LeaderRecoveryState")
EVENT_ID: Final = Number("number of an event", 0, INT64_MAX, "klamm")
FEATURE_LEVEL: Final = Number("level of a feature", 0, INT16_MAX, "SupportedVersionRange")

# Epochs and versions

CONTROLLER_EPOCH: Final = Number("controller epoch", -1, INT32_MAX, "KafkaController.InitialControllerEpoch")
LEADER_EPOCH: Final = Number("leader epoch of a leadership", -1, INT32_MAX, "LeaderAndIsrPartitionState")
LEADER_EPOCH_OR_NONE: Final = Number(
    "leader epoch, -1 for any, -2 during deletion", -2, INT32_MAX, "LeaderAndIsr.EpochDuringDelete"
)
LEADER_EPOCH_IN_ZNODE: Final = Number(
    "leader epoch of a state znode", 0, INT32_MAX - 1, "the next election raises it by one"
)
EPOCH_OF_BATCH: Final = Number("leader epoch of a batch", 0, INT32_MAX, "LeaderEpochFileCache")
PARTITION_EPOCH: Final = Number("partition epoch", -1, INT32_MAX, "version of a znode")
BROKER_EPOCH: Final = Number("broker epoch, -1 for unknown", -1, INT64_MAX, "czxid of a registration")
OFFSET: Final = Number("offset in a log", 0, INT64_MAX, "RecordBatch")

# Sizes and counts

BYTES: Final = Number("bytes of a record set", 0, INT32_MAX, "BYTES of Kafka's protocol")
NEW_PARTITIONS: Final = Number(
    "number of partitions of a new topic (-1 for the default)",
    -INT32_MAX - 1,
    200_000,
    "the most partitions of a cluster with ZooKeeper; a topic znode of more exceeds ZooKeeper's 1 MiB",
    ErrorCode.INVALID_PARTITIONS,
)
REPLICATION_FACTOR: Final = Number(
    "replication factor (-1 for the default)",
    -INT16_MAX - 1,
    INT16_MAX,
    "INT16 of Kafka's protocol",
    ErrorCode.INVALID_REPLICATION_FACTOR,
)
REPLICAS_OF_CALL: Final = Number(
    "sum over the partitions of one call of the replicas to be placed",
    0,
    50_000,
    "klamm: the controller handles nothing else meanwhile; five times the 10,000 partitions of a call to a KRaft "
    "controller (ReplicationControlManager.MAX_PARTITIONS_PER_BATCH)",
    ErrorCode.POLICY_VIOLATION,
)
PARTITIONS: Final = Count("partitions of a topic", 200_000, NEW_PARTITIONS.source)
REPLICAS: Final = Count(
    "replicas or ISR of a partition", 250, "klamm: the work of a failover grows with its square", distinct=True
)
PRODUCER_ID: Final = Number("producer id", 0, INT64_MAX, "ProducerIdsBlock")
ITEMS: Final = Count("items of a list", 1_000_000, "five times the partitions of a cluster")
CLIENT_ITEMS: Final = Count("items of a list in a request of a client", 50_000, "klamm: 10 to 20 us for each")
FILE_BYTES: Final = Number("bytes of a file with settings or partitions", 0, 64 << 20, "klamm")
NESTING: Final = Depth(
    "nesting of JSON and TOML in znodes and files",
    1000,
    "StreamReadConstraints of Jackson; kept by the recursion limit of the decoders, whose error counts as malformed",
)


TABLE: Final[tuple[Bound | Count | Depth, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Number | Text | Count | Depth)
)


def parse_number(bound: Number, digits: str) -> int | None:
    """The number that a name consists of, written as klamm writes it; None if it is no such number within the bound."""
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(bound.maximum))):
        return None
    number = int(digits)
    return number if bound.accepts(number) and str(number) == digits else None


def shortened(value: object) -> str:
    """The value for a message of one line: at most some 40 characters of it."""
    match value:
        case str():
            text = ascii(value[: _SHOWN_LENGTH + 1])
        case int() if value.bit_length() > _SHOWN_BITS:
            # Writing out a number of thousands of digits is refused by Python.
            return f"a number of {value.bit_length()} bits"
        case tuple() | list():
            text = f"[{', '.join(map(shortened, value[:_SHOWN_LENGTH]))}]"
        case _:
            text = repr(value)
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…"


def why_not(bound: Bound | Count, value: object) -> str:
    """Say `VALUE: the WHAT must be …`, why the bound does not accept a value."""
    return f"{shortened(value)}: the {bound.what} {bound.rule}"
