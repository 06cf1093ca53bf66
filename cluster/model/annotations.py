"""What the annotations of a type's fields say: bounds, marks and names, from which codecs and checks are derived."""

from collections.abc import Iterator
from enum import Enum, auto
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, NewType, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

REQUIRED: Final = object()
"""The default of a field that has none."""


class Mark(Enum):
    """`Annotated[T, Mark.X]` marks a field."""

    NOT_SENT = auto()
    """No message has the field; only the last fields of a type may be left out."""
    SHARED = auto()
    """The items of the list are in requests to several peers: their bytes are made once, and kept as long as the items,
    whose type supports weak references."""
    JOINED = auto()
    """The list has so many items, of numbers, that each is made of the bytes of its fields, without a message object.
    To keep its bytes for the few peers that get the same would take more memory than the item, and as much time."""
    CHECKED_BY_ITS_READER = auto()
    """The field has no bound: a malformed value is ignored, and never fails its request."""


class KafkaName(Struct, frozen=True):
    """The name of a field in Kafka's message, where it differs."""

    name: str


class Annotation(NamedTuple):
    """Holds what the annotation of a field says. `type`: the type itself; `marks`: bounds and marks, the outermost
    first.
    """

    type: Any
    nullable: bool = False
    marks: tuple[Any, ...] = ()

    @classmethod
    def of(cls, annotation: Any) -> "Annotation":
        """Take `Annotated`, `| None` and NewType off the type."""
        if isinstance(annotation, NewType):
            return cls.of(annotation.__supertype__)
        if get_origin(annotation) is Annotated:
            inner = cls.of(annotation.__origin__)
            return inner._replace(marks=(*reversed(annotation.__metadata__), *inner.marks))
        if get_origin(annotation) in (Union, UnionType):
            (some,) = (a for a in get_args(annotation) if a is not NoneType)
            return cls.of(some)._replace(nullable=True)
        return cls(annotation)

    @property
    def item(self) -> "Annotation | None":
        """The annotation of the items, if the type is a tuple."""
        return Annotation.of(get_args(self.type)[0]) if get_origin(self.type) is tuple else None

    @property
    def struct(self) -> type[Struct] | None:
        """The type of a value, or of each item of a tuple, if it is a struct."""
        inner = (self.item or self).type
        return inner if isinstance(inner, type) and issubclass(inner, Struct) else None


class AnnotatedField(NamedTuple):
    """A field of a type. `default`: REQUIRED if it has none, None also where a factory makes it."""

    name: str
    annotation: Annotation
    default: Any

    @property
    def kafka_name(self) -> str:
        """Its name in Kafka's message."""
        return next((mark.name for mark in self.annotation.marks if isinstance(mark, KafkaName)), self.name)


def annotated_fields(struct: type[Struct]) -> Iterator[AnnotatedField]:
    """The fields of a type in their order."""
    hints = get_type_hints(struct, include_extras=True)
    for info in fields(struct):
        default = REQUIRED if info.required else None if info.default is NODEFAULT else info.default
        yield AnnotatedField(info.name, Annotation.of(hints[info.name]), default)
