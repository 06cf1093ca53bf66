"""The source of a message's decoder in one version: for each struct a function `read_<struct>(data, at, room)`.

`room`: how many elements its arrays may have. Each function returns the struct and the position after it. `at` is
always the position of what is read next, so that a frame of a function that failed says where.
"""

from struct import Struct as Layout
from struct import calcsize
from typing import Any, Final

from cluster.kafka_wire import primitives
from cluster.kafka_wire.layout import FieldLayout, StructLayout
from cluster.kafka_wire.source_text import SourceText

DECODER_NAMES: Final[dict[str, Any]] = {
    "Layout": Layout,
    "ValueRefusedError": primitives.ValueRefusedError,
    **{name: getattr(primitives, name) for name in dir(primitives) if name.startswith(("read_", "skip_"))},
}
"""What the source refers to, besides the message's own classes."""

_VARIABLE: Final = {"string": "string", "bytes": "bytes", "records": "bytes"}


def decoder_source(layouts: list[StructLayout]) -> SourceText:
    """The source for all structs of a message."""
    source = SourceText()
    sizes = {layout.name: layout.least_bytes for layout in layouts}
    for layout in layouts:
        _StructDecoder(layout, source, sizes).write()
    return source


class _StructDecoder:
    def __init__(self, layout: StructLayout, source: SourceText, sizes: dict[str, int]) -> None:
        self._layout, self._source, self._sizes = layout, source, sizes
        self._run: list[FieldLayout] = []
        """Fields of fixed size that are not read yet."""
        self._unpacks: list[str] = []

    def write(self) -> None:
        """Write the function of one struct."""
        add, layout = self._source.add, self._layout
        add(f"def read_{layout.name}(data, at, room):")
        for field in layout.fields:
            if field.number:
                self._run.append(field)
            else:
                self._flush()
                self._read(field)
        self._flush()
        if layout.is_flexible:
            self._tagged_fields()
        values = ", ".join(f"{field.attribute}={_local(field)}" for field in layout.fields)
        tagged = ", **tagged" if layout.tagged else ""
        add(f"    return {layout.name}({(values + tagged).removeprefix(', ')}), at")
        for number, text in enumerate(self._unpacks):
            add(f'unpack_{layout.name}_{number} = Layout(">{text}").unpack_from')

    def _flush(self) -> None:
        if not self._run:
            return
        name = f"unpack_{self._layout.name}_{len(self._unpacks)}"
        text = "".join(field.number for field in self._run)
        values = ", ".join(map(_local, self._run))
        self._source.add(f"    {values}, = {name}(data, at)", *(field.field for field in self._run))
        self._source.add(f"    at += {calcsize('>' + text)}")
        self._unpacks.append(text)
        self._run.clear()

    def _read(self, field: FieldLayout, indent: str = "    ") -> None:
        """Read the value of one field that is not in a run."""
        if field.field.is_array:
            self._read_array(field, indent)
        elif field.field.is_struct and field.is_nullable:
            self._read_nullable_struct(field, indent)
        else:
            self._source.add(f"{indent}{_local(field)}, at = {_read_one(field)}", field.field)
            if field.field.element_type in _VARIABLE and not field.is_nullable:
                self._refuse_null(field, f"{_local(field)} is None", indent)

    def _refuse_null(self, field: FieldLayout, condition: str, indent: str, *, element: bool = False) -> None:
        self._source.add(f"{indent}if {condition}:")
        self._source.add(
            f'{indent}    raise ValueRefusedError("null, which it may not be")', field.field, element=element
        )

    def _read_nullable_struct(self, field: FieldLayout, indent: str) -> None:
        add, name = self._source.add, _local(field)
        add(f"{indent}{name} = None")
        add(f'{indent}is_present, = read_numbers(data, at, 1, "b")', field.field)
        add(f"{indent}at += 1")
        add(f"{indent}if is_present >= 0:")
        add(f"{indent}    {name}, at = {_read_one(field)}", field.field)

    def _read_array(self, field: FieldLayout, indent: str) -> None:
        add, name = self._source.add, _local(field)
        least = field.least_element_bytes(self._sizes)
        add(f"{indent}count, at = read_{'compact_' * field.is_compact}count(data, at, {least}, room)", field.field)
        if field.is_nullable:
            add(f"{indent}{name} = None")
            add(f"{indent}if count >= 0:")
            indent += "    "
        else:
            self._refuse_null(field, "count < 0", indent)
        if field.element_number:
            add(f'{indent}{name} = read_numbers(data, at, count, "{field.element_number}")', field.field)
            add(f"{indent}at += count * {least}")
            return
        add(f"{indent}elements = []")
        add(f"{indent}for index in range(count):")
        add(f"{indent}    element, at = {_read_one(field)}", field.field, element=True)
        if field.field.element_type in _VARIABLE:
            self._refuse_null(field, "element is None", indent + "    ", element=True)
        add(f"{indent}    elements.append(element)")
        add(f"{indent}{name} = tuple(elements)")

    def _tagged_fields(self) -> None:
        add, known = self._source.add, self._layout.tagged
        add("    tag_count, at = read_uvarint(data, at)")
        if not known:
            add("    if tag_count:")
            add("        at = skip_tagged_fields(data, at, tag_count)")
            return
        add("    tagged = {}")
        add("    seen = set()")
        add("    for _ in range(tag_count):")
        add("        tag, at, end = read_tag(data, at, seen)")
        for field in known:
            add(f"        if tag == {field.field.tag}:")
            self._read(field, indent=" " * 12)
            add("            if at != end:")
            add('                raise ValueRefusedError(f"{at - end:+} bytes beyond its size")', field.field)
            add(f"            tagged['{field.attribute}'] = {_local(field)}")
        add("        at = end")


def _local(field: FieldLayout) -> str:
    """The local variable of a field; none of the others ends so."""
    return f"{field.attribute}_"


def _read_one(field: FieldLayout) -> str:
    kind = field.field.element_type
    if field.field.is_struct:
        return f"read_{kind}(data, at, room)"
    if kind == "uuid":
        return "read_uuid(data, at)"
    if field.element_number:
        return f'read_number(data, at, "{field.element_number}")'
    return f"read_{'compact_' * field.is_compact}{_VARIABLE[kind]}(data, at)"
