"""Splits a request that a node refuses for its size, and so has not processed, and joins the responses."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from cluster.model.errors import RequestTooLargeError

_Request = TypeVar("_Request", bound=Struct)
_Response = TypeVar("_Response", bound=Struct)


async def send_in_parts(request: _Request, send: Callable[[_Request], Awaitable[_Response]]) -> _Response:
    """Send a request; if it is too large, send its items in several requests, one after the other.

    Raises RequestTooLargeError before it sends any part if a single item is too large. Raises what `send` raises; the
    parts sent before that were carried out.
    """
    try:
        return await send(request)
    except RequestTooLargeError as error:
        first, *others = _parts(request, error)
    response = await send(first)
    for part in others:
        response = _joined(response, await send(part))
    return response


def _parts(request: _Request, error: RequestTooLargeError) -> Iterator[_Request]:
    from cluster.rpc.methods import encode_request  # noqa: PLC0415 - gRPC loads slowly; the help of a command needs none.

    if len(encode_request(request)) <= error.limit:
        yield request
        return
    items = {name: value for name in request.__struct_fields__ if isinstance(value := getattr(request, name), tuple)}
    ((field, several),) = items.items() or ((None, ()),)
    middle = len(several) // 2
    if field is None or middle == 0:
        raise error
    for half in (several[:middle], several[middle:]):
        yield from _parts(replace(request, **{field: half}), error)


def _joined(one: _Response, other: _Response) -> _Response:
    """Join the lists of both responses, also within their plans; all else is as in the first."""
    changes: dict[str, Any] = {}
    for name in one.__struct_fields__:
        mine, others = getattr(one, name), getattr(other, name)
        if isinstance(mine, tuple):
            changes[name] = mine + others
        elif isinstance(mine, Struct):
            changes[name] = _joined(mine, others)
    return replace(one, **changes)
