"""Converts messages with many items in a thread: on the event loop, heartbeats and other calls would wait for it.

There is one thread for control requests, so that a LeaderAndIsr does not wait behind a client's request, and one for
all others; more would only compete with the event loop for the interpreter. BD-9
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
"""A message with this many items, at all depths, is large: it would take about a millisecond on the event loop."""
BYTES_OF_ITEM: Final = 64
"""An estimate of the encoded size of an item in a large response; most are numbers of a few bytes."""
_LARGE_BYTES: Final = 4096
"""A smaller message cannot have many items."""
_T = TypeVar("_T")

_control = ThreadPoolExecutor(1, "control-messages")
_others = ThreadPoolExecutor(1, "messages")


async def decode(codec: Codec, data: bytes, kind: CallKind) -> Any:
    """Decode a request. Raises ApiError(INVALID_REQUEST) that names the missing or invalid field."""
    # Parsed here: protobuf's own code is quick, and only the parsed message tells how many items there are.
    message = codec.parse(data)
    if len(data) < _LARGE_BYTES or not _are_many(_lengths_in_message(message)):
        return codec.read(message)
    return await _in_thread(kind, lambda: codec.read(message))


def is_large(response: Struct) -> bool:
    """Whether the response has so many items that `encode` must encode it. Stops counting when that is known."""
    return _are_many(_lengths(response))


async def estimate_size(response: Struct, kind: CallKind) -> int:
    """Estimate the encoded size of a large response, in bytes."""
    return BYTES_OF_ITEM * await _in_thread(kind, lambda: sum(_lengths(response)))


async def encode(encoder: Callable[[Any], bytes], response: Struct, kind: CallKind) -> bytes:
    """Encode a large response."""
    return await _in_thread(kind, lambda: encoder(response))


def _are_many(lengths: Iterable[int]) -> bool:
    return any(total >= MANY_ITEMS for total in accumulate(lengths))


def _lengths(value: Any) -> Iterator[int]:
    """Yield the length of each list in a struct and in its items."""
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
