"""Kafka's message definitions as data: `schemas/*.json`, written by `make_schemas.py` from Kafka's own.

The keys are Kafka's (`clients/src/main/resources/common/message/README.md` in its sources says what each means).
"""

from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from cluster.model.broker import ZERO_TOPIC_ID

_T = TypeVar("_T")

SCHEMAS: Final = Path(__file__).with_name("schemas")
APIS: Final = Path(__file__).with_name("apis.json")

NUMBER_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}
"""Types of a fixed size, and the format character of `struct` for each."""
SIMPLE_TYPES: Final = frozenset({*NUMBER_FORMATS, "string", "bytes", "records", "uuid"})


class Versions:
    """A range of versions, both ends inclusive; empty if `first` is after `last`."""

    __slots__ = ("first", "last")

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last

    @classmethod
    def parse(cls, text: str) -> "Versions":
        """Parse `2`, `0-4`, `3+` or `none`."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), _LAST)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.last == _LAST:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


_LAST: Final = 2**15 - 1
NO_VERSIONS: Final = Versions(0, -1)


class Field(Struct, frozen=True, rename="camel"):
    """One field. `fields`: those of its struct, where that is defined in place."""

    name: str
    type: str
    versions: Versions
    nullable_versions: Versions = NO_VERSIONS
    tagged_versions: Versions = NO_VERSIONS
    flexible_versions: Versions | None = None
    """Where it differs from the message's."""
    tag: int | None = None
    default: Any = None
    ignorable: bool = False
    map_key: bool = False
    entity_type: str | None = None
    fields: "tuple[Field, ...]" = ()

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        """The type, or that of each element of an array."""
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        """Whether it is a struct, or an array of them."""
        return self.element_type not in SIMPLE_TYPES

    @property
    def default_value(self) -> object:
        """The default in Python's terms; `()` for an array, `{}` for a struct unless it is null."""
        # A null default is written as the text "null"; records have no other.
        if self.default == "null" or self.type == "records":
            return None
        if self.is_array or self.is_struct:
            return () if self.is_array else {}
        if self.type == "bool":
            return self.default in (True, "true")
        if self.type in NUMBER_FORMATS:
            return _number(self.default or 0, is_float=self.type == "float64")
        return {"uuid": ZERO_TOPIC_ID, "bytes": b""}.get(self.type, self.default or "")


def _number(default: str | float, *, is_float: bool) -> float:
    """Kafka writes numbers as numbers or as text, also in hexadecimal."""
    if is_float:
        return float(default)
    return int(default, 0) if isinstance(default, str) else int(default)


class StructSchema(Struct, frozen=True):
    """A struct: the whole message, or a part of it."""

    name: str
    fields: tuple[Field, ...]


class MessageSchema(Struct, frozen=True, rename="camel"):
    """One message. `api_key` is None for headers."""

    name: str
    type: str
    valid_versions: Versions
    flexible_versions: Versions
    fields: tuple[Field, ...]
    common_structs: tuple[StructSchema, ...] = ()
    api_key: int | None = None

    def structs(self) -> dict[str, StructSchema]:
        """Every struct by its name, each after those it consists of; the message itself is last."""
        found: dict[str, StructSchema] = {}
        common = {struct.name: struct for struct in self.common_structs}

        def add(struct: StructSchema) -> None:
            for field in struct.fields:
                if field.is_struct and field.element_type not in found:
                    add(common.get(field.element_type) or StructSchema(field.element_type, field.fields))
            found[struct.name] = struct

        add(StructSchema(self.name, self.fields))
        return found


class ApiVersions(Struct, frozen=True, rename="camel"):
    """The versions of one API of Kafka's brokers, whether its messages are here or not. `name`: as `LeaderAndIsr`."""

    api_key: int
    name: str
    valid_versions: Versions
    flexible_versions: Versions


def _decoded(file: Path, type_: type[_T]) -> _T:
    return msgspec.json.decode(file.read_bytes(), type=type_, dec_hook=lambda _, text: Versions.parse(text))


@cache
def load_apis() -> dict[int, ApiVersions]:
    """The APIs that clients may ask brokers in ZooKeeper mode for, by their keys."""
    return {api.api_key: api for api in _decoded(APIS, tuple[ApiVersions, ...])}


@cache
def load_schema(name: str) -> MessageSchema:
    """The definition of a message by its name, e.g. `LeaderAndIsrRequest`."""
    return _decoded(SCHEMAS / f"{name}.json", MessageSchema)


@cache
def has_error_code(name: str, version: int) -> bool:
    """Whether this version of a response has an error for the whole request. All that do are kept."""
    kept = (SCHEMAS / f"{name}.json").exists()
    return kept and any(f.name == "ErrorCode" and version in f.versions for f in load_schema(name).fields)


def schema_names() -> list[str]:
    """The names of all messages, in alphabetical order."""
    return sorted(file.stem for file in SCHEMAS.glob("*.json"))
