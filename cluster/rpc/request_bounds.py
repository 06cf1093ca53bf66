"""Checks a request against the bounds of its fields.

Derived from the annotations of the request types, as the codec is: a field without a bound fails when the check is
built, on import, so a new request is covered by itself. A whole list is checked by its distinct values, so that a
LeaderAndIsr of 100,000 partitions costs little more than reading its fields. BD-1
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, get_origin

from msgspec import Struct

from cluster.model import bounds
from cluster.model.annotations import Mark
from cluster.model.bounds import Bound, Count
from cluster.model.errors import ErrorCode
from cluster.rpc.codec import sent_fields


class BoundViolation(NamedTuple):
    """Names a field whose value is beyond its bound; `field` is its path in the request, `value` is shortened."""

    field: str
    value: str
    code: ErrorCode
    why: str

    @property
    def message(self) -> str:
        return f"{self.field}: {self.why}"


class _Plain(Struct, frozen=True):
    """Checks a field of numbers, texts or bytes.

    `flat` lists the numbers or texts in a value; `is_hashable`: whether its values are.
    """

    name: str
    get: Callable[[Any], Any]
    bound: Bound
    count: Count | None
    flat: Callable[[Any], Iterable[Any]]
    is_hashable: bool

    def accepts_all(self, structs: Sequence[Any]) -> bool:
        """Whether the field is within its bound in each struct."""
        values = {*map(self.get, structs)} if self.is_hashable else list(map(self.get, structs))
        if self.count is None:
            values.discard(None)  # type: ignore[union-attr]
            return self.bound.accepts_all(values)
        return all(value is None or self._accepts(value) for value in values)

    def violation(self, struct: Any, where: str) -> BoundViolation | None:
        value = self.get(struct)
        if value is None or self._accepts(value):
            return None
        bound: Bound | Count = self.bound
        code = self.bound.code
        if self.count is not None and (too_many := _too_many(f"{where}{self.name}", value, self.count)):
            return too_many
        if self.count is not None and not self.count.accepts(value):
            bound, code = self.count, ErrorCode.INVALID_REQUEST
        else:
            value = next(single for single in self.flat(value) if not self.bound.accepts(single))
        return BoundViolation(f"{where}{self.name}", bounds.shortened(value), code, bounds.why_not(bound, value))

    def _accepts(self, value: Any) -> bool:
        if self.count is not None and not self.count.accepts(value):
            return False
        return self.bound.accepts_all([*self.flat(value)])


class Checked(Struct, frozen=True):
    """Checks the values of a request type, or of a struct in one. `nested`: its lists of structs with their checks."""

    plain: tuple[_Plain, ...]
    nested: tuple["_Nested", ...]

    def accepts_all(self, structs: Sequence[Any]) -> bool:
        """Whether everything in these structs is within its bounds."""
        return all(field.accepts_all(structs) for field in self.plain) and all(
            field.accepts_all(structs) for field in self.nested
        )

    def own_violation(self, struct: Any, where: str) -> BoundViolation | None:
        """Find the first field beyond its bounds, without those in nested structs; None if there is none."""
        fields: tuple[_Plain | _Nested, ...] = (*self.plain, *self.nested)
        found = (field.violation(struct, where) for field in fields)
        return next((violation for violation in found if violation is not None), None)

    def violation(self, struct: Any, where: str = "") -> BoundViolation | None:
        """Find the first field beyond its bounds, anywhere in the struct; None if there is none."""
        own = self.own_violation(struct, where)
        if own is not None or not self.nested:
            return own
        below = (
            field.check.violation(item, f"{where}{field.name}.")
            for field in self.nested
            for item in field.items(struct)
        )
        return next((violation for violation in below if violation is not None), None)


class _Nested(Struct, frozen=True):
    """Checks a field with a tuple of structs; None counts as empty."""

    name: str
    struct: type[Struct]
    check: Checked
    count: Count

    def items(self, struct: Any) -> Sequence[Any]:
        items: Sequence[Any] | None = getattr(struct, self.name)
        return () if items is None else items

    def accepts_all(self, structs: Sequence[Any]) -> bool:
        if not all(self.count.accepts(self.items(struct)) for struct in structs):
            return False
        items = [item for struct in structs for item in self.items(struct)]
        return not items or self.check.accepts_all(items)

    def violation(self, struct: Any, where: str) -> BoundViolation | None:
        """Make a violation if there are too many items; None if not."""
        return _too_many(f"{where}{self.name}", self.items(struct), self.count)


def count_violation(request: Any, name: str) -> BoundViolation | None:
    """Make a violation if this list of a request has too many items, whatever they are; None if not."""
    kind: Any = type(request)
    check = check_of(kind)
    items: Sequence[Any] = getattr(request, name) or ()
    fields: tuple[_Plain | _Nested, ...] = (*check.plain, *check.nested)
    count = next(field.count for field in fields if field.name == name)
    return None if count is None else _too_many(name, items, count)


def _too_many(where: str, items: Sequence[Any], count: Count) -> BoundViolation | None:
    if len(items) <= count.maximum:
        return None
    why = f"{len(items)} items: the {count.what} {count.rule}"
    return BoundViolation(where, f"{len(items)} items", ErrorCode.INVALID_REQUEST, why)


@cache
def check_of(struct: Any) -> Checked:
    """Derive the check of a request type, or of a struct in one. Fails an assertion if a field has no bound."""
    plain: list[_Plain] = []
    nested: list[_Nested] = []
    for name, annotation, _ in sent_fields(struct):
        items = annotation.item
        inner = items or annotation
        if Mark.CHECKED_BY_ITS_READER in annotation.marks or inner.type is bool:
            continue
        count = next((mark for mark in annotation.marks if isinstance(mark, Count)), bounds.ITEMS)
        if annotation.struct is not None:
            assert items is not None, f"{struct.__name__}.{name}: requests nest lists of structs only"
            nested.append(_Nested(name, annotation.struct, check_of(annotation.struct), count))
            continue
        bound = next((mark for mark in inner.marks if isinstance(mark, Bound)), None)
        assert bound is not None, f"{struct.__name__}.{name} has no bound: annotate it with one of {bounds.__name__}"
        plain.append(_plain(name, inner.type, bound, None if items is None else count))
    return Checked(tuple(plain), tuple(nested))


def _plain(name: str, type_: Any, bound: Bound, count: Count | None) -> _Plain:
    """Make the check of a field of this type, or of a list of it if there is a `count`.

    A map has one bound for all its keys and values.
    """
    get = attrgetter(name)
    if get_origin(type_) is dict:
        return _Plain(name, get, bound, bounds.ITEMS, _keys_and_values, False)
    if type_ is bytes:
        return _Plain(name, lambda value: len(get(value)), bound, None, _itself, True)
    return _Plain(name, get, bound, count, _itself if count is None else tuple, True)


def _itself(value: Any) -> Iterable[Any]:
    return (value,)


def _keys_and_values(value: dict[Any, Any]) -> Iterable[Any]:
    for key, item in value.items():
        yield key
        yield from item if isinstance(item, tuple) else (item,)
