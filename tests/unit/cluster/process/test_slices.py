"""Long loops let others have their turn, and large messages are converted in a thread."""

import threading
from typing import Any

import pytest
from msgspec import Struct

from cluster.broker import BrokerId
from cluster.errors import ErrorCode
from cluster.process.slices import SLICE, in_slices
from cluster.requests.data import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsResult
from cluster.requests.topics import CreateTopicsRequest, NewTopic
from cluster.rpc.call_kinds import CallKind
from cluster.rpc.codec import Codec
from cluster.rpc.large_messages import MANY_ITEMS, decode, encode, items_of
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
    assert items_of(response) == count
    assert await encode(answers.codec, response, kind, count) == METHOD.response.encode(response)
    assert threads.used == answers.used == [thread]


@pytest.mark.rule("BD-9")
async def test_items_are_counted_at_all_depths() -> None:
    one = NewTopic("t", assignments={n: (BrokerId(1), BrokerId(2)) for n in range(MANY_ITEMS // 2)})
    request = CreateTopicsRequest((one, one))
    assert items_of(request) == 2 + MANY_ITEMS + 2 * MANY_ITEMS
    method = METHOD_OF_REQUEST[CreateTopicsRequest]
    threads = _Threads(method.request)
    assert await decode(threads.codec, method.request.encode(request), CallKind.ADMIN) == request
    assert threads.used == ["messages_0"]


def test_plain_values_are_counted_once() -> None:
    class Plain(Struct, frozen=True):
        names: tuple[str, ...]
        text: str
        number: int | None = None

    assert items_of(Plain(("a", "b"), "text")) == 2
