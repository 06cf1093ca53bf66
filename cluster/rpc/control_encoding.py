"""Encodes messages that share parts: the items of a field with `Mark.SHARED` are encoded once for all messages.

On the wire an element of a repeated message field is its tag, its length and its bytes, and concatenated messages
merge. So the state of a topic can be encoded once, cached as long as a queued request carries it, and copied into the
requests of all brokers. Lists with shared items, and those with `Mark.JOINED`, come after all other fields. The items
of a list that comes last are encoded one by one too, by `cluster.rpc.number_encoding` where they are numbers.
"""

from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from msgspec import Struct
from msgspec.structs import replace

from cluster.model.annotations import AnnotatedField, Mark
from cluster.rpc.codec import codec_for, sent_fields
from cluster.rpc.encoded_parts import EncodedParts
from cluster.rpc.number_encoding import are_numbers, number_encoder

Encode = Callable[[Any], bytes]

PARTS_OF: Final[dict[type[Struct], dict[str, EncodedParts[Any]]]] = {}
"""The shared parts of the fields of each type."""
PARTS: Final[list[EncodedParts[Any]]] = []
"""The shared parts of every type for which an encoder was derived."""


def is_sharing(struct: type[Struct]) -> bool:
    """Whether the items of a list are shared or joined, in the type or in the items of its lists."""
    return any(map(_is_shared, sent_fields(struct)))


def sharing_encoder(struct: type[Struct], message_class: type[Message]) -> Encode:
    """Derive the encoder of a type from its fields and its message."""
    fields: Any = message_class.DESCRIPTOR.fields_by_name
    apart = [f for f in sent_fields(struct) if _is_shared(f) or _is_last_list(f, fields)]
    encoders = [(f.name, _item_encoder(struct, f, fields[f.name])) for f in apart]
    encode_rest = _encoder_without(struct, message_class, [name for name, _ in encoders])
    if not encoders:
        return encode_rest

    def encode(value: Any) -> bytes:
        parts = [encode_rest(value)]
        for name, encode_item in encoders:
            parts.extend([encode_item(item) for item in getattr(value, name)])
        return b"".join(parts)

    return encode


def _is_shared(field: AnnotatedField) -> bool:
    struct, marks = field.annotation.struct, field.annotation.marks
    return struct is not None and (Mark.SHARED in marks or Mark.JOINED in marks or is_sharing(struct))


def _is_last_list(field: AnnotatedField, wire: Any) -> bool:
    """Whether the field is a list of structs, and no other field has a higher number."""
    if field.annotation.struct is None or field.annotation.nullable or not wire[field.name].is_repeated:
        return False
    return wire[field.name].number == max(other.number for other in wire.values())  # type: ignore[no-any-return]


def shared_size(message: Struct) -> int | None:
    """The bytes of the items that a message shares; None if one of them is not encoded yet, or nothing is shared."""
    sizes = [parts.size_of(getattr(message, name)) for name, parts in PARTS_OF.get(type(message), {}).items()]
    return None if not sizes or None in sizes else sum(size for size in sizes if size is not None)


def _item_encoder(struct: type[Struct], field: AnnotatedField, wire: Any) -> Encode:
    assert field.annotation.struct is not None
    encode = sharing_encoder(field.annotation.struct, GetMessageClass(wire.message_type))
    encode_item = _length_prefixed(wire.number, encode)
    if Mark.SHARED not in field.annotation.marks:
        return encode_item
    PARTS.append(EncodedParts(encode_item))
    PARTS_OF.setdefault(struct, {})[field.name] = PARTS[-1]
    return PARTS[-1].bytes_of


def _encoder_without(struct: type[Struct], message_class: type[Message], lists: list[str]) -> Encode:
    """Make an encoder of all fields except the lists.

    It is compiled if all are numbers and texts, as in the state of a partition, of which there may be 100,000.
    """
    fields: Any = message_class.DESCRIPTOR.fields_by_name
    rest = [field for field in sent_fields(struct) if field.name not in lists]
    if are_numbers(rest, message_class):
        return number_encoder(rest, message_class)
    if any(fields[field.name].message_type is not None for field in rest):
        codec, empty = codec_for(struct, message_class), dict.fromkeys(lists, ())
        return lambda value: codec.encode(replace(value, **empty) if empty else value)
    # What is absent by default costs less to look at than to set.
    seldom = {f.name for f in rest if not fields[f.name].has_presence and f.default in ((), 0, "", None)}
    given = ", ".join(f"{field.name}=v.{field.name}" for field in rest if field.name not in seldom)
    lines = ["def encode(v):", f" m = message_class({given})"]
    for name in (field.name for field in rest if field.name in seldom):
        assign = f"m.{name}.extend(v.{name})" if fields[name].is_repeated else f"m.{name} = v.{name}"
        lines += [f" if v.{name}:", f"  {assign}"]
    scope: dict[str, Any] = {"message_class": message_class}
    # The text is made from names of our own types; nothing that was received is in it.
    exec("\n".join([*lines, " return m.SerializeToString()"]), scope)  # noqa: S102 - the text is made here.
    compiled: Encode = scope["encode"]
    return compiled


def _length_prefixed(field_number: int, encode: Encode) -> Encode:
    """Encode an element of a repeated message field: tag of wire type 2, length as a varint, bytes."""
    tag = field_number << 3 | 2
    short = [bytes((tag, length)) for length in range(0x80)]

    def encode_item(item: Any) -> bytes:
        data = encode(item)
        length = len(data)
        if length < 0x80:
            return short[length] + data
        prefix = bytearray((tag,))
        while length >= 0x80:
            prefix.append(length & 0x7F | 0x80)
            length >>= 7
        prefix.append(length)
        return bytes(prefix) + data

    return encode_item
