"""Any values of Kafka's messages, made from their schemas, for hypothesis."""

import base64
from struct import calcsize
from typing import Any

from hypothesis import strategies as st

from cluster.kafka_wire.apis import struct_type
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.names import snake_case
from cluster.kafka_wire.schema import NUMBER_FORMATS, Field, load_schema
from cluster.model.broker import TopicId

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(["", "a" * 130, "é" * 16_383])
_BYTES = st.binary(max_size=20) | st.just(bytes(20_000))
_TOPIC_IDS = st.binary(min_size=16, max_size=16).map(lambda data: TopicId(base64.urlsafe_b64encode(data).decode()[:22]))


def messages(name: str, version: int) -> st.SearchStrategy[Message]:
    """A message with any values in the fields that the version has; some fields have their defaults."""
    return structs(name, name, version)


def structs(message: str, name: str, version: int) -> st.SearchStrategy[Message]:
    fields = [field for field in load_schema(message).structs()[name].fields if version in field.versions]
    values = {snake_case(field.name): _values(message, field, version) for field in fields}
    return st.fixed_dictionaries({}, optional=values).map(lambda drawn: struct_type(message, name)(**drawn))


def _values(message: str, field: Field, version: int) -> st.SearchStrategy[Any]:
    found = _elements(message, field, version)
    if field.is_array:
        found = st.lists(found, max_size=3).map(tuple)
    return found | st.none() if version in field.nullable_versions else found


def _elements(message: str, field: Field, version: int) -> st.SearchStrategy[Any]:
    kind = field.element_type
    if field.is_struct:
        return structs(message, kind, version)
    if kind == "bool":
        return st.booleans()
    if kind == "float64":
        return st.floats(allow_nan=False)
    if kind in NUMBER_FORMATS:
        bits = 8 * calcsize(f">{NUMBER_FORMATS[kind]}")
        return (
            st.integers(0, 2**bits - 1)
            if kind.startswith("u")
            else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
    return {"uuid": _TOPIC_IDS, "string": _TEXTS}.get(kind, _BYTES)
