"""ISR proposals that loop without effect are findings of the broker, until one is decided."""

import asyncio

import pytest

from broker_agent.replication.controller_isr_proposals import UNREACHED_MAX_S
from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.requests.cluster import DescribeFindingsRequest, Finding
from tests.brokers.agents import CONTROLLER_ENDPOINTS, TP, AgentProcess, AgentWorld, refuse, virtually


async def findings(agent: AgentProcess) -> list[Finding]:
    return list((await agent.handle(DescribeFindingsRequest())).findings)


@pytest.mark.rule("R8.28")
@virtually
async def test_a_proposal_that_the_controller_refuses_for_ever_is_a_finding_until_it_is_decided() -> None:
    """As after a restore of ZooKeeper, where the epochs of the leader are newer than the controller's."""
    world = AgentWorld()
    world.controller.answer = lambda item: refuse(item, ErrorCode.NOT_CONTROLLER)
    await world.start(1, 2)
    await world.create(1, [1, 2])
    await world.agents[2].crash()
    await world.agents[1].produce()
    await asyncio.sleep(40)
    assert await findings(world.agents[1]) == []
    await asyncio.sleep(40)
    (found,) = await findings(world.agents[1])
    assert (found.kind, found.topic, found.partition, found.broker) == ("stuck_isr_change", *TP, 1)
    assert found.detail.startswith("broker 1 has proposed another ISR for ")
    assert found.detail.endswith("the controller answers NOT_CONTROLLER")
    world.controller.answer = world.accept
    await asyncio.sleep(1)
    assert await findings(world.agents[1]) == []
    assert world.agents[1].partition().isr == (BrokerId(1),)
    del world.agents[2]
    await world.stop()


@pytest.mark.rule("R8.28")
@virtually
async def test_a_proposal_whose_request_failed_is_a_finding_within_seconds_of_the_failure() -> None:
    """The controller is not there, as after a cut that the connection has noticed."""
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])
    world.network.detach(CONTROLLER_ENDPOINTS[1])
    await world.agents[2].crash()
    await world.agents[1].produce()
    lag_s = world.settings.replica_lag_time_max_ms / 1000
    await asyncio.sleep(lag_s - 1)
    assert await findings(world.agents[1]) == []
    # The ISR is checked every half of that time; then the proposal waits.
    await asyncio.sleep(lag_s / 2 + 1 + UNREACHED_MAX_S + 1)
    (found,) = await findings(world.agents[1])
    assert (found.kind, found.topic, found.partition, found.broker) == ("stuck_isr_change", *TP, 1)
    assert found.detail.endswith("s without effect: controller controller:9091 does not respond: connection refused")
    world.network.attach(CONTROLLER_ENDPOINTS[1], world.controller)
    await asyncio.sleep(1)
    assert await findings(world.agents[1]) == []
    del world.agents[2]
    await world.stop()


@pytest.mark.rule("R8.28")
@virtually
async def test_a_refusal_of_the_whole_request_is_named() -> None:
    world = AgentWorld()
    world.controller.top_level = ErrorCode.STALE_BROKER_EPOCH
    await world.start(1, 2)
    await world.create(1, [1, 2])
    await world.agents[2].crash()
    await world.agents[1].produce()
    await asyncio.sleep(90)
    (found,) = await findings(world.agents[1])
    assert found.detail.endswith("answers STALE_BROKER_EPOCH")
    del world.agents[2]
    await world.stop()
