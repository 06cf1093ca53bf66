"""Requested leader elections: through the API and through `/admin/preferred_replica_election`."""

import asyncio

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import RECOVERING, ReplicaAssignment, TopicAssignment
from cluster.requests.control import LeaderAndIsrRequest
from cluster.requests.elections import PREFERRED, UNCLEAN, ElectLeadersRequest, ElectLeadersTopic
from cluster.znodes.admin_requests import encode_partitions
from cluster.znodes.paths import PREFERRED_REPLICA_ELECTION, state_path, topic_path
from cluster.znodes.topics import encode_state, encode_topic
from cluster.zookeeper.port import Create, SetData
from controller.apis import APIS
from controller.changes import DeletionsQueued
from controller.event_loop import preempt
from controller.handlers.waiting import ElectLeadersDecision
from controller.request_events import RequestEvent
from state_log.record import Kind
from tests.controllers.contexts import ids, leadership, tp
from tests.controllers.elections import cluster, codes, elect, restart_broker, stop_broker
from tests.controllers.worlds import World, quiesce, run_virtually, until

E = ErrorCode


async def is_gone(world: World) -> bool:
    return await world.tool.get(PREFERRED_REPLICA_ELECTION) is None


@pytest.mark.rule("EP-2", "EP-3", "EP-4", "EP-5", "EP-6", "EP-7", "D-3", "PS-13", "PS-14", "PS-23")
def test_each_partition_of_a_preferred_election_has_its_own_outcome() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3, 4)
        await world.create_topic("t", [1, 2], [2, 1], [4, 3], [9])
        await world.create_topic("queued", [1, 2])
        await world.leads("t", 2, leader=4)
        await world.leads("queued", leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        c.context.apply(DeletionsQueued(("queued",)))
        await stop_broker(world, c, 4)
        c.brokers.received.clear()
        answer = await elect(c, PREFERRED, "t-0", "t-1", "t-2", "t-3", "t-9", "none-0", "queued-0", "t-0")
        assert codes(answer) == {
            "t-0": E.NONE,
            "t-1": E.ELECTION_NOT_NEEDED,
            "t-2": E.PREFERRED_LEADER_NOT_AVAILABLE,
            "t-3": E.PREFERRED_LEADER_NOT_AVAILABLE,
            "t-9": E.UNKNOWN_TOPIC_OR_PARTITION,
            "none-0": E.UNKNOWN_TOPIC_OR_PARTITION,
            "queued-0": E.INVALID_TOPIC_EXCEPTION,
        }
        elected = await world.leads("t", leader=1, isr=(2, 1))
        assert elected.leader_epoch == 2
        for broker in (1, 2):
            (request,) = c.brokers.of(broker, LeaderAndIsrRequest)
            assert [s.leader for t in request.topic_states for s in t.partition_states if s.partition_index == 0] == [1]
        (record,) = [r for r in c.sink.of(Kind.PARTITION) if r.reason == "Preferred" and r.partition == 0]
        assert record.cause is not None
        assert (record.leader, record.cause.event) == (1, "ElectLeadersReceived")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-5", "PS-14", "PS-23")
def test_a_preferred_replica_out_of_sync_or_dead_does_not_get_the_leadership() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3)
        await world.create_topic("t", [1, 2], [3, 2])
        await world.leads("t", leader=1)
        await world.leads("t", 1, leader=3)
        await stop_broker(world, c, 1, 3)
        await world.start_broker(1)
        await quiesce()
        before = [await world.state("t", p) for p in (0, 1)]
        answer = await elect(c, PREFERRED, "t-0", "t-1")
        assert codes(answer) == dict.fromkeys(("t-0", "t-1"), E.PREFERRED_LEADER_NOT_AVAILABLE)
        assert [await world.state("t", p) for p in (0, 1)] == before
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-2", "EP-3", "EP-4", "EP-5", "PS-20", "PS-21", "IS-21")
def test_an_unclean_election_risks_records_only_where_nobody_in_sync_is_left() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3)
        await world.create_topic("t", [1, 2], [1], [3, 2])
        await world.leads("t", leader=1)
        await world.leads("t", 2, leader=3)
        await stop_broker(world, c, 2)
        await stop_broker(world, c, 1)
        await world.start_broker(2)
        await world.leads("t", leader=-1, isr=(1,))
        await quiesce()
        answer = await elect(c, UNCLEAN, "t-0", "t-1", "t-2")
        assert codes(answer) == {
            "t-0": E.NONE,
            "t-1": E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "t-2": E.ELECTION_NOT_NEEDED,
        }
        risked = await world.leads("t", leader=2, isr=(2,))
        assert risked.leader_recovery_state == RECOVERING
        assert c.metrics.meter("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec").count == 1
        # A clean election keeps the mark, which only the leader can take away.
        await stop_broker(world, c, 2)
        await world.start_broker(2)
        clean = await world.leads("t", leader=2, isr=(2,))
        assert clean.leader_recovery_state == RECOVERING
        assert clean.leader_epoch > risked.leader_epoch
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-6")
def test_who_asks_for_all_partitions_hears_nothing_of_those_that_need_no_election() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2], [2, 1])
        await world.leads("t", leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        assert codes(await elect(c, PREFERRED)) == {"t-0": E.NONE}
        assert codes(await elect(c, PREFERRED)) == {}
        assert codes(await elect(c, PREFERRED, "t-0")) == {"t-0": E.ELECTION_NOT_NEEDED}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-6")
@pytest.mark.parametrize("timeout_ms", [3000, 0])
def test_a_leader_that_does_not_learn_of_its_election_in_time_is_named_to_the_caller(timeout_ms: int) -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3)
        await world.create_topic("t", [1, 3], [2, 3])
        await world.leads("t", leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        await restart_broker(world, c, 2)
        c.brokers.unreachable.add(BrokerId(1))
        began = asyncio.get_running_loop().time()
        asking = asyncio.ensure_future(elect(c, PREFERRED, "t-0", "t-1", timeout_ms=timeout_ms))
        await world.leads("t", leader=1)
        # The event loop goes on meanwhile.
        await world.create_topic("u", [2])
        await world.leads("u", leader=2)
        answer = await asking
        assert codes(answer)["t-0"] is E.REQUEST_TIMED_OUT
        assert codes(answer)["t-1"] is (E.NONE if timeout_ms else E.REQUEST_TIMED_OUT)
        took = asyncio.get_running_loop().time() - began
        assert timeout_ms / 1000 <= took < timeout_ms / 1000 + 2
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-6")
@pytest.mark.parametrize("timeout_ms", [3000, 0])
def test_who_does_not_await_the_leaders_is_answered_when_they_are_elected(timeout_ms: int) -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3)
        await world.create_topic("t", [1, 3], [2, 3])
        await world.leads("t", leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        await quiesce()
        c.brokers.unreachable.add(BrokerId(1))
        received = len(c.brokers.of(1, LeaderAndIsrRequest))
        began = asyncio.get_running_loop().time()
        answer = await elect(c, PREFERRED, "t-0", "t-1", "t-5", timeout_ms=timeout_ms, awaits_leaders=False)
        assert codes(answer) == {
            "t-0": E.NONE,
            "t-1": E.ELECTION_NOT_NEEDED,
            "t-5": E.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert asyncio.get_running_loop().time() - began < 1
        await world.leads("t", leader=1)
        assert len(c.brokers.of(1, LeaderAndIsrRequest)) == received
        c.brokers.unreachable.clear()
        await until(lambda: len(c.brokers.of(1, LeaderAndIsrRequest)) > received)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-6")
def test_a_leader_that_dies_before_it_hears_leaves_the_caller_with_a_timeout_at_once() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        c.brokers.unreachable.add(BrokerId(1))
        asking = asyncio.ensure_future(elect(c, PREFERRED, "t-0", timeout_ms=600_000))
        await world.leads("t", leader=1)
        await world.stop_broker(1)
        assert codes(await asking) == {"t-0": E.REQUEST_TIMED_OUT}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-1")
def test_while_not_active_an_election_is_refused_and_a_queued_one_is_preempted() -> None:
    async def main() -> None:
        world, c = await cluster(1)
        standby = world.start_controller(1002)
        await quiesce()
        with pytest.raises(ApiError) as refused:
            await elect(standby, PREFERRED)
        assert (refused.value.code, refused.value.leader_address) == (E.NOT_CONTROLLER, "controller:10001")
        queued: asyncio.Future[ElectLeadersDecision] = asyncio.get_running_loop().create_future()
        preempt(RequestEvent(APIS[ElectLeadersRequest], ElectLeadersRequest(), queued))
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            await queued
        await standby.stop()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("IN-2")
def test_a_request_without_a_type_is_preferred_and_an_unknown_type_is_refused() -> None:
    async def main() -> None:
        world, c = await cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        answer = await c.ask(ElectLeadersRequest(topic_partitions=(ElectLeadersTopic("t", (0,)),)))
        assert codes(answer) == {"t-0": E.ELECTION_NOT_NEEDED}
        assert "preferred" in (answer.results[0].partition_result[0].error_message or "")
        with pytest.raises(ApiError, match="INVALID_REQUEST") as refused:
            await c.ask(ElectLeadersRequest(election_type=7))
        assert (refused.value.field, refused.value.value) == ("election_type", 7)
        await c.stop()

    run_virtually(main)


def test_a_dry_run_shows_epochs_and_requests_and_changes_nothing() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2], [2, 1], [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        before = await world.state("t")
        c.brokers.received.clear()
        shown = await elect(c, PREFERRED, "t-0", "t-1", validate_only=True)
        assert codes(shown) == {"t-0": E.NONE, "t-1": E.ELECTION_NOT_NEEDED}
        assert shown.plan is not None
        (change,) = shown.plan.changes
        assert (change.before.leader, change.after.leader) == (2, 1)
        assert change.after.leader_epoch == change.before.leader_epoch + 1
        requests = {(r.broker_id, r.name, r.partitions) for r in shown.plan.requests}
        assert requests == {(b, n, 1) for b in (1, 2) for n in ("LeaderAndIsr", "UpdateMetadata")}
        assert await world.state("t") == before
        assert c.brokers.received == []
        assert codes(await elect(c, PREFERRED, "t-0")) == {"t-0": E.NONE}
        after = await world.state("t")
        assert after is not None
        assert (after.leader, after.leader_epoch) == (change.after.leader, change.after.leader_epoch)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-10", "EP-11", "D-3", "FO-3")
def test_the_node_of_requested_elections_is_served_deleted_and_watched_for_the_next() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3)
        await world.create_topic("t", [1, 2], [2, 1], [9], [1, 3])
        await world.leads("t", leader=1)
        await quiesce()
        for _ in range(2):
            await restart_broker(world, c, 1)
            names = ("t-0", "t-1", "t-2", "none-0", "t-0")
            await world.create(PREFERRED_REPLICA_ELECTION, encode_partitions(tp(name) for name in names))
            await until(lambda: is_gone(world))
            await world.leads("t", leader=1, isr=(2, 1))
            # Nobody asked for this one.
            other = await world.leads("t", 3, leader=3)
            assert other.isr == (3, 1)
        await quiesce()
        assert c.gauge("ControllerState") == 0
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-11")
@pytest.mark.parametrize("body", [b"no json", b'{"version":1}', b'{"version":1,"partitions":[]}'])
def test_a_node_that_asks_for_nothing_sensible_is_deleted(body: bytes) -> None:
    async def main() -> None:
        world, c = await cluster(1)
        for _ in range(2):
            await world.create(PREFERRED_REPLICA_ELECTION, body)
            await until(lambda: is_gone(world))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("EP-8", "FO-14", "D-3")
def test_a_failover_serves_the_node_that_it_finds() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2], [2, 1])
        await world.leads("t", leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        await c.stop()
        # A partition that never had a leader, because nobody who hosts it ever lived.
        await world.write(
            Create(topic_path("never"), encode_topic(TopicAssignment({0: ReplicaAssignment(ids(9))}, None))),
            Create(PREFERRED_REPLICA_ELECTION, encode_partitions([tp("never-0"), tp("t-0"), tp("none-4")])),
        )
        successor = world.start_controller(1002, auto_leader_rebalance_enable=False)
        await world.leads("t", leader=1, isr=(2, 1))
        await until(lambda: is_gone(world))
        assert await world.state("never") is None
        # And the next node is noticed.
        await restart_broker(world, successor, 1)
        await world.create(PREFERRED_REPLICA_ELECTION, encode_partitions([tp("t-0")]))
        await world.leads("t", leader=1, isr=(2, 1))
        await successor.stop()

    run_virtually(main)


@pytest.mark.rule("EP-5", "PS-12", "FN-5")
def test_a_state_of_a_newer_controller_is_an_outcome_of_its_own() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        await restart_broker(world, c, 1)
        newer = leadership(2, [2, 1], leader_epoch=9, controller_epoch=99)
        await world.write(SetData(state_path(tp("t-0")), encode_state(newer)))
        answer = await elect(c, PREFERRED, "t-0")
        assert codes(answer) == {"t-0": E.PREFERRED_LEADER_NOT_AVAILABLE}
        assert answer.results[0].partition_result[0].error_message == "already written by another controller"
        await c.stop()

    run_virtually(main)
