"""Example values of every message of Kafka's protocol, in Python and as the JSON that Kafka's converters read."""

import base64
from struct import calcsize
from typing import Any
from zlib import crc32

from cluster.kafka_wire.apis import KafkaApi, struct_type
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages import MODULES
from cluster.kafka_wire.names import snake_case
from cluster.kafka_wire.schema import NUMBER_FORMATS, Field, MessageSchema, StructSchema, load_schema, schema_names
from cluster.model.broker import TopicId

EVERY_VERSION = [
    (name, version)
    for name in schema_names()
    for version in range(load_schema(name).valid_versions.first, load_schema(name).valid_versions.last + 1)
]
"""Names of messages, each with one of its versions."""


def has_messages(called: KafkaApi) -> bool:
    """Whether klamm itself reads or writes requests and responses of the API."""
    return {f"{called.name}Request", f"{called.name}Response"} <= MODULES.keys()


def full_example(name: str, version: int) -> Message:
    """The message with values in all fields of the version that are not their defaults."""
    return _Examples(load_schema(name), version, is_full=True).struct(name)


def empty_example(name: str, version: int) -> Message:
    """The message with null wherever the version permits it, empty arrays, and other values as in `full_example`."""
    return _Examples(load_schema(name), version, is_full=False).struct(name)


def as_json(message: Message, version: int) -> Any:
    """The message as Kafka's `…DataJsonConverter` has it."""
    structs = load_schema(message.SCHEMA).structs().values()
    (fields,) = (s.fields for s in structs if struct_type(message.SCHEMA, s.name) is type(message))
    return {
        field.name[0].lower() + field.name[1:]: _json_value(getattr(message, snake_case(field.name)), version)
        for field in fields
        if version in field.versions
    }


def _json_value(value: Any, version: int) -> Any:
    match value:
        case Message():
            return as_json(value, version)
        case tuple():
            return [_json_value(element, version) for element in value]
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return value


class _Examples:
    def __init__(self, schema: MessageSchema, version: int, *, is_full: bool) -> None:
        self._schema, self._version, self._is_full = schema, version, is_full
        self._structs: dict[str, StructSchema] = schema.structs()

    def struct(self, name: str, seed: str = "") -> Message:
        fields = [field for field in self._structs[name].fields if self._version in field.versions]
        values = {snake_case(field.name): self._field(field, f"{seed}{name}.{field.name}") for field in fields}
        return struct_type(self._schema.name, name)(**values)

    def _field(self, field: Field, seed: str) -> Any:
        if not self._is_full and self._version in field.nullable_versions:
            return None
        if field.is_array:
            count = 2 if self._is_full else 0
            return tuple(self._one(field, f"{seed}[{number}]") for number in range(count))
        value = self._one(field, seed)
        return self._one(field, f"{seed}, another") if value == field.default_value else value

    def _one(self, field: Field, seed: str) -> Any:
        kind, number = field.element_type, crc32(seed.encode())
        if field.is_struct:
            return self.struct(kind, seed)
        if kind == "bool":
            return field.default_value is False if not field.is_array else number % 2 == 0
        if kind == "float64":
            return number / 256
        if kind in NUMBER_FORMATS:
            return _number(kind, number)
        if kind == "uuid":
            return TopicId(base64.urlsafe_b64encode(number.to_bytes(4, "big") * 4).decode()[:22])
        text = f"{field.name}-é-{number % 1000}"
        return text if kind == "string" else text.encode()


def _number(kind: str, number: int) -> int:
    """A number that needs all bytes of its type; negative as often as not, where it can be."""
    bits = 8 * calcsize(f">{NUMBER_FORMATS[kind]}")
    value = number * 0x1_0000_0001 >> 64 - bits
    return value if kind.startswith("u") or value < 2 ** (bits - 1) else value - 2**bits
