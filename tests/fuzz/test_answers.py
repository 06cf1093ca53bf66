"""Answers of servers that are nearly right, at every command that asks: a result or a message, never a traceback."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from typing import Any, Final

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, Endpoint
from cluster.requests.cluster import DescribeClusterResponse, DescribedBroker
from tests.fuzz.budget import count_case, fuzz
from tests.fuzz.cluster_under_fire import METHODS
from tests.fuzz.commands import run_command
from tests.fuzz.messages import Draw, messages, on_the_wire
from tests.fuzz.test_requests import known

_DESCRIBE: Final = "DescribeCluster"
_DATA: Final = ("DescribeTopics", "Metadata", "ListOffsets", "Produce", "Fetch")
_COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "brokers alter 1 --config log.level=debug": ("AlterConfigs", "DescribeConfigs"),
    "brokers describe": ("DescribeConfigs",),
    "brokers list": (),
    "brokers shutdown 1 --dry-run": ("PlanControlledShutdown",),
    "cluster describe": (),
    "cluster health": ("DescribeFindings", "DescribeTopics", "DescribeReassignments"),
    "cluster recover --dry-run": ("PlanClusterRecovery",),
    "cluster recover --execute --yes --accept-loss": ("RecoverCluster",),
    "consume t --from-beginning --until-end": _DATA,
    "elect preferred --all-topic-partitions": ("ElectLeaders",),
    "elect preferred --topic t": ("DescribeTopics", "ElectLeaders"),
    "elect unclean --topic t --partition 0": ("ElectLeaders",),
    "features describe": ("DescribeFeatures",),
    "features upgrade --feature x=1": ("DescribeFeatures", "UpdateFeatures", "PlanFeatureUpdates"),
    "produce t --count 3": _DATA,
    "reassign generate --topic t --broker-list 1,2": ("DescribeTopics",),
    "reassign list": ("DescribeReassignments", "ListPartitionReassignments"),
    "story t-0": ("DescribeTopics", "ReadStateChanges"),
    "topics alter t --config retention.ms=1": ("AlterConfigs",),
    "topics alter t --partitions 3": ("CreatePartitions",),
    "topics alter t --partitions 1 --replica-assignment 1:2": ("DescribeTopics", "CreatePartitions"),
    "topics create new": ("CreateTopics",),
    "topics delete t --yes": ("DeleteTopics", "DescribeTopicDeletions"),
    "topics describe t": ("DescribeTopics", "DescribeConfigs"),
    "topics list": ("ListTopics", "DescribeTopicDeletions"),
}
"""The calls that a command may make besides DescribeCluster; others are not implemented by the server here."""
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
        name = details.method.rpartition("/")[2]
        answers = self.answers.get(name)
        if not answers:
            return None
        if METHODS[name].streams:
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
def answers(draw: Draw, calls: tuple[str, ...], port: int) -> dict[str, list[bytes]]:
    """Of these calls; the cluster is mostly described as it is, so that a command goes on to its own call."""
    found = {name: [draw(answer(name, port)) for _ in range(1 + METHODS[name].streams)] for name in calls}
    described = draw(answer(_DESCRIBE, port)) if draw(st.integers(0, 3)) == 0 else sound_description(port)
    return {**found, _DESCRIBE: [described]}


def sound_description(port: int) -> bytes:
    brokers = [DescribedBroker(BrokerId(n), Endpoint("127.0.0.1", port), BrokerEpoch(n)) for n in (1, 2, 3)]
    described = DescribeClusterResponse(
        "cluster",
        ControllerId(1001),
        f"127.0.0.1:{port}",
        ControllerEpoch(1),
        tuple(brokers),
        node_id=1001,
        node_role="controller",
    )
    return METHODS[_DESCRIBE].response.encode(described)


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


@pytest.mark.parametrize("command", sorted(_COMMANDS))
def test_answers_without_results(server: Server, command: str) -> None:
    server.answers = {call: [b""] for call in _COMMANDS[command]} | {_DESCRIBE: [sound_description(server.port)]}
    run_command([*command.split(), "--bootstrap", f"127.0.0.1:{server.port}", "--timeout", "0.5"])


@fuzz(examples=40)
@given(st.data())
def test_answers(server: Server, data: st.DataObject) -> None:
    count_case("answers")
    command = data.draw(st.sampled_from(sorted(_COMMANDS)))
    server.answers = data.draw(answers(_COMMANDS[command], server.port))
    form = data.draw(st.sampled_from(("", "json")))
    reached = ["--bootstrap", f"127.0.0.1:{server.port}", "--timeout", "0.5"]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        run_command([*command.split(), *reached, *(("-o", form) if form else ())])
