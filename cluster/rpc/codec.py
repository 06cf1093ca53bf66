"""Converts domain values to protobuf messages and back, by codecs derived from the types themselves.

A message and its domain type have the same field names. This is asserted when a codec is built, so that a missing field
fails at import. Special cases:

* An absent `optional` field gets the domain type's default; without one, decoding fails. An epoch, leader or offset
that was not sent is never read as zero.
* `X | None` is absence; so is the zero topic id where a topic id may be absent.
* A tuple that may be None, or that is a map value, is sent as a message with a single repeated field.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, get_args, get_origin

import msgspec
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from cluster.model import bounds
from cluster.model.annotations import REQUIRED, AnnotatedField, Mark, annotated_fields
from cluster.model.broker import ZERO_TOPIC_ID
from cluster.model.errors import ApiError, ErrorCode

# `wire` below is a FieldDescriptor; its stubs declare every message type optional, so it is untyped.

Write = Callable[[Any, Any], None]
"""(message, value of the field): set the field."""
Read = Callable[[Any], Any]
"""message: the value of a field, or of the whole message."""


class Codec(NamedTuple):
    """Encodes a domain type to bytes or into an existing message, and decodes it."""

    message_class: type[Message]
    fill: Write
    read: Read

    def encode(self, value: object) -> bytes:
        """Encode. Raises ValueError that names the field whose value does not fit."""
        message = self.message_class()
        self.fill(message, value)
        return message.SerializeToString()

    def decode(self, data: bytes) -> Any:
        """Decode. Raises ApiError(INVALID_REQUEST) that names the missing or invalid field."""
        return self.read(self.parse(data))

    def parse(self, data: bytes) -> Message:
        """Parse the message that `read` reads. Raises ApiError(INVALID_REQUEST) if the bytes are no such message."""
        try:
            return self.message_class.FromString(data)
        except DecodeError as error:
            name = self.message_class.DESCRIPTOR.name
            raise ApiError(ErrorCode.INVALID_REQUEST, f"not a {name}: {error}", field=name) from error


def codec_for(domain_type: type[msgspec.Struct], message_class: type[Message]) -> Codec:
    """Derive the codec of a domain type and its message."""
    # The stubs of protobuf hide that a class can be hashed.
    hashable: Any = message_class
    return _derived(domain_type, hashable)


@cache
def _derived(domain_type: Any, message_class: Any) -> Codec:
    """Derive it once, though it is a part of many messages and both fills and reads."""
    descriptor = message_class.DESCRIPTOR
    fields = [*sent_fields(domain_type)]
    names, on_wire = {f.name for f in fields}, set(descriptor.fields_by_name)
    assert names == on_wire, f"{domain_type.__name__} and {descriptor.name} differ in {sorted(names ^ on_wire)}"
    writers = [(f.name, _writer(f, descriptor.fields_by_name[f.name])) for f in fields]
    readers = [_reader(f, descriptor.fields_by_name[f.name]) for f in fields]
    positional = tuple(f.name for f in fields) == domain_type.__struct_fields__[: len(fields)]
    assert positional, f"only the last fields of {domain_type.__name__} may be left out"

    def fill(message: Any, value: Any) -> None:
        name = ""
        try:
            for name, write in writers:
                write(message, getattr(value, name))
        except ValueError as error:
            raise ValueError(f"{descriptor.name}.{name}: {error}") from error

    def read(message: Any) -> Any:
        return domain_type(*[read_field(message) for read_field in readers])

    return Codec(message_class, fill, read)


def sent_fields(domain_type: type[msgspec.Struct]) -> Iterable[AnnotatedField]:
    """Iterate over the fields of a type that its message has too."""
    return (field for field in annotated_fields(domain_type) if Mark.NOT_SENT not in field.annotation.marks)


def _writer(field: AnnotatedField, wire: Any) -> Write:
    write = _plain_writer(field.name, field.annotation.type, wire)
    if not field.annotation.nullable:
        return write

    def write_unless_none(message: Any, value: Any) -> None:
        if value is not None:
            write(message, value)

    return write_unless_none


def _plain_writer(name: str, annotation: Any, wire: Any) -> Write:
    origin = get_origin(annotation)
    if origin is dict:
        return _map_writer(name, wire)
    if origin is tuple:
        return _tuple_writer(name, annotation, wire)
    if wire.message_type is None:
        return lambda message, value: setattr(message, name, value)
    fill = codec_for(annotation, _class_of(wire.message_type)).fill

    def fill_in(message: Any, value: Any) -> None:
        submessage = getattr(message, name)
        submessage.SetInParent()
        fill(submessage, value)

    return fill_in


def _tuple_writer(name: str, annotation: Any, wire: Any) -> Write:
    if not wire.is_repeated:
        (inner,) = wire.message_type.fields
        write_items = _tuple_writer(inner.name, annotation, inner)

        def fill_wrapper(message: Any, value: Any) -> None:
            wrapper = getattr(message, name)
            wrapper.SetInParent()
            write_items(wrapper, value)

        return fill_wrapper
    if wire.message_type is None:
        return lambda message, value: getattr(message, name).extend(value)
    fill = codec_for(get_args(annotation)[0], _class_of(wire.message_type)).fill

    def add_each(message: Any, value: Any) -> None:
        add = getattr(message, name).add
        for item in value:
            fill(add(), item)

    return add_each


def _map_writer(name: str, wire: Any) -> Write:
    value_field = wire.message_type.fields_by_name["value"]
    if value_field.message_type is None:
        return lambda message, value: getattr(message, name).update(value)
    (inner,) = value_field.message_type.fields

    def fill_entries(message: Any, value: Mapping[Any, Any]) -> None:
        entries = getattr(message, name)
        for key, items in value.items():
            _fill_wrapped(entries[key], inner.name, items)

    return fill_entries


def _fill_wrapped(wrapper: Any, inner: str, value: Iterable[Any]) -> None:
    wrapper.SetInParent()
    getattr(wrapper, inner).extend(value)


def _reader(field: AnnotatedField, wire: Any) -> Read:
    name = field.name
    nullable = field.annotation.nullable
    read = _plain_reader(name, field.annotation.type, wire)
    if not wire.has_presence:
        assert not nullable, f"{wire.full_name} cannot tell None from empty"
        return read
    absent = None if nullable else field.default
    if nullable and bounds.TOPIC_ID in field.annotation.marks:
        read = _topic_id_or_none(name)

    def read_if_present(message: Any) -> Any:
        if message.HasField(name):
            return read(message)
        if absent is REQUIRED:
            where = f"{wire.containing_type.name}.{name}"
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{where} is missing", field=where)
        return absent

    return read_if_present


def _topic_id_or_none(name: str) -> Read:
    def read(message: Any) -> Any:
        topic_id = getattr(message, name)
        return None if topic_id == ZERO_TOPIC_ID else topic_id

    return read


def _plain_reader(name: str, annotation: Any, wire: Any) -> Read:
    origin = get_origin(annotation)
    if origin is dict:
        return _map_reader(name, wire)
    if origin is tuple:
        return _tuple_reader(name, annotation, wire)
    if wire.message_type is not None:
        read_one = codec_for(annotation, _class_of(wire.message_type)).read
        return lambda message: read_one(getattr(message, name))
    if isinstance(annotation, type) and issubclass(annotation, IntEnum):
        return lambda message: _error_code(getattr(message, name))
    return attrgetter(name)


def _tuple_reader(name: str, annotation: Any, wire: Any) -> Read:
    if not wire.is_repeated:
        (inner,) = wire.message_type.fields
        read_items = _tuple_reader(inner.name, annotation, inner)
        return lambda message: read_items(getattr(message, name))
    if wire.message_type is None:
        return lambda message: tuple(getattr(message, name))
    read_item = codec_for(get_args(annotation)[0], _class_of(wire.message_type)).read
    return lambda message: tuple([read_item(item) for item in getattr(message, name)])


def _map_reader(name: str, wire: Any) -> Read:
    value_field = wire.message_type.fields_by_name["value"]
    if value_field.message_type is None:
        return lambda message: dict(getattr(message, name))
    (inner,) = value_field.message_type.fields
    return lambda message: {k: tuple(getattr(v, inner.name)) for k, v in getattr(message, name).items()}


def _error_code(number: int) -> ErrorCode:
    # A newer peer may send error codes unknown here, as in Kafka.
    return _ERROR_CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


_ERROR_CODES: Final = {int(code): code for code in ErrorCode}


def _class_of(descriptor: Any) -> type[Message]:
    return GetMessageClass(descriptor)
