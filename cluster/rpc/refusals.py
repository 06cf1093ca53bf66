"""Applies the bounds to a request before its handler sees it: refuses the items that are beyond them, or the request.

Where the response has a result per item, a bad item gets its error there and the others are handled. Where a request
between nodes has none, a bad item is left out, as one bad partition must not keep a broker from its others; the
response then has the error of the first. Everything else is refused as a whole. BD-1, BD-2
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import structlog
from msgspec import Struct
from msgspec.structs import fields, replace

from cluster.aio.off_loop import off_loop
from cluster.model.errors import ApiError
from cluster.rpc.methods import METHOD_OF_REQUEST
from cluster.rpc.request_bounds import BoundViolation, Checked, check_of

_NAMED_IN_LOG: Final = 3
_log = structlog.stdlib.get_logger()


async def handle_within_bounds(request: Any, handle: Callable[[Any], Awaitable[Any]]) -> Any:
    """Handle the part of a request that is within its bounds; the response has results for the refused items too.

    Raises ApiError that names field and value if the request is refused as a whole.
    """
    kind: Any = type(request)
    if kind not in METHOD_OF_REQUEST:
        return await handle(request)
    check, form = check_of(kind), _form_of(kind)
    sieve = _Sieve(form)
    violation, kept = await off_loop(sieve.sift, request, check)
    if violation is not None:
        _log.warning("Request refused", request=kind.__name__, why=violation.message)
        return _refuse(form, violation)
    if kept is request:
        return await handle(request)
    _log.warning(
        "Items of a request refused",
        request=kind.__name__,
        count=len(sieve.refused),
        first=[item.violation.message for item in sieve.refused[:_NAMED_IN_LOG]],
    )
    return await off_loop(_with_refusals, await handle(kept), form, sieve)


class _Form(NamedTuple):
    """Describes how a response reports errors.

    `results`: the field with a result for each item, empty if there is none; `path`: the lists that lead to these items
    in the request; `named`: the fields that a result takes from its item. `has_code`: whether the response has an error
    code of its own, as between nodes.
    """

    response: Any
    has_code: bool
    results: str = ""
    result: Any = None
    named: tuple[str, ...] = ()
    has_message: bool = False
    path: tuple[str, ...] = ()


class _Refused(NamedTuple):
    """Stands for an item that was left out.

    `chain`: the structs that lead to it, the request first. `position`: its position among all items that get a result,
    -1 if it gets none.
    """

    chain: tuple[Any, ...]
    violation: BoundViolation
    position: int


class _Sieve:
    """Removes the items that are beyond their bounds from one request."""

    def __init__(self, form: _Form) -> None:
        self._form = form
        self.refused: list[_Refused] = []
        self.items = 0
        """The number of items that get a result, refused or not."""

    def sift(self, request: Any, check: Checked) -> tuple[BoundViolation | None, Any]:
        """Return the violation of the whole request, or None and the request without what is beyond its bounds."""
        if check.accepts_all((request,)):
            return None, request
        violation = self.whole_violation(request, check)
        return violation, request if violation is not None else self.keep(request, check, (request,), ())

    def whole_violation(self, request: Any, check: Checked) -> BoundViolation | None:
        """Find the violation for which the request is refused as a whole; None if there is none."""
        if self._form.has_code or self._form.results:
            return check.own_violation(request, "")
        return check.violation(request)

    def keep(self, struct: Any, check: Checked, chain: tuple[Any, ...], path: tuple[str, ...]) -> Any:
        """Copy the struct without the items that are beyond their bounds."""
        changes = {}
        for nested in check.nested:
            here = (*path, nested.name)
            kept = [
                item
                for each in nested.items(struct)
                if (item := self._keep(each, nested.check, chain, here)) is not None
            ]
            if kept or nested.items(struct):
                changes[nested.name] = tuple(kept)
        return replace(struct, **changes)

    def _keep(self, item: Any, check: Checked, chain: tuple[Any, ...], path: tuple[str, ...]) -> Any:
        where = "".join(f"{name}." for name in path)
        chain = (*chain, item)
        is_above_results = len(path) < len(self._form.path) and self._form.path[: len(path)] == path
        if self._form.results and not is_above_results:
            violation = check.violation(item, where)
        else:
            violation = check.own_violation(item, where)
        if violation is not None:
            self._refuse(chain, violation, path)
            return None
        if path == self._form.path:
            self.items += 1
            return item
        return self.keep(item, check, chain, path)

    def _refuse(self, chain: tuple[Any, ...], violation: BoundViolation, path: tuple[str, ...]) -> None:
        """Refuse an item, or all items that get a result below it."""
        if path == self._form.path:
            self.refused.append(_Refused(chain, violation, self.items))
            self.items += 1
        elif self._form.path[: len(path)] == path:
            name = self._form.path[len(path)]
            for item in getattr(chain[-1], name) or ():
                self._refuse((*chain, item), violation, (*path, name))
        else:
            self.refused.append(_Refused(chain, violation, -1))


def _refuse(form: _Form, violation: BoundViolation) -> Any:
    if form.has_code and all(not f.required for f in fields(form.response) if f.name != "error_code"):
        return form.response(error_code=violation.code)
    raise ApiError(violation.code, violation.message, field=violation.field, value=violation.value)


def _with_refusals(response: Any, form: _Form, sieve: _Sieve) -> Any:
    """Add the results of the refused items to a response, in the order of the request."""
    if not form.results:
        code = response.error_code or sieve.refused[0].violation.code
        return replace(response, error_code=code)
    results = list(getattr(response, form.results))
    refused = [item for item in sieve.refused if item.position >= 0]
    is_complete = len(results) + len(refused) == sieve.items
    for item in refused:
        results.insert(item.position if is_complete else len(results), _result(form, item))
    return replace(response, **{form.results: tuple(results)})


def _result(form: _Form, refused: _Refused) -> Any:
    values = {name: _value(refused.chain, name) for name in form.named}
    if form.has_message:
        values["error_message"] = refused.violation.message
    return form.result(error_code=refused.violation.code, **values)


def _value(chain: Sequence[Any], name: str) -> Any:
    return next(getattr(struct, name) for struct in reversed(chain) if hasattr(struct, name))


@cache
def _form_of(request: Any) -> _Form:
    response: Any = METHOD_OF_REQUEST[request].response_type
    form = _Form(response, has_code="error_code" in response.__struct_fields__)
    for name, result in results_in(response):
        named = tuple(f.name for f in fields(result) if f.required and f.name not in {"error_code", "error_message"})
        path = _path_to(request, frozenset(named))
        if path:
            has_message = "error_message" in result.__struct_fields__
            form = form._replace(results=name, result=result, named=named, has_message=has_message, path=path)
    return form


def results_in(response: Any) -> Iterator[tuple[str, Any]]:
    """The lists of a type of responses whose items have an error code each, and the types of these items."""
    for name, annotation in get_type_hints(response).items():
        result = get_args(annotation)[0] if get_origin(annotation) is tuple else None
        if isinstance(result, type) and issubclass(result, Struct) and "error_code" in result.__struct_fields__:
            yield name, result


def _path_to(struct: type[Struct], wanted: frozenset[str]) -> tuple[str, ...]:
    """Find the lists that lead to the first structs that, together with those above them, have all these fields."""
    for nested in check_of(struct).nested:
        left = wanted - {*nested.struct.__struct_fields__}
        if not left:
            return (nested.name,)
        if below := _path_to(nested.struct, left):
            return (nested.name, *below)
    return ()
