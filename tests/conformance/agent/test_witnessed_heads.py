"""Heads of state-change logs in control requests: an agent records the controller's, and responds with its own."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.errors import ErrorCode
from cluster.requests.control import LeaderAndIsrRequest, StateLogHead, StopReplicaRequest, UpdateMetadataRequest
from state_log.record import Kind, Witness
from tests.brokers.agents import AgentProcess, AgentWorld, virtually

REQUESTS = [LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest]
HEAD = StateLogHead("controller-1001", "1700000000000.7", 41, "ab" * 32, "boot")
OWN = StateLogHead("broker-1", "1700000000001.8", 9, "cd" * 32)


async def send(process: AgentProcess, request: type, head: StateLogHead | None, epoch: int = 1) -> Any:
    return await process.handle(request(1001, epoch, process.agent.registration.epoch, state_log_head=head))


def witnesses(process: AgentProcess) -> list[Witness | None]:
    return [change.witness for change in process.records.all if change.kind is Kind.WITNESS]


@pytest.mark.rule("D-50")
@pytest.mark.parametrize("request_type", REQUESTS)
def test_the_controllers_head_is_recorded_and_the_own_one_sent_back(request_type: type) -> None:
    @virtually
    async def run() -> None:
        world = AgentWorld()
        await world.start(1)
        process = world.agents[1]
        assert (await send(process, request_type, HEAD)).state_log_head is None
        process.records.flushed_head = OWN
        response = await send(process, request_type, replace(HEAD, seq=42))
        assert (response.error_code, response.state_log_head) == (ErrorCode.NONE, OWN)
        # Ten seconds later the head is recorded again, as it is then.
        await asyncio.sleep(10)
        await send(process, request_type, replace(HEAD, seq=57))
        await send(process, request_type, replace(HEAD, seq=58))
        first = Witness(HEAD.node, HEAD.incarnation, 41, HEAD.digest, "boot")
        assert witnesses(process) == [first, replace(first, seq=57)]
        await world.stop()

    run()


@pytest.mark.rule("D-50")
@pytest.mark.parametrize("request_type", REQUESTS)
@pytest.mark.parametrize(
    "head",
    [
        None,
        StateLogHead(),
        replace(HEAD, node="controller-1002"),
        replace(HEAD, digest="x" * 100_000),
        replace(HEAD, incarnation="\ud7ff" * 50_000),
        replace(HEAD, seq=-(1 << 63)),
        replace(HEAD, boot_id="\0"),
    ],
    ids=["none", "empty", "another node", "long digest", "long incarnation", "negative number", "control character"],
)
def test_a_malformed_head_fails_no_request_and_is_not_recorded(request_type: type, head: StateLogHead | None) -> None:
    @virtually
    async def run() -> None:
        world = AgentWorld()
        await world.start(1)
        process = world.agents[1]
        assert (await send(process, request_type, head)).error_code is ErrorCode.NONE
        assert witnesses(process) == []
        await world.stop()

    run()


@virtually
async def test_the_head_in_a_refused_request_is_not_recorded() -> None:
    world = AgentWorld()
    await world.start(1)
    process = world.agents[1]
    await send(process, UpdateMetadataRequest, None, epoch=7)
    assert (await send(process, UpdateMetadataRequest, HEAD, epoch=6)).error_code is not ErrorCode.NONE
    assert witnesses(process) == []
    await world.stop()
