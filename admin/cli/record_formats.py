"""Writes records as text: as lines for people, and as JSON objects for programs and `klamm produce --input json`.

In JSON, keys and values that are UTF-8 are strings. Others are {"base64": "…"}, so that nothing is lost.
"""

import base64
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from admin.consuming.record_batches import Headers, Record
from cluster.model.errors import DECODE_ERRORS, ConfigError
from cluster.model.printable import printable_json


class NewRecord(Struct, frozen=True):
    """Holds a record to be produced. `timestamp` is in ms since the Unix epoch; None: now."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None

    @property
    def size(self) -> int:
        """The number of bytes of key and value."""
        return (0 if self.key is None else len(self.key)) + (0 if self.value is None else len(self.value))


class Part(StrEnum):
    """Names what a line may show besides a record's value, in this order. Source: Kafka DefaultMessageFormatter."""

    TIMESTAMP = "timestamp"
    PARTITION = "partition"
    OFFSET = "offset"
    HEADERS = "headers"
    KEY = "key"


_PARTS: Final[dict[Part, Callable[[int, Record], bytes]]] = {
    Part.TIMESTAMP: lambda _, r: b"CreateTime:%d" % r.timestamp,
    Part.PARTITION: lambda partition, _: b"Partition:%d" % partition,
    Part.OFFSET: lambda _, r: b"Offset:%d" % r.offset,
    Part.HEADERS: lambda _, r: b",".join(b"%b:%b" % (n.encode(), v or b"") for n, v in r.headers) or b"NO_HEADERS",
    Part.KEY: lambda _, r: b"" if r.key is None else r.key,
}


def text_lines(partition: int, records: Sequence[Record], parts: Sequence[Part], separator: bytes) -> bytes:
    """Write a line for each record: the parts, then the value."""
    shown = [_PARTS[part] for part in Part if part in parts]
    values = [b"" if r.value is None else r.value for r in records]
    if shown:
        values = [
            separator.join((*(part(partition, r) for part in shown), value))
            for r, value in zip(records, values, strict=True)
        ]
    return b"\n".join(values) + b"\n" if values else b""


def json_lines(topic: str, partition: int, records: Sequence[Record]) -> bytes:
    """Write a JSON object for each record, one on each line."""
    return b"".join(
        printable_json(
            {
                "topic": topic,
                "partition": partition,
                "offset": r.offset,
                "timestamp": r.timestamp,
                "key": _to_json(r.key),
                "value": _to_json(r.value),
                "headers": [{"key": name, "value": _to_json(value)} for name, value in r.headers],
            }
        ).encode()
        + b"\n"
        for r in records
    )


def _to_json(content: bytes | None) -> str | dict[str, str] | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


class _Base64(Struct, forbid_unknown_fields=True):
    base64: bytes
    """The bytes, which msgspec has decoded."""


class _Header(Struct, forbid_unknown_fields=True):
    key: str
    value: str | _Base64 | None = None


class _Line(Struct, forbid_unknown_fields=True):
    """Holds the keys that a line may have; topic, partition and offset, which `klamm consume` writes, are not used."""

    value: str | _Base64 | None = None
    key: str | _Base64 | None = None
    headers: list[_Header] = []
    timestamp: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    topic: Any = None
    partition: Any = None
    offset: Any = None


# A surrogate without the other one of its pair.
_HALF_CHARACTER: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_DECODER: Final = msgspec.json.Decoder(_Line)


def parse_json_line(number: int, line: bytes) -> NewRecord:
    """Parse the record of the `number`th line. Raises ConfigError."""
    try:
        read = _DECODER.decode(line)
    except DECODE_ERRORS as error:
        raise ConfigError([f"line {number}: {_reason(line, error)}"]) from None
    headers = tuple((header.key, _from_json(header.value)) for header in read.headers)
    return NewRecord(_from_json(read.key), _from_json(read.value), headers, read.timestamp)


def _reason(line: bytes, error: Exception) -> str:
    """Say what is wrong with the line, in words that its author understands."""
    if not line.strip():
        return 'is empty: each line must be an object, such as {"value": "…"}'
    if isinstance(error, UnicodeDecodeError):
        return 'is not UTF-8: give other bytes as {"base64": "…"}'
    why = str(error)
    if "truncated" in why or "surrogate" in why:
        half = _HALF_CHARACTER.search(line)
        if half is not None:
            return f'{half[0].decode()} is half of a character: give bytes that are not UTF-8 as {{"base64": "…"}}'
        return "ends before the object does; an object must be on one line"
    return why.replace("Object contains unknown field", "unknown key")


def _from_json(content: Any) -> bytes | None:
    if isinstance(content, _Base64):
        return content.base64
    return None if content is None else str(content).encode()
