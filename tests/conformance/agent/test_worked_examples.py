"""Worked examples that span several rules, on two or three real agents."""

import asyncio

import pytest

from broker_agent.decisions.isr import CommittedIsr, IsrProposal
from cluster.model.broker import BrokerId, LeaderEpoch
from cluster.model.errors import ErrorCode
from tests.brokers.agents import TP, AgentWorld, refuse, until, virtually


@pytest.mark.rule("R5.29", "R6.6", "R6.10", "R6.12", "R6.18", "R7.12")
@virtually
async def test_e1_the_high_watermark_follows_the_slowest_member_and_answers_carry_the_old_one() -> None:
    world = AgentWorld(min_insync_replicas=2)
    await world.start(1)
    world.decide(1, [1, 2, 3])
    world.agents[2] = world.agents[3] = world.agents[1]
    await world.update_metadata(1, 2, 3, to=[1])
    await world.tell(1)
    leader = world.agents[1]
    await leader.produce(10)
    for replica in (2, 3):
        await leader.fetch(10, replica=replica, epoch=0)
    assert leader.offsets() == (10, 10)
    async with asyncio.TaskGroup() as group:
        produced = group.create_task(leader.produce(5, acks=-1))
        await asyncio.sleep(0)
        assert leader.offsets() == (10, 15)
        for replica in (2, 3):
            assert (await leader.fetch(10, replica=replica, epoch=0)).high_watermark == 10
        assert (await leader.fetch(15, replica=2, epoch=0)).high_watermark == 10
        assert leader.offsets() == (10, 15)
        assert not produced.done()
        assert (await leader.fetch(15, replica=3, epoch=0)).high_watermark == 10
        assert leader.offsets() == (15, 15)
    assert produced.result().error_code is ErrorCode.NONE
    assert produced.result().base_offset == 10
    for replica in (2, 3):
        assert (await leader.fetch(15, replica=replica, epoch=0)).high_watermark == 15
    await leader.stop()


@pytest.mark.rule("R8.4", "R8.5", "R8.6", "R8.15", "P40")
@virtually
async def test_e3_a_member_that_stops_leaves_the_isr_between_one_and_one_and_a_half_lag_times() -> None:
    world = AgentWorld(min_insync_replicas=2)
    await world.start(1, 2, 3)
    await world.create(1, [1, 2, 3])
    leader = world.agents[1]
    await leader.produce(5, acks=-1)
    await until(lambda: leader.offsets() == (5, 5))
    await world.agents.pop(3).crash()
    stopped_at = asyncio.get_running_loop().time()
    await leader.produce(5, acks=1)
    await asyncio.sleep(29)
    assert leader.partition().isr == (1, 2, 3)
    assert leader.offsets() == (5, 10)
    await until(lambda: leader.partition().isr == (1, 2), within_s=17)
    assert 30 <= asyncio.get_running_loop().time() - stopped_at <= 46
    assert leader.offsets() == (10, 10)
    assert leader.agent.metrics.isr_shrinks.count == 1
    await world.stop()


@pytest.mark.rule("R8.1", "R8.3", "R8.14", "R8.16", "R8.17", "R3.6")
@virtually
async def test_e4_a_shrink_that_is_not_confirmed_holds_the_high_watermark_until_the_next_order() -> None:
    world = AgentWorld(replica_lag_time_max_ms=3000)
    await world.start(1, 2, 3)
    await world.create(1, [1, 2, 3])
    leader = world.agents[1]
    await leader.produce(5, acks=-1)
    world.controller.answer = lambda item: refuse(item, ErrorCode.INVALID_UPDATE_VERSION)
    await world.agents.pop(3).crash()
    await leader.produce(5, acks=1)
    await until(lambda: world.controller.requests != [])
    await asyncio.sleep(10)
    state = leader.partition().isr_state
    assert isinstance(state, IsrProposal)
    assert (state.committed, state.isr) == ((1, 2, 3), (1, 2))
    await leader.produce(1, acks=1)
    await asyncio.sleep(1)
    assert leader.offsets() == (5, 11)
    assert len(world.controller.requests) == 1
    world.decide(1, [1, 2])
    await world.tell(2, 1)
    assert leader.partition().isr_state == CommittedIsr((BrokerId(1), BrokerId(2)))
    await until(lambda: leader.offsets() == (11, 11))
    await world.stop()


@pytest.mark.rule("R3.5", "R3.7a", "R5.8", "R6.3", "R5.25")
@virtually
async def test_e8_the_same_leader_in_a_new_epoch_keeps_what_it_knew_and_followers_start_anew() -> None:
    world = AgentWorld()
    await world.start(1, 2, 3)
    await world.create(1, [1, 2], replicas=[1, 2])
    leader, follower = world.agents[1], world.agents[2]
    await leader.produce(4, acks=-1)
    await until(lambda: follower.offsets() == (4, 4))
    world.decide(1, [1, 2], replicas=[1, 2, 3], adding_replicas=(BrokerId(3),))
    await world.tell(1)
    assert leader.partition().epoch_start_offset == 4
    assert leader.partition().remote[BrokerId(2)].log_end_offset == 4
    assert leader.partition().remote[BrokerId(3)].log_end_offset == -1
    await until(lambda: TP in follower.agent.fetchers.failed)
    await world.tell(2, 3)
    assert follower.agent.fetchers.failed == ()
    await until(lambda: leader.partition().isr == (1, 2, 3))
    await leader.produce(1, acks=-1)
    await until(lambda: all(a.offsets() == (5, 5) for a in world.agents.values()))
    await world.stop()


@pytest.mark.rule("R5.25", "R6.3")
@virtually
async def test_e8_a_follower_that_is_quicker_than_its_leader_waits_and_retries() -> None:
    world = AgentWorld(replica_fetch_backoff_ms=100)
    await world.start(1, 2)
    await world.create(1, [1, 2])
    world.decide(1, [1, 2])
    await world.tell(2)
    await asyncio.sleep(1)
    assert world.agents[2].agent.fetchers.failed == ()
    await world.tell(1)
    await world.agents[1].produce(3, acks=-1)
    await until(lambda: world.agents[2].offsets() == (3, 3))
    await world.stop()


@pytest.mark.rule("R7.2", "R7.12", "R7.13", "R6.18", "P33", "P37")
@virtually
async def test_e9_without_enough_replicas_nothing_is_acknowledged() -> None:
    world = AgentWorld(min_insync_replicas=2, replica_lag_time_max_ms=3000)
    await world.start(1, 2)
    await world.create(1, [1, 2])
    leader = world.agents[1]
    await leader.produce(40, acks=-1)
    await world.agents.pop(2).crash()
    pending = await leader.produce(1, acks=-1, timeout_ms=20_000)
    assert leader.partition().isr == (1,)
    assert pending.error_code is ErrorCode.REQUEST_TIMED_OUT
    assert pending.base_offset == 40
    assert leader.offsets() == (40, 41)
    refused = await leader.produce(1, acks=-1)
    assert refused.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert leader.offsets() == (40, 41)
    assert (await leader.produce(1, acks=1)).error_code is ErrorCode.NONE
    await world.stop()


@pytest.mark.rule("R3.10", "R5.23", "R5.15", "R6.7", "P8", "P28")
@pytest.mark.parametrize("mode", ["fetch", "epoch-query"])
def test_a_leader_that_fails_comes_back_and_gives_up_what_only_it_had(mode: str) -> None:
    @virtually
    async def check() -> None:
        world = AgentWorld(klamm_replica_truncation_mode=mode)
        await world.start(1, 2, 3)
        await world.create(1, [1, 2, 3])
        first, second = world.agents[1], world.agents[2]
        await first.produce(10, acks=-1)
        await until(lambda: all(a.offsets() == (10, 10) for a in world.agents.values()))
        world.network.cut("broker-2:9092", "broker-1:9092")
        world.network.cut("broker-3:9092", "broker-1:9092")
        await asyncio.sleep(1)
        await first.produce(7, acks=1)
        assert first.offsets() == (10, 17)
        world.decide(2, [2, 3])
        await world.update_metadata(2, 3, to=[2, 3])
        await world.tell(2, 3)
        assert (await second.produce(2, acks=-1, timeout_ms=5000)).base_offset == 10
        world.network.heal("broker-2:9092", "broker-1:9092")
        world.network.heal("broker-3:9092", "broker-1:9092")
        await world.update_metadata()
        await world.tell(1)
        await until(lambda: first.offsets() == (12, 12))
        for agent in world.agents.values():
            log = agent.logs.get(TP)
            assert log is not None
            assert [(b.base_offset, b.last_offset, b.leader_epoch) for b in log.batches()] == [(0, 9, 0), (10, 11, 1)]
            assert [entry.epoch for entry in log.epoch_entries] == [LeaderEpoch(0), LeaderEpoch(1)]
        truncations = [change for change in first.records.all if change.kind == "truncation"]
        assert [change.reason for change in truncations] == ["from 17 to 10, high watermark was 10"]
        await until(lambda: second.partition().isr == (2, 3, 1))
        await world.stop()

    check()


@pytest.mark.rule("R5.18", "R6.20")
@virtually
async def test_e7_an_empty_leadership_leaves_no_epoch_behind() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])
    await world.agents[1].produce(3, acks=-1)
    world.decide(2, [2, 1])
    await world.tell(2)
    world.decide(1, [1, 2])
    await world.tell(1, 2)
    await world.agents[1].produce(2, acks=-1)
    await until(lambda: world.agents[2].offsets() == (5, 5))
    log = world.agents[2].logs.get(TP)
    assert log is not None
    assert [(entry.epoch, entry.start_offset) for entry in log.epoch_entries] == [(0, 0), (2, 3)]
    await world.stop()


@pytest.mark.rule("R1.17", "R3.11", "R9.9")
@virtually
async def test_e10_after_power_failure_the_high_watermark_comes_from_the_checkpoint_and_then_from_the_leader() -> None:
    world = AgentWorld()
    await world.start(1, 2)
    await world.create(1, [1, 2])
    await world.agents[1].produce(20, acks=-1)
    await asyncio.sleep(11)
    await world.agents[1].produce(10, acks=-1)
    await until(lambda: world.agents[2].offsets() == (30, 30))
    await world.agents[2].crash(power_fails=True)
    await asyncio.sleep(7)
    await world.agents[2].start()
    log = world.agents[2].logs.get(TP)
    assert log is not None
    assert log.high_watermark == 0
    refused = await world.agents[2].produce()
    assert refused.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await world.update_metadata()
    refused = await world.agents[2].produce()
    assert refused.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused.current_leader_id == 1
    world.decide(1, [1])
    await world.tell(2)
    assert world.agents[2].offsets()[0] <= 20
    await world.tell(1)
    await until(lambda: world.agents[2].offsets() == (30, 30))
    await world.stop()
