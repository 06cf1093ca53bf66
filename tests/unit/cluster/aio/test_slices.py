"""Long loops let others have their turn, and large messages are converted in a thread."""

import sys
import threading
from types import FrameType
from typing import Any

import pytest
from msgspec import Struct

from cluster.aio.slices import SLICE, in_slices
from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.requests.data import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsResult
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.rpc.call_kinds import CallKind
from cluster.rpc.codec import Codec
from cluster.rpc.large_messages import BYTES_OF_ITEM, MANY_ITEMS, decode, encode, estimate_size, is_large
from cluster.rpc.methods import METHOD_OF_REQUEST
from tests.turns import turns_during

METHOD = METHOD_OF_REQUEST[ListOffsetsRequest]


@pytest.mark.rule("BD-9")
@pytest.mark.parametrize("count", [0, 1, SLICE, 10 * SLICE, 10 * SLICE + 1])
async def test_others_have_their_turn_after_each_slice(count: int) -> None:
    found: list[int] = []

    async def loop() -> None:
        found.extend([item async for item in in_slices(range(count))])

    assert await turns_during(loop()) == count // SLICE + 1
    assert found == list(range(count))


class _Threads:
    """A codec that also notes which threads convert."""

    def __init__(self, codec: Codec) -> None:
        self.used: list[str] = []

        def fill(message: Any, value: Any) -> None:
            self.used.append(threading.current_thread().name)
            codec.fill(message, value)

        def read(message: Any) -> Any:
            self.used.append(threading.current_thread().name)
            return codec.read(message)

        self.codec = codec._replace(fill=fill, read=read)


@pytest.mark.rule("BD-9")
@pytest.mark.parametrize(
    ("count", "kind", "thread"),
    [
        (3, CallKind.ADMIN, "MainThread"),
        (MANY_ITEMS - 1, CallKind.FETCH, "MainThread"),
        (MANY_ITEMS, CallKind.ADMIN, "messages_0"),
        (MANY_ITEMS, CallKind.CONTROL, "control-messages_0"),
    ],
)
async def test_messages_of_many_items_are_converted_off_the_event_loop(count: int, kind: CallKind, thread: str) -> None:
    request = ListOffsetsRequest(BrokerId(-1), tuple(ListOffsetsPartition("topic", n, -1) for n in range(count)))
    threads = _Threads(METHOD.request)
    assert await decode(threads.codec, METHOD.request.encode(request), kind) == request
    response = ListOffsetsResponse(tuple(ListOffsetsResult("topic", n, ErrorCode.NONE) for n in range(count)))
    answers = _Threads(METHOD.response)
    assert is_large(response) is (count == MANY_ITEMS)
    assert await encode(answers.codec.encode, response, kind) == METHOD.response.encode(response)
    assert threads.used == [thread]
    assert answers.used == ["control-messages_0" if kind is CallKind.CONTROL else "messages_0"]


class _Calls:
    """Counts what this thread calls; stands for how long it holds its event loop."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _frame: FrameType, event: str, _argument: Any) -> None:
        self.count += event in {"call", "c_call"}


@pytest.mark.rule("BD-9")
async def test_what_makes_a_message_large_is_found_without_counting_all_of_it() -> None:
    topics = tuple(NewTopic("t", assignments={n: (BrokerId(1),) for n in range(50)}) for _ in range(2 * MANY_ITEMS))
    data, calls = METHOD_OF_REQUEST[CreateTopicsRequest].request.encode(CreateTopicsRequest(topics)), _Calls()
    sys.setprofile(calls)
    try:
        request = await decode(METHOD_OF_REQUEST[CreateTopicsRequest].request, data, CallKind.ADMIN)
        assert is_large(request)
        size = await estimate_size(request, CallKind.ADMIN)
    finally:
        sys.setprofile(None)
    assert calls.count < 2 * MANY_ITEMS
    assert size == BYTES_OF_ITEM * 2 * MANY_ITEMS * (1 + 50 + 50)


@pytest.mark.rule("BD-9")
async def test_items_are_counted_at_all_depths() -> None:
    one = NewTopic("t", assignments={n: (BrokerId(1), BrokerId(2)) for n in range(MANY_ITEMS // 2)})
    request = CreateTopicsRequest((one, one))
    assert await estimate_size(request, CallKind.ADMIN) == BYTES_OF_ITEM * (2 + MANY_ITEMS + 2 * MANY_ITEMS)
    method = METHOD_OF_REQUEST[CreateTopicsRequest]
    threads = _Threads(method.request)
    assert await decode(threads.codec, method.request.encode(request), CallKind.ADMIN) == request
    assert threads.used == ["messages_0"]


async def test_plain_values_are_counted_once() -> None:
    class Plain(Struct, frozen=True):
        names: tuple[str, ...]
        text: str
        number: int | None = None

    assert await estimate_size(Plain(("a", "b"), "text"), CallKind.ADMIN) == 2 * BYTES_OF_ITEM
