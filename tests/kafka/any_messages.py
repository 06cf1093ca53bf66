"""Any request of Kafka's protocol, and its answer, by the definitions in the jar of Kafka's clients.

Among them are those that klamm itself has no use for.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import msgspec

from cluster.kafka_wire.codec import decode_prefix, encode
from cluster.kafka_wire.decoder_source import DECODER_NAMES, decoder_source
from cluster.kafka_wire.encoder_source import ENCODER_NAMES, encoder_source
from cluster.kafka_wire.layout import layouts_of
from cluster.kafka_wire.make_schemas import definitions
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.connections import RequestHeader, ResponseHeader
from cluster.kafka_wire.names import snake_case
from cluster.kafka_wire.primitives import ElementsLeft
from cluster.kafka_wire.schema import Field, MessageSchema, Versions

_ELEMENTS_MAX: Final = 1_000_000


class AnyMessages:
    """Writes requests and reads answers as one release of Kafka defines them."""

    def __init__(self, jars: Sequence[str]) -> None:
        """Read the definitions. `jars`: paths, that of Kafka's clients among them."""
        (clients,) = (Path(jar) for jar in jars if Path(jar).name.startswith("kafka-clients-"))
        self._definitions = definitions(clients)
        self.names: Mapping[int, str] = {
            definition["apiKey"]: name.removesuffix("Request")
            for name, definition in self._definitions.items()
            if definition["type"] == "request"
        }
        """Of all APIs, by their keys."""

    def key_of(self, api: str) -> int:
        """The key of an API by its name, e.g. `JoinGroup`."""
        key: int = self._definitions[f"{api}Request"]["apiKey"]
        return key

    def frame(self, api: str, version: int, content: Mapping[str, Any]) -> bytes:
        """Write a request with its header. `content`: the fields that differ from their defaults, by Kafka's names."""
        schema = self._schema(f"{api}Request")
        known = {field.name for struct in schema.structs().values() for field in struct.fields}
        assert set(_names(content)) <= known, f"{api} has no {set(_names(content)) - known}"
        scope: dict[str, Any] = {
            **ENCODER_NAMES,
            **{
                name: partial(_filled, schema, struct.fields, MappingProxyType({}))
                for name, struct in schema.structs().items()
            },
        }
        # The text is made from Kafka's definitions; nothing that was received is in it.
        exec(str(encoder_source(layouts_of(schema, version))), scope)
        parts: list[bytes] = []
        scope[f"write_{schema.name}"](_filled(schema, schema.fields, content), parts.append)
        header = RequestHeader(request_api_key=schema.api_key or 0, request_api_version=version, client_id="any")
        return encode(header, 2 if version in schema.flexible_versions else 1) + b"".join(parts)

    def answer(self, api: str, version: int, frame: bytes) -> Any:
        """Read the response in a frame."""
        schema = self._schema(f"{api}Response")
        is_flexible = version in schema.flexible_versions and schema.api_key != ApiKey.API_VERSIONS
        _, start = decode_prefix(ResponseHeader, int(is_flexible), frame)
        scope: dict[str, Any] = {**DECODER_NAMES, **dict.fromkeys(schema.structs(), SimpleNamespace)}
        exec(str(decoder_source(layouts_of(schema, version))), scope)
        answer, end = scope[f"read_{schema.name}"](frame, start, ElementsLeft(_ELEMENTS_MAX))
        assert end == len(frame), f"{len(frame) - end} bytes are left over"
        return answer

    def _schema(self, name: str) -> MessageSchema:
        definition = self._definitions[name]
        return msgspec.convert(definition, MessageSchema, dec_hook=lambda _, text: Versions.parse(text))


def _names(content: Any) -> list[str]:
    if isinstance(content, list):
        return [name for element in content for name in _names(element)]
    if not isinstance(content, Mapping):
        return []
    return [*content, *(name for value in content.values() for name in _names(value))]


def _filled(schema: MessageSchema, fields: Sequence[Field], content: Mapping[str, Any]) -> SimpleNamespace:
    """The struct with these fields."""
    structs = schema.structs()

    def value(field: Field) -> Any:
        given = content.get(field.name, field.default_value)
        if not field.is_struct or given is None:
            return given
        inner = structs[field.element_type].fields
        if field.is_array:
            return tuple(_filled(schema, inner, element) for element in given)
        return _filled(schema, inner, given)

    return SimpleNamespace(**{snake_case(field.name): value(field) for field in fields})
