"""Searching the nodes of a cluster ends, whatever they name and in whatever order they answer."""

import asyncio
from collections.abc import Mapping

import pytest

from admin.connecting.node_search import Describe, NodeSearch, first_answer
from cluster.model.broker import ControllerEpoch, ControllerId
from cluster.model.errors import PeerUnreachableError
from cluster.requests.cluster import DescribeClusterResponse, DescribedController

CONTROLLER, STANDBY, BROKER = "controller:1", "standby:1", "broker:1"


def nodes(named: Mapping[str, str | None], pauses: Mapping[str, float]) -> Describe:
    """Each node names an active controller, after a while; None: it does not answer."""

    async def describe(address: str) -> DescribeClusterResponse:
        await asyncio.sleep(pauses.get(address, 0))
        controller = named[address]
        if controller is None:
            raise PeerUnreachableError(address, "connection refused")
        return DescribeClusterResponse("id", ControllerId(1001), controller, ControllerEpoch(1), ())

    return describe


@pytest.mark.parametrize("slowest", [CONTROLLER, STANDBY, BROKER])
@pytest.mark.parametrize("known", [(CONTROLLER, STANDBY, BROKER), (STANDBY,), (BROKER, STANDBY)])
async def test_nodes_that_name_a_controller_that_was_asked_already_end_the_search(
    slowest: str, known: tuple[str, ...]
) -> None:
    search = NodeSearch(known, {})
    named = {CONTROLLER: CONTROLLER, STANDBY: CONTROLLER, BROKER: CONTROLLER}
    assert await search.first(nodes(named, {slowest: 0.01}), lambda node: bool(node.brokers)) is None


async def test_a_controller_that_is_named_and_does_not_answer_ends_the_search() -> None:
    search = NodeSearch([STANDBY, BROKER], {})
    named = {CONTROLLER: None, STANDBY: CONTROLLER, BROKER: CONTROLLER}
    assert await search.first(nodes(named, {BROKER: 0.01}), lambda node: bool(node.brokers)) is None
    assert str(search.failure()).count("connection refused") == 1


async def test_controllers_that_do_not_stand_for_election_say_why() -> None:
    async def describe(address: str) -> DescribeClusterResponse:
        own = ControllerId(int(address[-1]))
        waiting = DescribedController(own, address, "waits for 'klamm adopt --execute'")
        return DescribeClusterResponse(
            "id", ControllerId(-1), "", ControllerEpoch(1), (), own, "controller", (waiting,), "kafka"
        )

    search = NodeSearch(["c:1", "c:2"], {})
    assert await search.first(describe, lambda node: bool(node.brokers)) is None
    assert str(search.failure()).endswith(
        ": controllers 1, 2 running, but not standing for election (waits for 'klamm adopt --execute')"
    )


async def test_a_silent_node_does_not_keep_the_next_from_being_asked() -> None:
    asked: list[str] = []

    async def ask(address: str) -> str | None:
        asked.append(address)
        match address:
            case "silent":
                await asyncio.Event().wait()
            case "knows nothing":
                return None
        return address

    assert await first_answer(["silent", "knows nothing", "answers", "is not needed"], ask) == "answers"
    assert asked == ["silent", "knows nothing", "answers"]
    assert await first_answer(["knows nothing"], ask) is None
    assert await first_answer([], ask) is None
