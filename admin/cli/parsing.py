"""Parses the values of options: configs, brokers, partitions, files."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import typer

from cluster.config.files import read_file
from cluster.config.secret_keys import WHY_NOT_TYPED, is_secret_key
from cluster.model import bounds
from cluster.model.broker import BrokerId
from cluster.model.errors import ConfigError
from cluster.model.partition import TopicPartition
from cluster.requests.configs import DELETE_CONFIG, SET_CONFIG, AlterableConfig

_AGO: Final = re.compile(r"(?P<number>\d{1,9})(?P<unit>[smhd])")
_MS_OF_UNIT: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_configs(pairs: Sequence[str] | None) -> dict[str, str]:
    """Parse `KEY=VALUE` pairs, each key once. Raises BadParameter with all errors."""
    configs: dict[str, str] = {}
    errors: list[str] = []
    for pair in pairs if pairs is not None else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not key or not equals:
            errors.append(f"{pair!r}: must be KEY=VALUE")
        elif key in configs:
            errors.append(f"{key!r}: given more than once")
        elif is_secret_key(key):
            errors.append(f"{key}: {WHY_NOT_TYPED}")
        configs[key] = value
    if errors:
        raise typer.BadParameter("; ".join(errors), param_hint="--config")
    return configs


def alterations(configs: Mapping[str, str], deleted: Sequence[str]) -> tuple[AlterableConfig, ...]:
    """Make the alterations of one request from the keys to be set and the keys to be deleted."""
    return (
        *(AlterableConfig(key, SET_CONFIG, value) for key, value in configs.items()),
        *(AlterableConfig(key, DELETE_CONFIG) for key in deleted),
    )


def parse_assignment(text: str | None) -> dict[int, tuple[BrokerId, ...]]:
    """Parse `1:2:3,2:3:1`, the brokers of each partition from 0 on."""
    if text is None:
        return {}
    try:
        return {
            index: tuple(BrokerId(int(broker)) for broker in replicas.split(":"))
            for index, replicas in enumerate(text.split(","))
        }
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}: must be broker ids like 1:2:3,2:3:1, one group per partition", param_hint="--replica-assignment"
        ) from None


def parse_brokers(text: str) -> list[BrokerId]:
    """Parse `1,2,3`."""
    try:
        return [BrokerId(int(broker)) for broker in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r}: must be broker ids like 1,2,3", param_hint="--broker-list") from None


def parse_partition_names(names: Sequence[str]) -> list[TopicPartition]:
    """Parse names like `orders-0`, dropping duplicates. Raises BadParameter with all errors."""
    partitions: list[TopicPartition] = []
    errors: list[str] = []
    for name in names:
        topic, _, number = name.rpartition("-")
        partition = bounds.parse_number(bounds.PARTITION, number)
        if bounds.TOPIC_NAME.accepts(topic) and partition is not None:
            partitions.append(TopicPartition(topic, partition))
        else:
            errors.append(f"{name!r}: must be TOPIC-PARTITION, for example orders-0")
    if errors:
        raise typer.BadParameter("; ".join(errors))
    return list(dict.fromkeys(partitions))


def parse_since(text: str, now_ms: int, option: str = "--since") -> int:
    """Parse `10m` (before now) or a UTC time in ISO 8601 to ms since the Unix epoch. Raises BadParameter."""
    if match := _AGO.fullmatch(text):
        # Negative ones have a meaning of their own in ListOffsets.
        return max(0, now_ms - int(match["number"]) * _MS_OF_UNIT[match["unit"]])
    try:
        at = datetime.fromisoformat(text)
        return max(0, int((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000))
    except (ValueError, OverflowError):
        message = f"{text!r}: must be a time before now like 30s, 10m, 2h or 1d, or a UTC time like '2026-01-31 09:00'"
        raise typer.BadParameter(message, param_hint=option) from None


def by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    """Group partitions by topic, in the order in which the topics first come."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def read_input(file: Path) -> bytes:
    """Read a file, or standard input if it is named `-`. Raises ConfigError."""
    try:
        return read_file(file)
    except OSError as error:
        raise ConfigError([f"{file}: cannot be read: {error.strerror}"]) from error
