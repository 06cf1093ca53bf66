"""Converts messages of many items in a thread, so that the event loop is not held meanwhile.

One thread for control requests and one for all others: more would only compete with the event loop. BD-9
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any, Final, TypeVar

from google.protobuf.message import Message
from msgspec import Struct

from cluster.rpc.call_kinds import CallKind
from cluster.rpc.codec import Codec

MANY_ITEMS: Final = 1000
"""Items, at all depths, that make a message a large one. About a millisecond on the event loop."""
BYTES_OF_ITEM: Final = 64
"""An estimate of what an item of a large response takes when it is encoded; most are numbers of a few bytes."""
_LARGE_BYTES: Final = 4096
"""A smaller message cannot have many items."""
_T = TypeVar("_T")

_control = ThreadPoolExecutor(1, "control-messages")
_others = ThreadPoolExecutor(1, "messages")


async def decode(codec: Codec, data: bytes, kind: CallKind) -> Any:
    """Decode a request. Raises ApiError(INVALID_REQUEST) that names the missing or invalid field."""
    message = codec.parse(data)
    if len(data) < _LARGE_BYTES or not _are_many(_lengths_in_message(message)):
        return codec.read(message)
    return await _in_thread(kind, lambda: codec.read(message))


def is_large(response: Struct) -> bool:
    """Whether the response is to be encoded by `encode`. Counts no further than it has to."""
    return _are_many(_lengths(response))


async def estimate_size(response: Struct, kind: CallKind) -> int:
    """About how many bytes a large response takes when it is encoded."""
    return BYTES_OF_ITEM * await _in_thread(kind, lambda: sum(_lengths(response)))


async def encode(codec: Codec, response: Struct, kind: CallKind) -> bytes:
    """Encode a large response."""
    return await _in_thread(kind, lambda: codec.encode(response))


def _are_many(lengths: Iterable[int]) -> bool:
    return any(total >= MANY_ITEMS for total in accumulate(lengths))


def _lengths(value: Any) -> Iterator[int]:
    """The length of each list in a struct, those of its items included."""
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            if _is_composed(field := getattr(value, name)):
                yield from _lengths(field)
        return
    yield len(value)
    items = value.values() if isinstance(value, dict) else value
    if _is_composed(next(iter(items), None)):
        for item in items:
            yield from _lengths(item)


def _lengths_in_message(message: Message) -> Iterator[int]:
    for field, value in message.ListFields():
        if not field.is_repeated:
            if field.message_type is not None:
                yield from _lengths_in_message(value)
            continue
        yield len(value)
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for item in value:
                yield from _lengths_in_message(item)


def _is_composed(value: object) -> bool:
    return isinstance(value, Struct | tuple | dict)


async def _in_thread(kind: CallKind, convert: Callable[[], _T]) -> _T:
    executor = _control if kind is CallKind.CONTROL else _others
    return await asyncio.get_running_loop().run_in_executor(executor, convert)
