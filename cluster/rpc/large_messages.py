"""Converts messages of many items in a thread, so that the event loop is not held meanwhile.

One thread for control requests and one for all others: more would only compete with the event loop. BD-9
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
    if len(data) < _LARGE_BYTES or _items_of_message(message) < MANY_ITEMS:
        return codec.read(message)
    return await _in_thread(kind, lambda: codec.read(message))


async def encode(codec: Codec, value: Struct, kind: CallKind, items: int) -> bytes:
    """Encode a response; `items`: how many it has."""
    if items < MANY_ITEMS:
        return codec.encode(value)
    return await _in_thread(kind, lambda: codec.encode(value))


def items_of(value: Any) -> int:
    """Number of items in all lists of a struct, those of its items included."""
    if isinstance(value, Struct):
        return sum(items_of(field) for name in value.__struct_fields__ if _is_composed(field := getattr(value, name)))
    items = value.values() if isinstance(value, dict) else value
    first = next(iter(items), None)
    return len(value) + (sum(map(items_of, items)) if _is_composed(first) else 0)


def _items_of_message(message: Message) -> int:
    count = 0
    for field, value in message.ListFields():
        if field.is_repeated:
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            count += len(value)
            if field.message_type is not None and not is_map:
                count += sum(map(_items_of_message, value))
        elif field.message_type is not None:
            count += _items_of_message(value)
    return count


def _is_composed(value: object) -> bool:
    return isinstance(value, Struct | tuple | dict)


async def _in_thread(kind: CallKind, convert: Callable[[], _T]) -> _T:
    executor = _control if kind is CallKind.CONTROL else _others
    return await asyncio.get_running_loop().run_in_executor(executor, convert)
