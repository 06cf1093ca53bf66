"""Reports of damaged replicas: who leads afterwards, who waits, and what each replica is answered."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.agents import RECOVERY, SCRUB, UNCLEAN_SHUTDOWN
from cluster.requests.cluster import DescribeFindingsRequest
from cluster.requests.control import LeaderAndIsrRequest
from cluster.requests.elections import PREFERRED, UNCLEAN, ElectLeadersRequest, ElectLeadersTopic
from simulator.cluster import VirtualClock
from state_log.record import Kind
from tests.controllers.damage_reports import propose, report
from tests.controllers.refused_writes import Refusal, WriteRefusals
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

E = ErrorCode
T0 = TopicPartition("t", 0)
Test = Callable[[World, RunningController], Awaitable[None]]


def with_topic(test: Test, *replicas: int, brokers: tuple[int, ...] = (1, 2, 3)) -> None:
    """Run a test on topic t with one partition on these brokers, all in sync."""

    async def main() -> None:
        world, c = await running_cluster(*brokers, auto_leader_rebalance_enable=False)
        await world.create_topic("t", list(replicas))
        await world.leads("t", leader=replicas[0])
        await test(world, c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-40")
def test_a_broker_with_damage_joins_when_it_has_reported() -> None:
    async def test(world: World, c: RunningController) -> None:
        await world.start_broker(4, damaged=True)
        await quiesce(5)
        assert 4 not in c.context.brokers.live_ids
        assert await report(world, c, 4, topic="gone") == [E.NONE, E.NONE]
        assert 4 in c.context.brokers.live_ids
        assert await report(world, c, 4, epoch=1) == [E.STALE_BROKER_EPOCH]
        assert await report(world, c, 9, epoch=7) == [E.STALE_BROKER_EPOCH]

    with_topic(test, 1, 2)


@pytest.mark.rule("D-40")
@pytest.mark.parametrize("found_by", [RECOVERY, SCRUB])
def test_another_member_of_the_isr_leads_instead_of_a_damaged_leader(found_by: str) -> None:
    async def test(world: World, c: RunningController) -> None:
        before = await world.state("t")
        assert before is not None
        assert await report(world, c, 1, found_by) == [E.NONE, E.NONE]
        after = await world.leads("t", leader=2, isr=[2, 3])
        assert after.leader_epoch == before.leader_epoch + 1
        await quiesce()
        for broker in (1, 2, 3):
            received = c.brokers.of(broker, LeaderAndIsrRequest)[-1].topic_states[0].partition_states[0]
            assert (received.leader, received.isr, received.leader_epoch) == (2, (2, 3), after.leader_epoch)
        assert c.sink.of(Kind.PARTITION)[-1].reason == found_by

    with_topic(test, 1, 2, 3)


@pytest.mark.rule("D-40")
def test_a_damaged_follower_leaves_the_isr_and_its_leader_stays() -> None:
    async def test(world: World, c: RunningController) -> None:
        assert await report(world, c, 3) == [E.NONE, E.NONE]
        shrunk = await world.leads("t", leader=1, isr=[1, 2])
        # Out of the ISR a replica that was cut has only to follow; one to be fetched anew needs a leader epoch.
        assert await report(world, c, 3) == [E.NONE, E.NONE]
        assert await world.state("t") == shrunk
        assert await report(world, c, 3, SCRUB) == [E.NONE, E.NONE]
        again = await world.leads("t", leader=1, isr=[1, 2])
        assert again.leader_epoch == shrunk.leader_epoch + 1

    with_topic(test, 1, 2, 3)


@pytest.mark.rule("D-40")
def test_damage_of_an_earlier_topic_and_of_unassigned_replicas_changes_nothing() -> None:
    async def test(world: World, c: RunningController) -> None:
        before = await world.state("t")
        assert await report(world, c, 1, topic_id="BBBBBBBBBBBBBBBBBBBBBQ") == [E.NONE, E.NONE]
        assert await report(world, c, 3) == [E.NONE, E.NONE]
        assert await world.state("t") == before

    with_topic(test, 1, 2)


async def alone_and_damaged(world: World, c: RunningController) -> None:
    """Broker 1 was the last one in sync; it is back, with damage."""
    await propose(world, c, 1)
    await world.stop_broker(2)
    await quiesce()
    await world.stop_broker(1)
    await world.leads("t", leader=-1, isr=[1])
    await world.start_broker(1, damaged=True)
    await quiesce()
    assert await report(world, c, 1) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    await world.leads("t", leader=-1, isr=[1])


@pytest.mark.rule("D-41")
def test_a_damaged_replica_alone_in_sync_waits_and_is_then_elected() -> None:
    async def test(world: World, c: RunningController) -> None:
        await alone_and_damaged(world, c)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await quiesce(30)
        # A repeated report does not prolong it; another broker that is not in sync does not lead.
        assert await report(world, c, 1) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        await world.start_broker(2)
        await quiesce(5)
        await world.leads("t", leader=-1, isr=[1])
        await world.leads("t", leader=1, isr=[1])
        assert 55 < loop.time() - began < 65
        assert await report(world, c, 1) == [E.NONE, E.NONE]

    with_topic(test, 1, 2)


@pytest.mark.rule("D-41")
def test_whoever_asks_for_an_unclean_election_does_not_wait() -> None:
    async def test(world: World, c: RunningController) -> None:
        await alone_and_damaged(world, c)
        await c.ask(ElectLeadersRequest(UNCLEAN, (ElectLeadersTopic("t", (0,)),), timeout_ms=1000))
        await world.leads("t", leader=1, isr=[1])

    with_topic(test, 1, 2)


@pytest.mark.rule("D-41", "PS-23")
def test_a_damaged_replica_that_waits_is_not_elected_for_being_preferred() -> None:
    """Neither when somebody asks for the preferred leaders, nor by the automatic rebalance."""

    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, leader_imbalance_check_interval_seconds=3)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await alone_and_damaged(world, c)
        answer = await c.ask(ElectLeadersRequest(PREFERRED, (ElectLeadersTopic("t", (0,)),), timeout_ms=1000))
        assert answer.results[0].partition_result[0].error_code is E.PREFERRED_LEADER_NOT_AVAILABLE
        await quiesce(30)
        await world.leads("t", leader=-1, isr=[1])
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-41")
def test_a_leader_alone_in_sync_goes_on_until_another_one_is() -> None:
    async def test(world: World, c: RunningController) -> None:
        await propose(world, c, 1)
        alone = await world.leads("t", leader=1, isr=[1])
        assert await report(world, c, 1, SCRUB) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        assert await world.state("t") == alone
        await propose(world, c, 1, 2)
        assert await report(world, c, 1, SCRUB) == [E.NONE, E.NONE]
        await world.leads("t", leader=2, isr=[2])

    with_topic(test, 1, 2)


@pytest.mark.rule("D-41")
def test_the_next_controller_waits_for_a_report_of_its_own() -> None:
    async def test(world: World, c: RunningController) -> None:
        await alone_and_damaged(world, c)
        c.crash()
        successor = world.start_controller(1002)
        await until(lambda: successor.is_active, "another controller")
        await quiesce(5)
        await world.leads("t", leader=-1, isr=[1])
        assert await report(world, successor, 1) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        await quiesce(5)
        await world.leads("t", leader=1, isr=[1])
        await successor.stop()

    async def main() -> None:
        world, c = await running_cluster(1, 2, 3, auto_leader_rebalance_enable=False)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await test(world, c)

    run_virtually(main)


async def waiting_finding(c: RunningController) -> str:
    (finding,) = (await c.ask(DescribeFindingsRequest())).findings
    assert (finding.kind, finding.topic, finding.partition, finding.broker) == ("damaged_replica_waits", "t", 0, 1)
    detail: str = finding.detail
    return detail


@pytest.mark.rule("D-41")
@pytest.mark.parametrize(
    ("replicas", "isr", "advice"),
    [
        ((1, 2), (1,), "no other replica is in sync; if broker 2 may have the records, start it before"),
        ((1,), (1,), "there is no other replica; if the files of the log can be restored, stop the broker before"),
    ],
)
def test_a_replica_that_waits_says_until_when_and_what_can_be_done(
    replicas: tuple[int, ...], isr: tuple[int, ...], advice: str
) -> None:
    async def test(world: World, c: RunningController) -> None:
        if isr != replicas:
            await propose(world, c, *isr)
        for broker in (1, 2):
            await world.stop_broker(broker)
        await world.leads("t", leader=-1)
        await world.start_broker(1, damaged=True)
        await quiesce()
        began_ms = VirtualClock().now_ms()
        await report(world, c, 1)
        await quiesce(20)
        await report(world, c, 1)
        detail = await waiting_finding(c)
        until_s = datetime.fromtimestamp((began_ms + 60_000) / 1000, UTC).strftime("%H:%M:%S UTC")
        assert f"its offsets 3..8 are damaged; it is elected at {until_s}" in detail
        assert advice in detail

    with_topic(test, *replicas)


@pytest.mark.rule("D-42")
def test_a_broker_that_never_names_its_damaged_replicas_is_a_finding() -> None:
    async def test(world: World, c: RunningController) -> None:
        await world.start_broker(4, damaged=True)
        await quiesce(20)
        assert (await c.ask(DescribeFindingsRequest())).findings == ()
        await world.start_broker(5)
        await quiesce(15)
        (finding,) = (await c.ask(DescribeFindingsRequest())).findings
        assert (finding.kind, finding.broker) == ("unreported_damage", 4)
        assert "has not joined: for 3" in finding.detail
        await world.stop_broker(4)
        await quiesce()
        assert (await c.ask(DescribeFindingsRequest())).findings == ()
        await world.start_broker(4, damaged=True)
        await quiesce(40)
        assert len((await c.ask(DescribeFindingsRequest())).findings) == 1
        await report(world, c, 4)
        assert (await c.ask(DescribeFindingsRequest())).findings == ()

    with_topic(test, 1, 2)


@pytest.mark.rule("D-40")
def test_the_controller_logs_when_a_damaged_replica_is_back() -> None:
    async def test(world: World, c: RunningController) -> None:
        await report(world, c, 3)
        await world.leads("t", leader=1, isr=[1, 2])
        with capture_logs() as lines:
            await propose(world, c, 1, 2, 3)
            await propose(world, c, 1, 2)
            await propose(world, c, 1, 2, 3)
        healed = [line for line in lines if line["event"].startswith("Damaged replica is healed")]
        assert [(line["log_level"], line["partition"], line["broker"]) for line in healed] == [("info", "t-0", 3)]

    with_topic(test, 1, 2, 3)


# Replicas in doubt, whose machine was restarted without a clean shutdown


@pytest.mark.rule("D-119")
@pytest.mark.parametrize("reporter", [1, 2])
def test_a_replica_in_doubt_leaves_the_isr_where_another_member_is_online(reporter: int) -> None:
    async def test(world: World, c: RunningController) -> None:
        before = await world.state("t")
        assert before is not None
        assert await report(world, c, reporter, UNCLEAN_SHUTDOWN) == [E.NONE, E.NONE]
        after = await world.leads("t", leader=3 - reporter, isr=[3 - reporter])
        assert after.leader_epoch == before.leader_epoch + 1
        assert c.sink.of(Kind.PARTITION)[-1].reason == "unclean_shutdown"
        assert (await c.ask(DescribeFindingsRequest())).findings == ()
        # Nothing was damaged that could be healed.
        with capture_logs() as lines:
            await propose(world, c, 1, 2)
        assert [line for line in lines if "healed" in line["event"]] == []

    with_topic(test, 1, 2)


@pytest.mark.rule("D-120")
def test_the_only_member_of_the_isr_leads_at_once_though_in_doubt() -> None:
    async def test(world: World, c: RunningController) -> None:
        await propose(world, c, 1)
        await world.stop_broker(1)
        await world.leads("t", leader=-1, isr=[1])
        await world.start_broker(1, damaged=True)
        await quiesce(5)
        await world.leads("t", leader=-1, isr=[1])
        assert await report(world, c, 1, UNCLEAN_SHUTDOWN) == [E.NONE, E.NONE]
        state = await world.state("t")
        assert state is not None
        assert (state.leader, state.isr) == (1, (1,))

    with_topic(test, 1, 2)


def with_all_in_doubt(test: Callable[[World, RunningController], Awaitable[None]], *, clean: int = 0) -> None:
    """While there is no controller brokers 1 to 3, all in sync, are restarted, all but `clean` in doubt; the
    next controller elects nobody before they have reported.
    """

    async def main() -> None:
        world, first = await running_cluster(1, 2, 3, auto_leader_rebalance_enable=False)
        await world.create_topic("t", [1, 2, 3])
        await world.leads("t", leader=1, isr=[1, 2, 3])
        first.crash()
        await world.stop_broker(1, 2, 3)
        for broker in (1, 2, 3):
            await world.start_broker(broker, damaged=broker != clean)
        c = world.start_controller(1002, auto_leader_rebalance_enable=False)
        await until(lambda: c.is_active, "another controller")
        await quiesce(5)
        await test(world, c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-120")
def test_of_replicas_in_doubt_the_longest_leads_as_soon_as_all_are_there() -> None:
    async def test(world: World, c: RunningController) -> None:
        began = asyncio.get_running_loop().time()
        assert await report(world, c, 1, UNCLEAN_SHUTDOWN, end=80) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        assert await report(world, c, 3, UNCLEAN_SHUTDOWN, end=90) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        assert c.context.leaderships.known[T0].leader == -1
        # The last one that comes is told at once, the others when they ask again.
        assert await report(world, c, 2, UNCLEAN_SHUTDOWN, end=85) == [E.NONE, E.NONE]
        await world.leads("t", leader=3, isr=[3])
        assert await report(world, c, 1, UNCLEAN_SHUTDOWN, end=80) == [E.NONE, E.NONE]
        assert await report(world, c, 3, UNCLEAN_SHUTDOWN, end=90) == [E.NONE, E.NONE]
        await world.leads("t", leader=3, isr=[3])
        assert asyncio.get_running_loop().time() - began < 30

    with_all_in_doubt(test)


@pytest.mark.rule("D-120", "D-41")
def test_when_the_wait_is_over_the_longest_of_those_that_are_there_leads() -> None:
    async def test(world: World, c: RunningController) -> None:
        assert await report(world, c, 1, UNCLEAN_SHUTDOWN, end=80) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        await quiesce(20)
        assert await report(world, c, 3, UNCLEAN_SHUTDOWN, end=90) == [E.NONE, E.ELIGIBLE_LEADERS_NOT_AVAILABLE]
        await quiesce(30)
        details = [finding.detail for finding in (await c.ask(DescribeFindingsRequest())).findings]
        assert [detail for detail in details if "start broker 2 before: in sync, too" in detail]
        assert c.context.leaderships.known[T0].leader == -1
        await quiesce(15)
        await world.leads("t", leader=3, isr=[3])
        assert await report(world, c, 2, UNCLEAN_SHUTDOWN, end=99) == [E.NONE, E.NONE]
        await world.leads("t", leader=3, isr=[3])

    with_all_in_doubt(test)


@pytest.mark.rule("D-119", "D-40")
def test_a_member_that_is_not_in_doubt_leads_though_another_log_is_longer() -> None:
    async def test(world: World, c: RunningController) -> None:
        assert await report(world, c, 1, UNCLEAN_SHUTDOWN, end=100) == [E.NONE, E.NONE]
        await world.leads("t", leader=2, isr=[2])
        assert await report(world, c, 3, UNCLEAN_SHUTDOWN, end=100) == [E.NONE, E.NONE]
        await world.leads("t", leader=2, isr=[2])

    with_all_in_doubt(test, clean=2)


@pytest.mark.rule("D-120", "INV-4")
def test_when_the_longest_is_gone_before_its_election_is_written_the_next_one_leads_later() -> None:
    async def test(world: World, c: RunningController) -> None:
        await report(world, c, 1, UNCLEAN_SHUTDOWN, end=80)
        await report(world, c, 3, UNCLEAN_SHUTDOWN, end=90)
        await quiesce(50)
        c.zookeeper.refuse_writes(WriteRefusals(Refusal.NO_AUTH, 0))
        await quiesce(15)
        assert c.context.leaderships.known[T0].leader == -1
        await world.stop_broker(3)
        await quiesce(70)
        await world.leads("t", leader=1, isr=[1])

    with_all_in_doubt(test)
