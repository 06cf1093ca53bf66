"""How the fields of a message lie on the wire in one version."""

from struct import calcsize
from typing import Final, NamedTuple

from cluster.kafka_wire.names import snake_case
from cluster.kafka_wire.schema import NUMBER_FORMATS, Field, MessageSchema, StructSchema

_LEAST_BYTES: Final = {"string": 2, "bytes": 4, "records": 4}
"""Of an empty value that is not compact."""


class FieldLayout(NamedTuple):
    """A field in one version. `attribute`: its name in Python."""

    field: Field
    attribute: str
    is_compact: bool
    is_nullable: bool

    @property
    def number(self) -> str:
        """The format character of a value of fixed size, "" for others."""
        return NUMBER_FORMATS.get(self.field.type, "")

    @property
    def element_number(self) -> str:
        """The format character of each element of an array of numbers, "" for other arrays."""
        return NUMBER_FORMATS.get(self.field.element_type, "")

    def least_element_bytes(self, structs: dict[str, int]) -> int:
        """The least number of bytes of an element of the array. `structs`: those of structs, by name."""
        kind = self.field.element_type
        if kind in NUMBER_FORMATS:
            return calcsize(f">{NUMBER_FORMATS[kind]}")
        if kind == "uuid":
            return 16
        if kind in structs:
            return structs[kind]
        return 1 if self.is_compact else _LEAST_BYTES[kind]

    def least_bytes(self, structs: dict[str, int]) -> int:
        """The least number of bytes of the field."""
        if self.field.is_array:
            return 1 if self.is_compact else 4
        if self.field.is_struct and self.is_nullable:
            return 1
        return self.least_element_bytes(structs)


class StructLayout(NamedTuple):
    """A struct in one version: its fields in order, its tagged fields by tag, and fields that the version lacks."""

    name: str
    fields: list[FieldLayout]
    tagged: list[FieldLayout]
    absent: list[FieldLayout]
    is_flexible: bool
    least_bytes: int


def layouts_of(message: MessageSchema, version: int) -> list[StructLayout]:
    """The layout of every struct of a message, each after those it consists of; the message itself is last."""
    sizes: dict[str, int] = {}
    found = []
    for struct in message.structs().values():
        layout = _layout(struct, message, version, sizes)
        sizes[struct.name] = layout.least_bytes
        found.append(layout)
    return found


def _layout(struct: StructSchema, message: MessageSchema, version: int, sizes: dict[str, int]) -> StructLayout:
    is_flexible = version in message.flexible_versions
    fields = [_field_layout(field, message, version) for field in struct.fields]
    present = [layout for layout in fields if version in layout.field.versions]
    tagged = [layout for layout in present if version in layout.field.tagged_versions]
    in_order = [layout for layout in present if layout not in tagged]
    return StructLayout(
        name=struct.name,
        fields=in_order,
        tagged=sorted(tagged, key=lambda layout: layout.field.tag or 0),
        absent=[layout for layout in fields if layout not in present],
        is_flexible=is_flexible,
        least_bytes=is_flexible + sum(layout.least_bytes(sizes) for layout in in_order),
    )


def _field_layout(field: Field, message: MessageSchema, version: int) -> FieldLayout:
    flexible = message.flexible_versions if field.flexible_versions is None else field.flexible_versions
    return FieldLayout(field, snake_case(field.name), version in flexible, version in field.nullable_versions)
