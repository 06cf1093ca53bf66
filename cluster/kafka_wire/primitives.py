"""Kafka's primitive types: the functions that the compiled encoders and decoders call.

`put_…`/`encoded_…` return bytes. `read_…` take the bytes and a position, and return the value and the position after
it. Lengths and counts are checked against what is left before anything is allocated.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from struct import Struct as Layout
from struct import calcsize, pack, unpack_from
from typing import Final

from cluster.model.broker import TopicId

STRING_BYTES_MAX: Final = 2**15 - 1
_INT32_MAX: Final = 2**31 - 1
_UUID_BYTES: Final = 16
_UUID_TEXT: Final = 22
_VARINT_BYTES: Final = 5
_SHORT_COUNTS: Final = tuple(bytes([count]) for count in range(128))
_INT16: Final = Layout(">h")
_INT32: Final = Layout(">i")


class ValueRefusedError(ValueError):
    """A value has no encoding, or bytes are not the value they should be. Says why; the caller adds where."""


class ValueLeftOutError(Exception):
    """A field has a value for which the version has no room. Carries the value."""


class ElementsLeft:
    """Says how many elements the arrays of a message may have yet, all together.

    An element may be two bytes on the wire, yet takes a hundred in memory and a microsecond to make.
    """

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, count: int) -> None:
        """Count the elements of one array (-1: null) against the limit. Raises ValueRefusedError if there are too
        many.
        """
        if count > self.left:
            raise ValueRefusedError(f"{count} elements where {self.left} more are taken")
        self.left -= max(0, count)


def uvarint(number: int) -> bytes:
    """An unsigned number, seven bits to a byte, the lowest first."""
    if number < 128:
        return _SHORT_COUNTS[number]
    found = bytearray()
    while number >= 128:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """A number of at most 31 bits. IndexError if the bytes end within it."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    number = 0
    for position in range(_VARINT_BYTES):
        byte = data[at + position]
        number |= (byte & 0x7F) << (7 * position)
        if byte < 128:
            if number > _INT32_MAX:
                break
            return number, at + position + 1
    raise ValueRefusedError("a varint of more than 31 bits")


def encoded_count(count: int) -> bytes:
    return _INT32.pack(count)


def encoded_compact_count(count: int) -> bytes:
    return uvarint(count + 1)


def encoded_string(text: str) -> bytes:
    data = text.encode()
    if len(data) > STRING_BYTES_MAX:
        raise ValueRefusedError(f"a string of {len(data)} bytes; the longest possible has {STRING_BYTES_MAX}")
    return _INT16.pack(len(data)) + data


def encoded_compact_string(text: str) -> bytes:
    data = text.encode()
    if len(data) > STRING_BYTES_MAX:
        raise ValueRefusedError(f"a string of {len(data)} bytes; the longest possible has {STRING_BYTES_MAX}")
    return uvarint(len(data) + 1) + data


def encoded_bytes(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def encoded_compact_bytes(data: bytes) -> bytes:
    return uvarint(len(data) + 1) + data


def encoded_uuid(topic_id: str) -> bytes:
    data = urlsafe_b64decode(topic_id + "==") if len(topic_id) == _UUID_TEXT else b""
    if len(data) != _UUID_BYTES:
        raise ValueRefusedError(f"{topic_id!r} is not an id: 22 characters of unpadded base64 (A-Z, a-z, 0-9, -, _)")
    return data


def encoded_numbers(numbers: tuple[int, ...], character: str) -> bytes:
    """The numbers alone, without their count."""
    return pack(f">{len(numbers)}{character}", *numbers)


def read_count(data: bytes, at: int, least: int, room: ElementsLeft) -> tuple[int, int]:
    """Read the count of an array whose elements have at least this many bytes each; -1 for null."""
    (count,) = _INT32.unpack_from(data, at)
    count, at = _checked(count, data, at + 4, least)
    room.take(count)
    return count, at


def read_compact_count(data: bytes, at: int, least: int, room: ElementsLeft) -> tuple[int, int]:
    """The same for the compact form."""
    count, at = _compact_length(data, at, least)
    room.take(count)
    return count, at


def _compact_length(data: bytes, at: int, least: int = 1) -> tuple[int, int]:
    length, at = read_uvarint(data, at)
    return _checked(length - 1, data, at, least)


def _checked(count: int, data: bytes, at: int, least: int) -> tuple[int, int]:
    if count < -1:
        raise ValueRefusedError(f"a length of {count}")
    if count * least > len(data) - at:
        raise ValueRefusedError(f"a length of {count} where {max(0, len(data) - at)} bytes are left")
    return count, at


def read_string(data: bytes, at: int) -> tuple[str | None, int]:
    (length,) = _INT16.unpack_from(data, at)
    length, at = _checked(length, data, at + 2, 1)
    if length < 0:
        return None, at
    return data[at : at + length].decode(), at + length


def read_compact_string(data: bytes, at: int) -> tuple[str | None, int]:
    length, at = _compact_length(data, at)
    if length < 0:
        return None, at
    if length > STRING_BYTES_MAX:
        raise ValueRefusedError(f"a string of {length} bytes; the longest possible has {STRING_BYTES_MAX}")
    return data[at : at + length].decode(), at + length


def read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = _INT32.unpack_from(data, at)
    length, at = _checked(length, data, at + 4, 1)
    return (None if length < 0 else data[at : at + length]), at + max(0, length)


def read_compact_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _compact_length(data, at)
    return (None if length < 0 else data[at : at + length]), at + max(0, length)


def read_uuid(data: bytes, at: int) -> tuple[TopicId, int]:
    part = data[at : at + _UUID_BYTES]
    if len(part) < _UUID_BYTES:
        raise ValueRefusedError(f"an id of 16 bytes where {len(part)} are left")
    return TopicId(urlsafe_b64encode(part)[:_UUID_TEXT].decode()), at + _UUID_BYTES


def read_numbers(data: bytes, at: int, count: int, character: str) -> tuple[int, ...]:
    """Read `count` numbers, whose bytes are known to be there."""
    return unpack_from(f">{count}{character}", data, at)


def read_number(data: bytes, at: int, character: str) -> tuple[int, int]:
    """Read one number by itself, as the value of a tagged field."""
    (number,) = unpack_from(f">{character}", data, at)
    return number, at + calcsize(f">{character}")


def skip_tagged_fields(data: bytes, at: int, count: int) -> int:
    """The position after `count` tagged fields, none of which is known."""
    seen: set[int] = set()
    for _ in range(count):
        _, _, at = read_tag(data, at, seen)
    return at


def read_tag(data: bytes, at: int, seen: set[int]) -> tuple[int, int, int]:
    """A tagged field's tag, the position of its value, and that after it. `seen`: the tags before it."""
    tag, at = read_uvarint(data, at)
    if tag in seen:
        raise ValueRefusedError(f"tag {tag} twice")
    seen.add(tag)
    size, at = read_uvarint(data, at)
    if size > len(data) - at:
        raise ValueRefusedError(f"tag {tag} has a length of {size} where {len(data) - at} bytes are left")
    return tag, at, at + size
