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
_NAMED_MAX: Final = 100
"""Errors that are named of one file."""

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


_ITEMS: Final[Mapping[type[Any], tuple[str, type[Any]]]] = {
    _TopicsFile: ("topics", _Topic),
    _MovesFile: ("partitions", _Move),
    _PartitionsFile: ("partitions", _Partition),
    _OffsetsFile: ("partitions", _PartitionOffset),
}
"""By the form of a file, the name of its list and the form of the items."""


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
    _refuse(errors)
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
    _refuse(errors)
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


class _Items(msgspec.Struct):
    """A file of any kind, its items not yet decoded."""

    topics: list[msgspec.Raw] = []
    partitions: list[msgspec.Raw] = []


def _decode(data: bytes, form: type[_T], source: str) -> _T:
    """Decode a file. Raises ConfigError with all errors of its form and of its topics' names."""
    try:
        decoded = msgspec.json.decode(data, type=form)
    except RecursionError as error:
        raise ConfigError([f"{source}: not a valid file: brackets are nested too deeply"]) from error
    except DECODE_ERRORS as error:
        errors = _errors_of_items(data, form) or [first_line(error)]
        _refuse([f"{source}: not a valid file: {why}" for why in errors])
    version = getattr(decoded, "version", VERSION)
    if version != VERSION:
        raise ConfigError([f"{source}: version {shortened(version)}: must be {VERSION}"])
    items: list[Any] = getattr(decoded, "topics", None) or getattr(decoded, "partitions", [])
    bad = dict.fromkeys(item.topic for item in items if not bounds.TOPIC_NAME.accepts(item.topic))
    _refuse([f"{source}: {why_not(bounds.TOPIC_NAME, topic)}" for topic in bad])
    return decoded


def _errors_of_items(data: bytes, form: type[Any]) -> list[str]:
    """Find what is wrong with each item, as the decoder of a whole file stops at the first; none if it is not that."""
    found: list[str] = []
    try:
        read = msgspec.json.decode(data, type=_Items)
    except (*DECODE_ERRORS, RecursionError):
        return found
    name, item_form = _ITEMS[form]
    for number, item in enumerate(getattr(read, name)):
        try:
            msgspec.json.decode(item, type=item_form)
        except DECODE_ERRORS as error:
            path, why = f"$.{name}[{number}]", first_line(error)
            found.append(why.replace("`$", f"`{path}") if "`$" in why else f"{why} - at `{path}`")
    return found


def _refuse(errors: list[str]) -> None:
    """Raise ConfigError if there are errors; it names a hundred."""
    more = len(errors) - _NAMED_MAX
    if errors:
        raise ConfigError(errors[:_NAMED_MAX] + ([f"and {more} more errors"] if more > 0 else []))
