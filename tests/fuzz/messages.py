"""Messages made from their descriptors: mostly of values that mean something to the node, and some that never should.

Nothing here knows a message by name, so that a new request is fuzzed by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

Known = Mapping[str, Sequence[Any]]
"""Values by the name of the field, and the type's own ("int32", "string", …) for fields without a name here."""

_BITS: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
}
HOSTILE_TEXTS: Final = (
    "",
    ".",
    "..",
    "../../x",
    "a/b",
    "/",
    "nul\0",
    "a b",
    "a\n",
    "été",
    "e\u0301",
    "\u202e",
    "\U0010ffff",
    "٣",
    "%s{}$(x)",
    "-1",
    "9" * 5000,
    "a" * 249,
    "a" * 250,
    "a" * 300,
    "a" * 32_767,
    "a" * 32_768,
    "__consumer_offsets",
)
_MANY: Final = (40, 1001, 33_000)

Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def messages(draw: Draw, descriptor: Descriptor, known: Known) -> Any:
    """A message with fields that are absent, usual or hostile."""
    message = GetMessageClass(descriptor)()
    for field in descriptor.fields:
        _fill(draw, message, field, known)
    return message


def _fill(draw: Draw, message: Any, field: Any, known: Known) -> None:
    choice = draw(st.integers(0, 19))
    if choice == 0:
        return
    is_usual = choice > 3
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _fill_map(draw, message, field, known, is_usual)
    elif field.is_repeated:
        _fill_list(draw, message, field, known, is_usual)
    elif field.message_type is not None:
        getattr(message, field.name).CopyFrom(draw(messages(field.message_type, known)))
    else:
        setattr(message, field.name, draw(_value(field, known, is_usual)))


def _fill_list(draw: Draw, message: Any, field: Any, known: Known, is_usual: bool) -> None:
    items = getattr(message, field.name)
    count = draw(st.integers(1, 3)) if is_usual else draw(st.sampled_from((0, 2, 5)))
    of_messages = field.message_type is not None
    one = messages(field.message_type, known) if of_messages else _value(field, known, is_usual)
    values = [draw(one) for _ in range(count)]
    if not is_usual and values and draw(st.integers(0, 5)) == 0:
        values *= draw(st.sampled_from(_MANY[: 2 if of_messages else 3]))
    items.extend(values)


def _fill_map(draw: Draw, message: Any, field: Any, known: Known, is_usual: bool) -> None:
    entries = getattr(message, field.name)
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    # The entries of a map have names that say nothing: they are looked up by the name of the map.
    for _ in range(draw(st.integers(0, 2))):
        at = draw(_value(key, known, is_usual, name=f"{field.name}.key"))
        if value.message_type is not None:
            entries[at].CopyFrom(draw(messages(value.message_type, known)))
        else:
            entries[at] = draw(_value(value, known, is_usual, name=f"{field.name}.value"))


def _value(field: Any, known: Known, is_usual: bool, name: str = "") -> st.SearchStrategy[Any]:
    usual = known.get(name or field.name)
    if is_usual and usual:
        return st.sampled_from(usual)
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return st.binary(max_size=200)
        case FieldDescriptor.CPPTYPE_STRING:
            return st.sampled_from(HOSTILE_TEXTS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
        case cpp_type:
            minimum, maximum = _BITS[cpp_type]
            return st.sampled_from(_edges(minimum, maximum)) | st.integers(minimum, maximum)


def _edges(minimum: int, maximum: int) -> list[int]:
    near = [-3, -2, -1, 0, 1, 2, 127, 128, 255, 32_767, 32_768, 65_536, 2**31 - 2, 2**31 - 1, 2**31, 2**53, 2**62]
    return [minimum, minimum + 1, *(n for n in near if minimum < n < maximum), maximum - 1, maximum]


@st.composite
def on_the_wire(draw: Draw, message: Any) -> bytes:
    """The message as it is sent: mostly as it is, or with bytes changed, cut off, put in or added."""
    data: bytes = message.SerializeToString()
    choice = draw(st.integers(0, 15))
    if choice > 3:
        return data
    at = draw(st.integers(0, len(data)))
    if choice == 0:
        return data[:at]
    if choice == 1:
        return data[:at] + draw(st.binary(min_size=1, max_size=8)) + data[at + 1 :]
    if choice == 2:
        # A field that nobody knows, and one of a known number with another type.
        return data + draw(st.sampled_from((b"\xf8\x7f\x01", b"\x0d\0\0\0\0", b"\x0a\xff\xff\xff\xff\x0f", b"\x0b")))
    return draw(st.binary(max_size=60))
