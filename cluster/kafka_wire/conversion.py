"""Converts klamm's values to Kafka's messages and back; derived from both types by the names of their fields.

A field has the same name in both, or the one that `KafkaName` in its annotation says. Special cases:

* Kafka's lists of topics, each with a list of partitions, may be one list of partitions here, each with its topic.
* A map is a list of structs of two fields. An absent topic id is the zero one.
* An empty text is null where Kafka's may be null, and null is empty where klamm's text may not be null.
* What only Kafka has is null if it may be, and otherwise has its default; what only klamm has must have a default.

The function for two types is compiled when it is first used, as Kafka's codec is, and is as fast as one by hand.
"""

from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from cluster.kafka_wire.message import Message
from cluster.model import bounds
from cluster.model.annotations import REQUIRED, AnnotatedField, Annotation, annotated_fields
from cluster.model.broker import ZERO_TOPIC_ID
from cluster.model.errors import ErrorCode, known_code

T = TypeVar("T", bound=Struct)


def convert(value: Struct, target: type[T], **given: Any) -> T:
    """The value in the other type; `given`: fields of it that are not derived."""
    converted: T = conversion(type(value), target, *given)(value, **given)
    return converted


@cache
def conversion(source: type[Struct], target: type[T], *given: str) -> Callable[..., T]:
    """The function from one type to the other. Fails where a field that must have a value has none."""
    derivation = _Derivation((source,), target, given)
    function = derivation.function()
    if issubclass(target, Message):
        required = {f.name for f in annotated_fields(source) if f.default is REQUIRED and f.kafka_name not in given}
        lost = required - derivation.used
        assert not lost, f"{target.__name__} has no room for {sorted(lost)} of {source.__name__}"
    return function


class _Known(NamedTuple):
    """A field of a source as an expression, with its annotation."""

    name: str
    text: str
    annotation: Annotation


class _Derivation:
    """The function that makes one type of values of others, of which a later one has precedence."""

    def __init__(self, sources: tuple[type[Struct], ...], target: type[Struct], given: tuple[str, ...] = ()) -> None:
        self._target, self._given = target, given
        self._arguments = [f"v{number}" for number in range(len(sources))]
        self._known = {
            field.kafka_name: _Known(field.name, f"{argument}.{field.name}", field.annotation)
            for argument, source in zip(self._arguments, sources, strict=True)
            for field in annotated_fields(source)
        }
        self._scope: dict[str, Any] = {"target": target}
        self.used: set[str] = set()
        """The fields of the sources that the function reads."""

    def function(self) -> Callable[..., Any]:
        """Compile the function."""
        wanted = [field for field in annotated_fields(self._target) if field.name not in self._given]
        values = [f"{f.name}={text}" for f in wanted if (text := self._expression(f)) is not None]
        values += [f"{name}={name}" for name in self._given]
        source = f"lambda {', '.join([*self._arguments, *self._given])}: target({', '.join(values)})"
        # The text is made from names of our own types; nothing that was received is in it.
        compiled: Callable[..., Any] = eval(source, self._scope)  # noqa: S307 - the text is made here.
        return compiled

    def _bound(self, thing: Any) -> str:
        """The name under which the function finds the thing."""
        name = f"x{len(self._scope)}"
        self._scope[name] = thing
        return name

    def _expression(self, field: AnnotatedField) -> str | None:
        """The expression from which the field is made; None if it keeps its default."""
        known = self._known.get(field.kafka_name)
        if known is not None:
            self.used.add(known.name)
            return self._value(known, field.annotation)
        if listed := self._flattened(field) or self._grouped(field):
            return listed
        if field.annotation.nullable and issubclass(self._target, Message):
            return "None"
        assert field.default is not REQUIRED, f"{self._target.__name__}.{field.name} has nothing to be made of"
        return None

    def _value(self, known: _Known, wanted: Annotation) -> str:
        text, have = known.text, known.annotation
        if have.struct is not None or wanted.struct is not None:
            made = self._structs(text, have, wanted)
            return f"None if {text} is None else {made}" if have.nullable else made
        if wanted.type is ErrorCode:
            return f"{self._bound(known_code)}({text})"
        if wanted.nullable == have.nullable:
            return text
        if bounds.TOPIC_ID in wanted.marks:
            zero = self._bound(ZERO_TOPIC_ID)
            is_absent, made = (f"== {zero}", "None") if wanted.nullable else ("is None", zero)
            return f"{made} if {text} {is_absent} else {text}"
        return f"{text} or {None if wanted.nullable else ''!r}" if wanted.type is str else text

    def _structs(self, text: str, have: Annotation, wanted: Annotation) -> str:
        """A list of structs of a list of others, or of a map; or a map of a list of structs."""
        if have.struct is not None and wanted.struct is not None:
            return f"tuple([{self._bound(conversion(have.struct, wanted.struct))}(i) for i in {text}])"
        if have.struct is not None:
            key, item = (field.name for field in annotated_fields(have.struct))
            return f"{{i.{key}: i.{item} for i in {text}}}"
        assert wanted.struct is not None
        key, item = (field.name for field in annotated_fields(wanted.struct))
        return f"tuple([{self._bound(wanted.struct)}({key}=k, {item}=i) for k, i in {text}.items()])"

    def _flattened(self, field: AnnotatedField) -> str | None:
        """The items of a list that is in each struct of a list."""
        item = field.annotation.struct
        for outer in self._known.values():
            topic = outer.annotation.struct
            for inner in annotated_fields(topic) if topic and item else ():
                if inner.name == field.kafka_name and topic and item and (part := inner.annotation.struct):
                    made = self._bound(_Derivation((topic, part), item).function())
                    return f"tuple([{made}(o, i) for o in {outer.text} for i in o.{inner.name}])"
        return None

    def _grouped(self, field: AnnotatedField) -> str | None:
        """A list of structs, each with a list of those items that have the same values in its other fields."""
        topic = field.annotation.struct
        for inner in annotated_fields(topic) if topic else ():
            items, part = self._known.get(inner.name), inner.annotation.struct
            if topic and part and items and (item := items.annotation.struct):
                self.used.add(items.name)
                outer = _Derivation((item,), topic, (inner.name,))
                make = outer.function()
                made = _Grouped(attrgetter(*outer.used), make, inner.name, _Derivation((item,), part).function())
                return f"{self._bound(made.of)}({items.text})"
        return None


class _Grouped(NamedTuple):
    """Makes structs of groups of items. `key`: what the items of a group have in common; `inner`: the list of them."""

    key: Callable[[Any], Any]
    make: Callable[..., Any]
    inner: str
    part: Callable[[Any], Any]

    def of(self, items: Iterable[Any]) -> tuple[Any, ...]:
        """The structs, in the order in which a key comes first."""
        groups: dict[Any, list[Any]] = {}
        for item in items:
            groups.setdefault(self.key(item), []).append(item)
        return tuple([self.make(of[0], **{self.inner: tuple(map(self.part, of))}) for of in groups.values()])
