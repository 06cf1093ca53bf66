"""A leader that does not answer, and a ZooKeeper that does not, are findings of the broker that waits for them."""

import asyncio

import pytest

from broker_agent.registration.session_keeper import RECONNECT_MAX_S
from broker_agent.replication.leader_silence import UNANSWERED_MAX_S
from cluster.model.broker import BrokerId
from cluster.requests.cluster import DescribeFindingsRequest, Finding
from tests.brokers.agents import TP, AgentProcess, AgentWorld, until, virtually
from tests.brokers.followers import LEADER_ENDPOINT, data, follow


async def findings(agent: AgentProcess) -> list[tuple[str, BrokerId, str]]:
    found: tuple[Finding, ...] = (await agent.handle(DescribeFindingsRequest())).findings
    return [(finding.kind, finding.broker, finding.detail) for finding in found]


@pytest.mark.rule("R5.31")
@virtually
async def test_a_leader_that_cannot_be_asked_is_a_finding_with_the_reason_until_it_answers() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    world.network.detach(LEADER_ENDPOINT)
    await asyncio.sleep(UNANSWERED_MAX_S - 1)
    assert await findings(follower) == []
    await asyncio.sleep(2)
    ((kind, broker, detail),) = await findings(follower)
    assert (kind, broker) == ("unanswered_fetches", 1)
    assert detail == (
        "broker 1 follows broker 2 in 1 partition, and has had no answer from it for 4 s; the last attempt: "
        "broker-2:9092: connection refused; if both brokers are well, see the network between them"
    )
    for _ in range(2):  # The request that was lost takes one.
        leader.answers.put_nowait(data(0, 1))
    world.network.attach(LEADER_ENDPOINT, leader)
    await asyncio.sleep(2)
    assert follower.offsets()[1] == 1
    assert await findings(follower) == []
    await world.stop()


@pytest.mark.rule("R5.31")
@virtually
async def test_a_leader_that_is_slow_is_none() -> None:
    """It has been asked, and no attempt has failed: it may be paused, or its disk slow."""
    world = AgentWorld()
    follower, _ = await follow(world)
    await asyncio.sleep(20)
    assert await findings(follower) == []
    await world.stop()


@pytest.mark.rule("R5.4", "R5.27")
@virtually
async def test_a_partition_that_is_not_fetched_any_more_is_a_finding_with_the_reason() -> None:
    world = AgentWorld()
    follower, leader = await follow(world)
    leader.answers.put_nowait(data(7))
    leader.answers.put_nowait(data(0, 2))
    leader.answers.put_nowait(data(0))
    await until(lambda: follower.agent.fetchers.failed == (TP,))
    ((kind, broker, detail),) = await findings(follower)
    assert (kind, broker) == ("stuck_follower", 1)
    assert detail == (
        "broker 1 does not fetch orders-0 from its leader any more, until it has a new one: UNKNOWN_SERVER_ERROR: base"
        " offset 0 is below 8, where the preceding batch ends; restart the broker"
    )
    await world.stop()


@pytest.mark.rule("R1.20")
@virtually
async def test_a_lost_connection_to_zookeeper_is_a_finding_before_the_session_ends() -> None:
    world = AgentWorld()
    await world.start(1)
    agent = world.agents[1]
    agent.zookeeper.disconnect(5)
    await asyncio.sleep(RECONNECT_MAX_S / 2)
    assert await findings(agent) == []
    await asyncio.sleep(RECONNECT_MAX_S)
    ((kind, broker, detail),) = await findings(agent)
    assert (kind, broker) == ("zookeeper_disconnected", 1)
    assert detail.startswith("broker 1 has had no answer from ZooKeeper for 2 s; when its session ends ")
    await asyncio.sleep(10)
    assert await findings(agent) == []
    await world.stop()
