"""The source of a message's encoder in one version: for each struct a function `write_<struct>(value, put)`.

`put` takes the bytes one after the other. Neighbouring fields of fixed size are packed at once. A line fails with an
exception of Python's own where the value does not fit; the owner of the line says which field that is.
"""

from struct import Struct as Layout
from typing import Any, Final

from cluster.kafka_wire import primitives
from cluster.kafka_wire.layout import FieldLayout, StructLayout
from cluster.kafka_wire.message import EncodedPart
from cluster.kafka_wire.source_text import SourceText

ENCODER_NAMES: Final[dict[str, Any]] = {
    "EncodedPart": EncodedPart,
    "Layout": Layout,
    **{name: getattr(primitives, name) for name in dir(primitives) if name.startswith(("encoded_", "uvarint"))},
    "ValueLeftOutError": primitives.ValueLeftOutError,
}
"""What the source refers to, besides the message's own classes."""

_VARIABLE: Final = {"string": "string", "bytes": "bytes", "records": "bytes"}


def encoder_source(layouts: list[StructLayout]) -> SourceText:
    """The source for all structs of a message."""
    source = SourceText()
    for layout in layouts:
        _StructEncoder(layout, source).write()
    return source


class _StructEncoder:
    def __init__(self, layout: StructLayout, source: SourceText) -> None:
        self._layout, self._source = layout, source
        self._run: list[FieldLayout] = []
        """Fields of fixed size that are not written yet."""
        self._packs: list[str] = []

    def write(self) -> None:
        """Write the function of one struct."""
        source, layout = self._source, self._layout
        source.add(f"def write_{layout.name}(value, put):")
        for field in layout.absent:
            self._refuse_left_out(field)
        for field in layout.fields:
            if field.number:
                self._run.append(field)
            else:
                self._flush()
                self._put(field, f"value.{field.attribute}", "put")
        self._tagged_fields()
        source.add("    return None")
        for number, text in enumerate(self._packs):
            source.add(f'pack_{layout.name}_{number} = Layout(">{text}").pack')

    def _refuse_left_out(self, field: FieldLayout) -> None:
        if field.field.ignorable:
            return
        self._source.add(f"    if {self._differs(field)}:")
        self._source.add(f"        raise ValueLeftOutError(value.{field.attribute})", field.field)

    def _differs(self, field: FieldLayout) -> str:
        """The condition that a field does not have its default."""
        default, value = field.field.default_value, f"value.{field.attribute}"
        if default is None:
            return f"{value} is not None"
        if default == {}:
            return f"{value} != {field.field.type}()"
        if default == ():
            # Also true for a list, which callers may pass where they do not need a hash.
            return f"{value} is None or len({value})"
        return f"{value} != {default!r}"

    def _flush(self, padding: str = "") -> None:
        """Write the fields of fixed size that wait; `padding`: `x` for the zero that says "no tagged fields"."""
        if not self._run:
            if padding:
                self._source.add('    put(b"\\0")')
            return
        name = f"pack_{self._layout.name}_{len(self._packs)}"
        values = ", ".join(f"value.{field.attribute}" for field in self._run)
        self._source.add(f"    put({name}({values}))", *(field.field for field in self._run))
        self._packs.append("".join(field.number for field in self._run) + padding)
        self._run.clear()

    def _put(self, field: FieldLayout, value: str, put: str, indent: str = "    ") -> None:
        """Write the value of one field that is not in a run."""
        if field.is_nullable:
            self._source.add(f"{indent}if {value} is None:")
            self._source.add(f"{indent}    {put}({_null(field)!r})")
            self._source.add(f"{indent}else:")
            indent += "    "
            if field.field.is_struct and not field.field.is_array:
                self._source.add(f'{indent}{put}(b"\\1")')
        if field.field.is_array:
            self._put_array(field, value, put, indent)
        else:
            self._source.add(f"{indent}{_put_one(field, value, put)}", field.field)

    def _put_array(self, field: FieldLayout, value: str, put: str, indent: str) -> None:
        add, compact = self._source.add, "compact_" * field.is_compact
        count = f"encoded_{compact}count(len({value}))"
        if field.element_number:
            add(f'{indent}{put}({count} + encoded_numbers({value}, "{field.element_number}"))', field.field)
            return
        add(f"{indent}{put}({count})", field.field)
        add(f"{indent}for index, element in enumerate({value}):", field.field)
        if field.field.is_struct:
            add(f"{indent}    if element.__class__ is EncodedPart:", field.field, element=True)
            add(f"{indent}        {put}(element.data)", field.field, element=True)
            add(f"{indent}    else:")
            indent += "    "
        add(f"{indent}    {_put_one(field, 'element', put)}", field.field, element=True)

    def _tagged_fields(self) -> None:
        if not self._layout.is_flexible:
            self._flush()
        elif not self._layout.tagged:
            self._flush(padding="x")
        else:
            self._flush()
            self._put_tagged_fields()

    def _put_tagged_fields(self) -> None:
        """Put each as its tag, its size and its value, unless it has its default."""
        add = self._source.add
        add("    tagged = []")
        for field in self._layout.tagged:
            add(f"    if {self._differs(field)}:", field.field)
            add("        parts = []")
            self._put(field, f"value.{field.attribute}", "parts.append", indent=" " * 8)
            add('        data = b"".join(parts)', field.field)
            add(f"        tagged.append(uvarint({field.field.tag}) + uvarint(len(data)) + data)")
        add("    put(uvarint(len(tagged)))")
        add('    put(b"".join(tagged))')


def _put_one(field: FieldLayout, value: str, put: str) -> str:
    kind = field.field.element_type
    if field.field.is_struct:
        return f"write_{kind}({value}, {put})"
    if kind == "uuid":
        return f"{put}(encoded_uuid({value}))"
    if field.element_number:
        return f'{put}(encoded_numbers(({value},), "{field.element_number}"))'
    return f"{put}(encoded_{'compact_' * field.is_compact}{_VARIABLE[kind]}({value}))"


def _null(field: FieldLayout) -> bytes:
    if field.field.is_struct and not field.field.is_array:
        return b"\xff"
    if field.is_compact:
        return b"\0"
    return b"\xff" * (2 if field.field.type == "string" else 4)
