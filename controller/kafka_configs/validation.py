"""Checks the overrides of a topic as a release of Kafka does, with its messages.

Source: Kafka LogConfig.validate, ConfigDef.parse and its validators.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct

from controller.kafka_configs.tables import TopicConfigKey, TopicConfigTable, topic_config_table

_INTEGER: Final = re.compile(r"[+-]?\d+")
_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)")
_BITS: Final = {"short": 16, "int": 32, "long": 64}
_REPLICA: Final = re.compile(r"([0-9]+:[0-9]+)?")
_RANGE_OR: Final = re.compile(r"\[(-?\d+),\.\.\.,(-?\d+)\] or (-?\d+)")
_LAG: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")


class TopicConfigRefusal(Struct, frozen=True):
    """An override that is refused, and Kafka's message (error code INVALID_CONFIG)."""

    key: str
    value: str
    message: str


class _RefusedError(ValueError):
    """Why a value is refused. `value`: as Kafka shows it, where that is not the override itself."""

    def __init__(self, why: str, value: object = None) -> None:
        super().__init__(why)
        self.value = value


def refused_topic_configs(configs: Mapping[str, str], release: str) -> list[TopicConfigRefusal]:
    """The overrides that this release refuses; the first is the one that Kafka would name. KeyError as for its table.

    Of tiered storage it is assumed that brokers have none.
    """
    table = topic_config_table(release)
    if not configs:
        return []
    names = {key.name for key in table.keys}
    unknown = [
        TopicConfigRefusal(name, configs[name], f"Unknown topic config name: {name}")
        for name in sorted(configs.keys() - names)
    ]
    refused = [*unknown, *_refused_values(configs, table)]
    return refused or [*_refused_together(configs, table)]


def _refused_values(configs: Mapping[str, str], table: TopicConfigTable) -> Iterator[TopicConfigRefusal]:
    for key in table.keys:
        if (value := configs.get(key.name)) is None:
            continue
        try:
            _validate(key, _PARSERS.get(key.type, str)(value.strip()), table)
        except _RefusedError as why:
            shown = value if why.value is None else why.value
            yield TopicConfigRefusal(key.name, value, f"Invalid value {shown} for configuration {key.name}: {why}")


def _refused_together(configs: Mapping[str, str], table: TopicConfigTable) -> Iterator[TopicConfigRefusal]:
    """Find what is refused because of other settings, each value being valid by itself."""
    least, most = (int(configs.get(key.name, key.default or "0")) for key in table.keys if key.name in _LAG)
    if least > most:
        message = f"conflict topic config setting {_LAG[0]} ({least}) > {_LAG[1]} ({most})"
        name = next(name for name in _LAG if name in configs)
        yield TopicConfigRefusal(name, configs[name], message)
    for name, message in table.refused:
        if configs.get(name, "").strip().lower() == "true":
            yield TopicConfigRefusal(name, configs[name], message)


def _integer(kind: str) -> Callable[[str], int]:
    bound = 2 ** (_BITS[kind] - 1)

    def parse(trimmed: str) -> int:
        # The length is checked first: Python takes long to convert a number of many digits.
        if _INTEGER.fullmatch(trimmed) and len(trimmed) < 100 and -bound <= int(trimmed) < bound:
            return int(trimmed)
        raise _RefusedError(f"Not a number of type {kind.upper()}")

    return parse


def _double(trimmed: str) -> float:
    if not _DOUBLE.fullmatch(trimmed):
        raise _RefusedError("Not a number of type DOUBLE")
    return float(trimmed.rstrip("fFdD") if trimmed[-1] in "fFdD" else trimmed)


def _boolean(trimmed: str) -> bool:
    if trimmed.lower() not in ("true", "false"):
        raise _RefusedError("Expected value to be either true or false")
    return trimmed.lower() == "true"


def _list(trimmed: str) -> list[str]:
    return re.split(r"\s*,\s*", trimmed) if trimmed else []


_PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    **{kind: _integer(kind) for kind in _BITS},
    "double": _double,
    "boolean": _boolean,
    "list": _list,
}


def _validate(key: TopicConfigKey, value: Any, table: TopicConfigTable) -> None:
    if key.least is not None and value < key.least:
        raise _RefusedError(f"Value must be at least {key.least:g}", _as_java(value))
    if key.most is not None and value > key.most:
        raise _RefusedError(f"Value must be no more than {key.most:g}", _as_java(value))
    if key.values is not None:
        for text in value if key.type == "list" else [value]:
            if text not in key.values:
                raise _RefusedError(f"String must be one of: {', '.join(key.values)}", text)
    if key.validator == "ThrottledReplicaListValidator":
        _validate_replicas(key, value)
    elif key.name == "message.format.version":
        _validate_format(value, table)
    elif found := _RANGE_OR.fullmatch(key.shown):
        least, most, other = map(int, found.groups())
        if value != other and not least <= value <= most:
            raise _RefusedError(f"Value must be between {least} and {most} or equal to {other}", value)


def _validate_replicas(key: TopicConfigKey, replicas: list[str]) -> None:
    """Validate as all but the oldest releases do, which let anything follow `*`."""
    if "".join(replicas).strip() != "*" and not all(_REPLICA.fullmatch(replica.strip()) for replica in replicas):
        raise _RefusedError(
            f"{key.name} must be the literal '*' or a list of replicas in the following format: {key.shown}",
            f"[{', '.join(replicas)}]",
        )


def _validate_format(version: str, table: TopicConfigTable) -> None:
    """A full version, `2.4-IV1`, or a release; what follows its second number (the third of 0.x) does not count."""
    significant = ".".join(version.split(".")[: 3 if version.startswith("0.") else 2])
    if significant not in table.formats:
        raise _RefusedError(table.unknown_format[0].replace("?", version), version)


def _as_java(number: float) -> str:
    """A number as Java prints it."""
    if isinstance(number, int) or number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    if math.isinf(number):
        return repr(number).replace("inf", "Infinity")
    digits, _, exponent = f"{Decimal(repr(number)).normalize():E}".partition("E")
    return f"{digits}{'' if '.' in digits else '.0'}E{int(exponent)}"
