"""Reads the JSON files of Kafka's tools: topics to move, reassignments, partitions to elect, offsets to delete to.

They are accepted unchanged; unknown keys are ignored. Source: Kafka ReassignPartitionsCommand,
LeaderElectionCommand, DeleteRecordsCommand.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec

from cluster.config.files import first_line
from cluster.model import bounds
from cluster.model.bounds import shortened, why_not
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import DECODE_ERRORS, ConfigError
from cluster.model.partition import TopicPartition
from cluster.requests.data import UP_TO_HIGH_WATERMARK

VERSION: Final = 1
ANY_DIRECTORY: Final = "any"
_T = TypeVar("_T")

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Topic(msgspec.Struct):
    topic: str


class _TopicsFile(msgspec.Struct):
    topics: list[_Topic]
    version: int = VERSION


class _Move(msgspec.Struct):
    topic: str
    partition: _Int32
    replicas: list[_Int32]
    log_dirs: list[str] | None = None


class _MovesFile(msgspec.Struct):
    partitions: list[_Move]
    version: int = VERSION


class _Partition(msgspec.Struct):
    topic: str
    partition: _Int32


class _PartitionsFile(msgspec.Struct):
    partitions: list[_Partition]
    version: int = VERSION


class _PartitionOffset(msgspec.Struct):
    topic: str
    partition: _Int32
    offset: _Int64


class _OffsetsFile(msgspec.Struct):
    partitions: list[_PartitionOffset]
    version: int = VERSION


def parse_topics(data: bytes, source: str) -> list[str]:
    """Read the topics of a topics-to-move file, each once. Raises ConfigError naming `source`."""
    return list(dict.fromkeys(t.topic for t in _decode(data, _TopicsFile, source).topics))


def parse_reassignment(data: bytes, source: str) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Read the target replicas of each partition. Raises ConfigError with all errors of the file."""
    moves: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    errors: list[str] = []
    for move in _decode(data, _MovesFile, source).partitions:
        tp = TopicPartition(move.topic, move.partition)
        if tp in moves:
            errors.append(f"{source}: {tp}: listed more than once")
        errors += [f"{source}: {tp}: {why}" for why in _errors(move)]
        moves[tp] = tuple(BrokerId(b) for b in move.replicas)
    if not moves:
        errors.append(f"{source}: partitions: must list at least one partition")
    if errors:
        raise ConfigError(errors)
    return moves


def parse_replica_dirs(data: bytes, source: str) -> dict[BrokerId, dict[TopicPartition, str]]:
    """Read the log directory of each replica of a reassignment file that names one, by broker. Raises ConfigError."""
    wanted: dict[BrokerId, dict[TopicPartition, str]] = {}
    for move in _decode(data, _MovesFile, source).partitions:
        for broker, directory in zip(move.replicas, move.log_dirs or (), strict=False):
            if directory != ANY_DIRECTORY:
                wanted.setdefault(BrokerId(broker), {})[TopicPartition(move.topic, move.partition)] = directory
    return wanted


def parse_partitions(data: bytes, source: str) -> list[TopicPartition]:
    """Read the partitions of an election file, each once. Raises ConfigError naming `source`."""
    partitions = _decode(data, _PartitionsFile, source).partitions
    if not partitions:
        raise ConfigError([f"{source}: partitions: must list at least one partition"])
    return list(dict.fromkeys(TopicPartition(p.topic, p.partition) for p in partitions))


def parse_offsets(data: bytes, source: str) -> dict[TopicPartition, Offset]:
    """Read the new log start offset of each partition. Raises ConfigError with all errors of the file."""
    offsets: dict[TopicPartition, Offset] = {}
    errors: list[str] = []
    for item in _decode(data, _OffsetsFile, source).partitions:
        tp = TopicPartition(item.topic, item.partition)
        if tp in offsets:
            errors.append(f"{source}: {tp}: listed more than once")
        if item.offset < UP_TO_HIGH_WATERMARK:
            errors.append(f"{source}: {tp}: offset {item.offset} must be at least -1, which means the high watermark")
        offsets[tp] = Offset(item.offset)
    if not offsets:
        errors.append(f"{source}: partitions: must list at least one partition")
    if errors:
        raise ConfigError(errors)
    return offsets


def reassignment_document(assignment: Mapping[TopicPartition, Iterable[BrokerId]]) -> dict[str, Any]:
    """Make the content of a reassignment file, with sorted partitions."""
    return {
        "version": VERSION,
        "partitions": [
            {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
            for tp, replicas in sorted(assignment.items())
        ],
    }


def _errors(move: _Move) -> list[str]:
    found = []
    if not move.replicas:
        found.append("replicas: must name at least one broker")
    if len(set(move.replicas)) < len(move.replicas):
        found.append(f"replicas {move.replicas}: a broker is listed more than once")
    if move.log_dirs is not None and len(move.log_dirs) != len(move.replicas):
        found.append(f"log_dirs {move.log_dirs}: must have one entry per replica of {move.replicas}")
    relative = [path for path in move.log_dirs or () if path != ANY_DIRECTORY and not path.startswith("/")]
    if relative:
        found.append(f"log_dirs {move.log_dirs}: must each be {ANY_DIRECTORY!r} or an absolute path")
    return found


def _decode(data: bytes, form: type[_T], source: str) -> _T:
    try:
        decoded = msgspec.json.decode(data, type=form)
    except RecursionError as error:
        raise ConfigError([f"{source}: not a valid file: brackets are nested too deeply"]) from error
    except DECODE_ERRORS as error:
        raise ConfigError([f"{source}: not a valid file: {first_line(error)}"]) from error
    version = getattr(decoded, "version", VERSION)
    if version != VERSION:
        raise ConfigError([f"{source}: version {shortened(version)}: must be {VERSION}"])
    items: list[Any] = getattr(decoded, "topics", None) or getattr(decoded, "partitions", [])
    bad = dict.fromkeys(item.topic for item in items if not bounds.TOPIC_NAME.accepts(item.topic))
    if bad:
        raise ConfigError([f"{source}: {why_not(bounds.TOPIC_NAME, topic)}" for topic in bad])
    return decoded
