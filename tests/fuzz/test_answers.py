"""Answers of servers that are nearly right, at every command that asks: a result or a message, never a traceback."""

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.cluster_under_fire import METHODS
from tests.fuzz.commands import run_command
from tests.fuzz.messages import Draw, messages, on_the_wire
from tests.fuzz.test_requests import known

_COMMANDS: Final = (
    "brokers alter 1 --config log.level=debug",
    "brokers describe",
    "brokers list",
    "brokers shutdown 1 --dry-run",
    "cluster describe",
    "cluster health",
    "cluster recover --dry-run",
    "cluster recover --execute --yes --accept-loss",
    "consume t --from-beginning --until-end",
    "elect preferred --all-topic-partitions",
    "elect unclean --topic t --partition 0",
    "features describe",
    "produce t --count 3",
    "reassign list",
    "story t-0",
    "topics alter t --partitions 3",
    "topics create new",
    "topics delete t --yes",
    "topics describe t",
    "topics list",
)
_ADDRESSES: Final = ("host", "address")
"""Words in the names of fields that say where to connect: this must stay on this machine."""


class Server(grpc.GenericRpcHandler):
    """Answers each call with the bytes that were set for its method."""

    def __init__(self) -> None:
        self.answers: dict[str, list[bytes]] = {}
        self._server = grpc.server(ThreadPoolExecutor(4), handlers=[self])
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def service(self, details: Any) -> Any:
        answers = self.answers.get(details.method.rpartition("/")[2], [b""])
        if METHODS[details.method.rpartition("/")[2]].streams:
            return grpc.unary_stream_rpc_method_handler(lambda _request, _call: iter(answers))
        return grpc.unary_unary_rpc_method_handler(lambda _request, _call: answers[0])

    def stop(self) -> None:
        self._server.stop(None)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


@st.composite
def answers(draw: Draw, port: int) -> dict[str, list[bytes]]:
    """Of every method."""
    return {name: [draw(answer(name, port)) for _ in range(1 + method.streams)] for name, method in METHODS.items()}


@st.composite
def answer(draw: Draw, name: str, port: int) -> bytes:
    values = {**known(), "error_code": [0, 0, 0, 0, 3, 6, 41], "port": [port, port, 1]}
    message = draw(messages(METHODS[name].response.message_class.DESCRIPTOR, values))
    _stay_here(message, port)
    return message.SerializeToString() if draw(st.integers(0, 9)) else draw(on_the_wire(message))


def _stay_here(message: Any, port: int) -> None:
    for field, value in message.ListFields():
        if field.message_type is not None:
            inner = value.values() if field.message_type.GetOptions().map_entry else value
            for item in inner if field.is_repeated else [value]:
                if hasattr(item, "ListFields"):
                    _stay_here(item, port)
        elif any(word in field.name for word in _ADDRESSES):
            here = "127.0.0.1" if field.name.endswith("host") else f"127.0.0.1:{port}"
            setattr(message, field.name, here)


@fuzz(examples=40)
@given(st.data())
def test_answers(server: Server, data: st.DataObject) -> None:
    count_case("answers")
    server.answers = data.draw(answers(server.port))
    command = data.draw(st.sampled_from(_COMMANDS)).split()
    form = data.draw(st.sampled_from(("", "json")))
    with tempfile.TemporaryDirectory() as folder:
        before = Path.cwd()
        os.chdir(folder)
        try:
            run_command(
                [
                    *command,
                    "--bootstrap",
                    f"127.0.0.1:{server.port}",
                    "--timeout",
                    "0.5",
                    *(("-o", form) if form else ()),
                ]
            )
        finally:
            os.chdir(before)
