"""The small files of a log directory: their formats, and their atomic replacement.

Formats are Kafka's (OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile, BrokerMetadataCheckpoint,
CleanShutdownFileHandler), so that its tools can read them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple, TypeVar

import msgspec

from broker_agent.log.disk import Disk
from broker_agent.log.epoch_history import EpochEntry
from cluster.model import bounds
from cluster.model.bounds import Number, shortened, why_not
from cluster.model.broker import ZERO_TOPIC_ID, BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId
from cluster.model.partition import TopicPartition

HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
DAMAGED_REPLICAS: Final = "damaged-replica-checkpoint"
META_PROPERTIES: Final = "meta.properties"
CLEAN_MARKER: Final = ".kafka_cleanshutdown"
BOOT_ID: Final = "boot-id-checkpoint"
LOCK_FILE: Final = ".lock"

_VERSION: Final = "0"
_STEPS_OF_REPLACEMENT: Final = 3
_NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_T = TypeVar("_T")

_REMEDIES: Final = {
    HIGH_WATERMARKS: "restore the file, or delete it: high watermarks then rise again from the log start offsets",
    LOG_START_OFFSETS: "records that were deleted before their segments were may be read again; delete them again",
    RECOVERY_POINTS: "every log of the directory is checked from its start",
    CLEANER_OFFSETS: "the compacted logs of the directory are cleaned from their start",
    LEADER_EPOCHS: "the leader epochs are taken from the batches",
    DAMAGED_REPLICAS: "what it had is not reported any more; the state-change log has it (truncation, LogRecovery)",
    BOOT_ID: "without a clean shutdown the replicas of the directory count as if the power had failed",
    PARTITION_METADATA: "restore the file, or move the partition's directory away, so that it is replicated again",
    META_PROPERTIES: "restore the file: version=0, broker.id and cluster.id, one a line",
}


class MalformedCheckpointError(OSError):
    """The content of a checkpoint is malformed; handled like an I/O error of what the file belongs to."""


def read_checkpoint(disk: Disk, path: str, decode: Callable[[bytes | None], _T]) -> _T:
    """The decoded content of a file. Raises MalformedCheckpointError, which names the file and the remedy, and OSError.

    Blocks on disk I/O.
    """
    content = disk.read_file(path)
    try:
        return decode(content)
    except MalformedCheckpointError as error:
        name = path.rpartition("/")[2]
        raise MalformedCheckpointError(f"{path} is malformed ({error}): {_REMEDIES[name]}") from None


def write_atomically(disk: Disk, directory: str, name: str, content: bytes) -> None:
    """Replace a file so that neither a reader nor a crash sees part of it. Blocks on disk I/O."""
    temporary = f"{directory}/{name}.tmp"
    disk.remove_file(temporary)
    file = disk.open_file(temporary)
    try:
        file.append([content])
        file.flusher()()
    finally:
        file.close()
    disk.rename(temporary, f"{directory}/{name}")
    disk.sync_directory(directory)


class Replacement(NamedTuple):
    """A file to be replaced as `write_atomically` does. `flush_before`: a file beside it, to be durable before."""

    directory: str
    name: str
    content: bytes
    flush_before: str | None = None


def write_together(disk: Disk, replacements: Sequence[Replacement]) -> list[Exception | None]:
    """Replace files as `write_atomically` does, each flush begun for all before the first is waited for.

    Returns the error of each. Blocks on disk I/O.
    """
    steps = [_replace(disk, replacement) for replacement in replacements]
    errors: list[Exception | None] = [None] * len(steps)
    for _ in range(_STEPS_OF_REPLACEMENT):
        for number, step in enumerate(steps):
            if errors[number] is None:
                try:
                    next(step, None)
                except OSError as error:
                    errors[number] = error
    return errors


def _replace(disk: Disk, replacement: Replacement) -> Iterator[None]:
    """Write; then flush and rename; then flush the name. Others do the same step in between."""
    directory, name, content, before = replacement
    temporary = f"{directory}/{name}.tmp"
    disk.remove_file(temporary)
    with ExitStack() as files:
        file = disk.open_file(temporary)
        files.callback(file.close)
        file.append([content])
        to_flush = [file]
        if before is not None:
            to_flush.insert(0, disk.open_file(f"{directory}/{before}"))
            files.callback(to_flush[0].close)
        for each in to_flush:
            each.begin_write_back()
        yield
        for each in to_flush:
            each.flusher()()
    disk.rename(temporary, f"{directory}/{name}")
    yield
    disk.sync_directory(directory)


def write_unflushed(disk: Disk, directory: str, name: str, content: bytes, *, is_new: bool = False) -> None:
    """Write a file that is not there yet, so that no reader sees part of it. Until `flush_written` a power failure may
    leave nothing of it, or part. `is_new`: nobody reads in the directory yet. Blocks on disk I/O.
    """
    path = f"{directory}/{name}"
    temporary = path if is_new else f"{path}.tmp"
    if not is_new:
        disk.remove_file(temporary)
    file = disk.open_file(temporary)
    try:
        file.append([content])
    finally:
        file.close()
    if not is_new:
        disk.rename(temporary, path)


def flush_written(disk: Disk, directory: str, name: str) -> None:
    """Flush what `write_unflushed` has written, but for its name. Blocks on disk I/O."""
    file = disk.open_file(f"{directory}/{name}")
    try:
        file.flusher()()
    finally:
        file.close()


def encode_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    return encode_versioned_lines(f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items()))


def decode_offsets(content: bytes | None) -> dict[TopicPartition, Offset]:
    """Decode an offset checkpoint. Raises MalformedCheckpointError."""
    return {
        TopicPartition(_topic(topic), _number(partition, bounds.PARTITION)): Offset(_number(offset, bounds.OFFSET))
        for topic, partition, offset in _decode_lines(content, fields=3)
    }


def encode_epochs(entries: Iterable[EpochEntry]) -> bytes:
    return encode_versioned_lines(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def decode_epochs(content: bytes | None) -> list[EpochEntry]:
    """Decode a leader epoch checkpoint. Raises MalformedCheckpointError."""
    return [
        EpochEntry(LeaderEpoch(_number(epoch, bounds.EPOCH_OF_BATCH)), Offset(_number(start, bounds.OFFSET)))
        for epoch, start in _decode_lines(content, fields=2)
    ]


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {topic_id}".encode()


def decode_partition_metadata(content: bytes | None) -> TopicId | None:
    """The topic id; None for a missing or empty file. Raises MalformedCheckpointError."""
    if not content:
        return None
    values = _decode_properties(content, separator=":")
    if values.get("version") != _VERSION or not bounds.TOPIC_ID.accepts(values.get("topic_id")):
        raise MalformedCheckpointError(f"no version {_VERSION} with a topic_id: {content[:200]!r}")
    return TopicId(values["topic_id"])


def is_cut_partition_metadata(content: bytes) -> bool:
    """Whether this is what a power failure may leave of partition metadata that were not flushed."""
    whole, left = encode_partition_metadata(ZERO_TOPIC_ID), content.rstrip(b"\0")
    known = len(whole) - len(ZERO_TOPIC_ID)
    return len(content) <= len(whole) and len(left) < len(whole) and left[:known] == whole[: min(len(left), known)]


class MetaProperties(msgspec.Struct, frozen=True):
    """The cluster id and broker id that a log directory belongs to."""

    broker_id: BrokerId
    cluster_id: str


def encode_meta_properties(properties: MetaProperties) -> bytes:
    return f"version={_VERSION}\nbroker.id={properties.broker_id}\ncluster.id={properties.cluster_id}\n".encode()


def decode_meta_properties(content: bytes | None) -> MetaProperties | None:
    """Decode `meta.properties`; None for a missing or empty file. Raises MalformedCheckpointError."""
    if not content:
        return None
    values = _decode_properties(content, separator="=")
    if values.get("version") != _VERSION or not bounds.CLUSTER_ID.accepts(values.get("cluster.id")):
        raise MalformedCheckpointError(f"no version {_VERSION} with a cluster.id: {content[:200]!r}")
    return MetaProperties(BrokerId(_number(values.get("broker.id", ""), bounds.BROKER_ID)), values["cluster.id"])


def encode_clean_marker(broker_epoch: BrokerEpoch) -> bytes:
    return msgspec.json.encode({"version": 0, "brokerEpoch": broker_epoch})


def encode_boot_id(boot_id: str) -> bytes:
    return encode_versioned_lines([boot_id] if boot_id else [])


def decode_boot_id(content: bytes | None) -> str:
    """The boot id; empty without a file, or where the boot was not known. Raises MalformedCheckpointError."""
    lines = decode_versioned_lines(content)
    boot_id = lines[0] if lines else ""
    if len(lines) > 1 or not bounds.BOOT_ID.accepts(boot_id):
        raise MalformedCheckpointError(why_not(bounds.BOOT_ID, "\n".join(lines)))
    return boot_id


def encode_versioned_lines(lines: Iterable[str]) -> bytes:
    """The version, the number of lines, and the lines."""
    entries = list(lines)
    return "\n".join([_VERSION, str(len(entries)), *entries, ""]).encode()


def decode_versioned_lines(content: bytes | None) -> list[str]:
    """The lines; none of a missing or empty file. Raises MalformedCheckpointError."""
    if not content:
        return []
    lines = content.decode("utf-8", errors="replace").splitlines()
    if len(lines) < 2 or lines[0] != _VERSION or _number(lines[1], bounds.OFFSET) != len(lines) - 2:
        raise MalformedCheckpointError(f"unknown version or wrong count: {content[:200]!r}")
    return lines[2:]


def _decode_lines(content: bytes | None, *, fields: int) -> Sequence[list[str]]:
    rows = [line.split(" ") for line in decode_versioned_lines(content)]
    for row in rows:
        if len(row) != fields:
            raise MalformedCheckpointError(f"malformed line: {shortened(' '.join(row))}")
    return rows


def _decode_properties(content: bytes, *, separator: str) -> dict[str, str]:
    lines = content.decode("utf-8", errors="replace").splitlines()
    pairs = [line.partition(separator) for line in lines if line.strip() and not line.startswith("#")]
    return {key.strip(): value.strip() for key, _, value in pairs}


def _number(text: str, bound: Number) -> int:
    if _NUMBER.fullmatch(text) is None or not bound.accepts(number := int(text)):
        raise MalformedCheckpointError(why_not(bound, text))
    return number


def _topic(name: str) -> str:
    if not bounds.TOPIC_NAME.accepts(name):
        raise MalformedCheckpointError(why_not(bounds.TOPIC_NAME, name))
    return name
