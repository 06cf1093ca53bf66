"""Names in a log directory: of partitions (current, or being deleted), and of files that belong to an offset."""

from enum import Enum
from typing import Final, NamedTuple

from broker_agent.log.batch_check import OFFSET_MAX
from cluster.model import bounds
from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode, LogAppendError
from cluster.model.partition import TopicPartition

MAX_NAME_LENGTH: Final = 255
_UNIQUE_LENGTH: Final = 32  # hex digits
_OFFSET_DIGITS: Final = 20


class DirectoryKind(Enum):
    """By Kafka's suffixes. CURRENT is served, DELETED is being deleted, the others are left alone."""

    CURRENT = ""
    DELETED = "delete"
    FUTURE = "future"
    STRAY = "stray"


class DirectoryName(NamedTuple):
    topic_partition: TopicPartition
    kind: DirectoryKind


def parse_directory_name(name: str) -> DirectoryName | None:
    """Parse the name of a subdirectory of a log directory; None if no partition within the bounds is called so.

    The partition number follows the last hyphen of `<topic>-<p>`. Source: Kafka LocalLog.parseTopicPartitionName.
    """
    kind, stem = DirectoryKind.CURRENT, name
    for candidate in (DirectoryKind.DELETED, DirectoryKind.FUTURE, DirectoryKind.STRAY):
        if name.endswith(f"-{candidate.value}"):
            stem, dot, unique = name.removesuffix(f"-{candidate.value}").rpartition(".")
            kind = candidate
            if not dot or len(unique) != _UNIQUE_LENGTH or not set(unique) <= set("0123456789abcdef"):
                return None
    topic, hyphen, number = stem.rpartition("-")
    partition = bounds.parse_number(bounds.PARTITION, number)
    if not hyphen or partition is None or not bounds.TOPIC_NAME.accepts(topic):
        return None
    return DirectoryName(TopicPartition(topic, partition), kind)


def path_in(directory: str, topic_partition: TopicPartition) -> str:
    """The path of a partition's directory, directly below its log directory.

    Raises LogAppendError for a topic or partition beyond its bounds: whatever was asked, nothing outside of the log
    directory may be created, renamed or deleted. BD-3
    """
    topic, partition = topic_partition
    for bound, value, code in (
        (bounds.TOPIC_NAME, topic, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (bounds.PARTITION, partition, ErrorCode.INVALID_REQUEST),
    ):
        if not bound.accepts(value):
            raise LogAppendError(code, bounds.why_not(bound, value))
    return f"{directory}/{topic_partition}"


def deleted_name(topic_partition: TopicPartition, unique: str) -> str:
    """The directory name of a deleted log; the topic is shortened if the name would be too long.

    `unique`: 32 hex digits, so that the partition may be deleted several times before the files are removed.
    """
    suffix = f"-{topic_partition.partition}.{unique}-{DirectoryKind.DELETED.value}"
    return topic_partition.topic[: MAX_NAME_LENGTH - len(suffix)] + suffix


def offset_name(offset: Offset) -> str:
    """The name, without suffix, of a file that belongs to an offset: 20 digits, so that names sort like offsets."""
    return f"{offset:0{_OFFSET_DIGITS}d}"


def parse_offset_name(name: str) -> Offset | None:
    """The offset of such a name, given without its suffix; None for any other name."""
    if len(name) != _OFFSET_DIGITS or not (name.isascii() and name.isdigit()) or int(name) > OFFSET_MAX:
        return None
    return Offset(int(name))
