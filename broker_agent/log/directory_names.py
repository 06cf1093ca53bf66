"""Names in a log directory: of partitions (current, being deleted, or being copied), and of files of an offset."""

from enum import Enum
from typing import Final, NamedTuple

from broker_agent.log.batch_check import OFFSET_MAX
from cluster.model import bounds
from cluster.model.broker import Offset
from cluster.model.errors import ErrorCode, LogAppendError
from cluster.model.partition import TopicPartition

MAX_NAME_LENGTH: Final = 255
SWAP_MARKER: Final = "swap-in-progress"
"""An empty file in the directory of a copy that is about to take the place of the current log: while it is there, a
second directory of the partition is what it replaces, or has replaced.
"""
_UNIQUE_LENGTH: Final = 32  # hex digits
_OFFSET_DIGITS: Final = 20


class DirectoryKind(Enum):
    """By Kafka's suffixes. CURRENT is served, DELETED is being deleted, FUTURE is a copy of a current one in another
    log directory, STRAY is left alone.
    """

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


def future_name(topic_partition: TopicPartition, unique: str) -> str:
    """The directory name of the copy of a log; `unique`: 32 hex digits. It may be longer than MAX_NAME_LENGTH.

    Source: Kafka LocalLog.logFutureDirName.
    """
    return f"{topic_partition}.{unique}-{DirectoryKind.FUTURE.value}"


def fits_future_name(topic_partition: TopicPartition) -> bool:
    """Whether a partition can be copied to another directory: the name of the copy is not too long (R11.8)."""
    return len(future_name(topic_partition, "0" * _UNIQUE_LENGTH)) <= MAX_NAME_LENGTH


def offset_name(offset: Offset) -> str:
    """The name, without suffix, of a file that belongs to an offset: 20 digits, so that names sort like offsets."""
    return f"{offset:0{_OFFSET_DIGITS}d}"


def parse_offset_name(name: str) -> Offset | None:
    """The offset of such a name, given without its suffix; None for any other name."""
    if len(name) != _OFFSET_DIGITS or not (name.isascii() and name.isdigit()) or int(name) > OFFSET_MAX:
        return None
    return Offset(int(name))
