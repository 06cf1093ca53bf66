"""Worked scenarios that span several rules, number by number: requests, epochs, states."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from cluster.model.broker import BrokerId
from cluster.model.partition import LeaderAndIsr
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests.agents import ControlledShutdownRequest
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.znodes.paths import delete_topic_path, state_path
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import Create, Op, OpResult, SetData
from simulator.zookeeper import ServerSession
from state_log.record import Kind
from tests.controllers.contexts import assignment, leadership, tp
from tests.controllers.reassignments import Cluster
from tests.controllers.reassignments import cluster as cluster_with_topic
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until

T0 = state_path(tp("t-0"))


async def cluster(*brokers: int, **settings: Any) -> tuple[World, RunningController]:
    world, c = await running_cluster(*brokers, **settings)
    c.brokers.received.clear()
    return world, c


def lines_sent(c: RunningController, broker: int) -> list[str]:
    """What a broker was told of the one partition there is, in order."""
    lines: list[str] = []
    for _, request in (r for r in c.brokers.received if r[0] == broker):
        match request:
            case LeaderAndIsrRequest():
                (state,) = request.topic_states[0].partition_states
                new = " as new" if state.is_new else ""
                lines.append(f"leader {state.leader} of {list(state.isr)} in epoch {state.leader_epoch}{new}")
            case StopReplicaRequest():
                (stop,) = request.partition_states
                lines.append(f"{'delete' if stop.delete_partition else 'stop'} under {stop.leader_epoch}")
            case UpdateMetadataRequest():
                leaders = [state.leader for topic in request.topic_states for state in topic.partition_states]
                lines.append(f"metadata {leaders}")
    return lines


def replica_states(c: RunningController, broker: int) -> list[str | None]:
    """Through which states the broker's replica went."""
    return [change.to_state for change in c.sink.of(Kind.REPLICA) if change.broker == broker]


Act = Callable[[ServerSession, Sequence[Op]], None]


def hook_writes(world: World, *, before: Act | None = None, after: Act | None = None) -> None:
    carry_out = world.server.write

    def write(session: ServerSession, ops: Sequence[Op]) -> list[OpResult]:
        if before is not None:
            before(session, ops)
        results = carry_out(session, ops)
        if after is not None:
            after(session, ops)
        return results

    world.server.write = write  # type: ignore[method-assign]


@pytest.mark.rule("C-1", "PS-8", "PS-9", "RQ-4", "RQ-10")
def test_a_topic_is_created_with_one_request_of_each_kind() -> None:
    async def main() -> None:
        world, c = await cluster(0, 1, 2)
        await world.create_topic("t", [0, 1])
        assert await world.leads("t", leader=0) == leadership(0, [0, 1])
        await quiesce()
        assert lines_sent(c, 0) == lines_sent(c, 1) == ["leader 0 of [0, 1] in epoch 0 as new", "metadata [0]"]
        assert lines_sent(c, 2) == ["metadata [0]"]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("C-2", "BK-1", "BK-2", "BK-3", "BK-10", "BK-13", "BK-33")
def test_a_broker_that_bounces_unseen_is_failed_and_started_again() -> None:
    async def main() -> None:
        world, c = await cluster(0, 1, 2)
        await world.create_topic("t", [1, 0])
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.received.clear()
        # Two changes, and one look at what came of them.
        c.zookeeper.pause()
        await world.stop_broker(1)
        await world.start_broker(1)
        c.zookeeper.resume()
        assert await world.leads("t", leader=0) == leadership(0, [0], leader_epoch=1, partition_epoch=1)
        await quiesce()
        # First the others: the new leader, then that the old one is out of the ISR and gone, then that it is there.
        assert lines_sent(c, 0)[0] == "leader 0 of [0] in epoch 1"
        # The new incarnation: the brokers and partitions, then its replica.
        assert lines_sent(c, 1) == ["metadata [0]", "leader 0 of [0] in epoch 1", "metadata [0]"]
        assert {r.broker_epoch for b, r in c.brokers.received if b == 1} == {await world.broker_epoch(1)}
        assert replica_states(c, 1) == ["OfflineReplica", "OnlineReplica"]
        assert c.brokers.forgotten == [1]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("C-3", "PS-10", "IS-1")
def test_an_election_that_races_with_a_leader_of_old_is_held_again_over_its_isr() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3, protocol_version=ProtocolVersion((2, 6)))
        await world.create_topic("t", [1, 2, 3])
        await world.leads("t", leader=1)
        await quiesce()
        raced: list[LeaderAndIsr] = []

        def race(session: ServerSession, ops: Sequence[Op]) -> None:
            elects = any(isinstance(op, SetData) and op.path == T0 for op in ops)
            if session.client is c.zookeeper and elects and not raced:
                raced.append(leadership(1, [1, 3]))
                world.server.write(session, [SetData(T0, encode_state(raced[0]), 0)])

        hook_writes(world, before=race)
        await world.stop_broker(1)
        assert await world.leads("t", leader=3) == leadership(3, [3], leader_epoch=1, partition_epoch=2)
        assert raced
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("C-5", "TD-8", "TD-9", "TD-13", "BK-13", "BK-16")
def test_a_topic_is_deleted_while_a_broker_is_down() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3)
        await world.create_topic("t", [1, 2, 3])
        await world.leads("t", leader=1)
        await world.stop_broker(3)
        await world.leads("t", leader=1, isr=(1, 2))
        await quiesce()
        c.brokers.received.clear()
        c.sink.changes.clear()
        await world.write(Create(delete_topic_path("t")))
        await quiesce()
        assert [change.to_state for change in c.sink.of(Kind.PARTITION)] == ["OfflinePartition", "NonExistentPartition"]
        for broker in (1, 2):
            assert lines_sent(c, broker) == ["metadata [-2]", "stop under -2", "delete under -2"]
            assert replica_states(c, broker) == [
                "OfflineReplica",
                "ReplicaDeletionStarted",
                "ReplicaDeletionSuccessful",
            ]
        assert replica_states(c, 3) == ["ReplicaDeletionIneligible", "OfflineReplica"]
        assert c.context.deletions.ineligible == {"t"}
        c.brokers.received.clear()
        c.sink.changes.clear()
        await world.start_broker(3)
        await until(lambda: "t" not in c.context.topics.names)
        await quiesce()
        assert lines_sent(c, 3) == [
            "metadata []",
            "leader -1 of [2] in epoch 3",
            "metadata [-2]",
            "metadata [-2]",
            "stop under -2",
            "delete under -2",
        ]
        assert replica_states(c, 3) == [
            "OnlineReplica",
            "OfflineReplica",
            "ReplicaDeletionStarted",
            "ReplicaDeletionSuccessful",
            "NonExistentReplica",
        ]
        assert not any("stop" in word or "delete" in word for word in lines_sent(c, 1) + lines_sent(c, 2))
        assert not world.server.tree.children("/brokers/topics")
        assert not world.server.tree.children("/admin/delete_topics")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RA-13", "RA-15", "RA-18", "RA-20", "RA-23", "IS-15", "RQ-4", "CX-7")
def test_in_each_phase_of_a_move_every_broker_gets_its_part() -> None:
    async def main() -> None:
        c = await cluster_with_topic(1, 2, 5, 7, 8, 9, topic=[[2, 5, 7]])
        await c.submit({0: [7, 8, 9]})
        bystander, begun = 1, "leader 2 of [2, 5, 7] in epoch 1"
        assert lines_sent(c.controller, bystander) == ["metadata [2]"] * 2
        for broker in (2, 5, 7):
            assert lines_sent(c.controller, broker) == [begun, "metadata [2]", "metadata [2]"]
        for broker in (8, 9):
            # Once with everybody, and once more as a new replica.
            assert lines_sent(c.controller, broker) == [f"{begun} as new", "metadata [2]"] * 2
        c.forget()
        await c.in_sync(2, 5, 7, 8)
        assert {tuple(lines_sent(c.controller, broker)) for broker in (bystander, 2, 5, 7, 8, 9)} == {("metadata [2]",)}
        c.forget()
        await c.in_sync(2, 5, 7, 8, 9)
        for broker in (8, 9):
            assert replica_states(c.controller, broker)[-2:] == ["NewReplica", "OnlineReplica"]
        # The ISR, the election, the removals, and the end.
        assert lines_sent(c.controller, bystander) == ["metadata [2]", "metadata [7]", "metadata [7]", "metadata [7]"]
        stops = [lines_sent(c.controller, broker) for broker in (2, 5)]
        for said in stops:
            assert said[:3] == ["metadata [2]", "metadata [7]", "metadata [7]"]
            assert said[4:] == ["delete under 4", "metadata [7]"]
        # One after the other: the second one leaves an ISR in which the first one is no more.
        assert {said[3] for said in stops} == {"stop under 2", "stop under 3"}
        for broker in (7, 8, 9):
            assert lines_sent(c.controller, broker) == [
                "metadata [2]",
                "leader 7 of [2, 5, 7, 8, 9] in epoch 2",
                "metadata [7]",
                "leader 7 of [7, 8, 9] in epoch 4",
                "metadata [7]",
                "metadata [7]",
            ]
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("CS-8", "CS-10", "CS-17", "RM-11", "BK-11", "BK-12", "BK-13", "BK-35")
def test_brokers_that_leave_in_order_and_end_and_return_are_reported_step_by_step() -> None:
    async def main() -> None:
        c = await cluster_with_topic(1, 2, 3, 4, topic=[[1, 2, 3]])

        async def after(step: Awaitable[object]) -> dict[int, list[str]]:
            c.forget()
            await step
            await quiesce()
            return {broker: said for broker in (1, 2, 3, 4) if (said := lines_sent(c.controller, broker))}

        led = ["leader 2 of [2, 3] in epoch 1", "metadata [2]"]
        leaves = ControlledShutdownRequest(BrokerId(1))
        assert await after(c.controller.ask(leaves)) == {1: led, 2: led, 3: led, 4: ["metadata [2]"]}
        alone = ["leader 2 of [2] in epoch 2", "metadata [2]"]
        leaves = ControlledShutdownRequest(BrokerId(3))
        stopped = ["metadata [2]", "stop under 1"]
        assert await after(c.controller.ask(leaves)) == {1: alone, 2: alone, 3: stopped, 4: ["metadata [2]"]}
        # Their ends change nothing; they are only told once more.
        assert await after(c.world.stop_broker(3)) == {1: alone, 2: alone, 4: ["metadata [2]"]}
        assert await after(c.world.stop_broker(1)) == {2: alone, 4: ["metadata [2]"]}
        newcomer = ["metadata [2]", *alone]
        others = ["metadata []", "metadata [2]"]
        assert await after(c.world.start_broker(3)) == {2: others, 3: newcomer, 4: others}
        assert await after(c.world.stop_broker(4)) == {2: ["metadata []"], 3: ["metadata []"]}
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("C-6", "RA-60", "RA-20")
def test_a_cancelled_move_tells_each_broker_what_it_needs() -> None:
    async def main() -> None:
        c = await cluster_with_topic(0, 1, 2, 3, 4, topic=[[0, 1, 2]])
        await c.alter({0: [0, 3, 4]})
        await c.in_sync(0, 1, 2, 3)
        assert await c.state() == (0, 1, (0, 1, 2, 3))
        c.forget()
        await c.alter({0: None})
        assert await c.lists() == assignment([0, 1, 2])
        assert await c.state() == (0, 3, (0, 1, 2))
        without_3, as_it_was = "leader 0 of [0, 1, 2] in epoch 2", "leader 0 of [0, 1, 2] in epoch 3"
        for broker in (0, 1, 2):
            said = lines_sent(c.controller, broker)
            assert [word for word in said if not word.startswith("metadata")] == [without_3, as_it_was]
        # Broker 3 knows the epoch before it left the ISR, broker 4 is in none.
        assert [word for word in lines_sent(c.controller, 3) if "metadata" not in word] == [
            "stop under 1",
            "delete under 2",
        ]
        assert [word for word in lines_sent(c.controller, 4) if "metadata" not in word] == [
            "stop under 2",
            "delete under 2",
        ]
        await c.controller.stop()

    run_virtually(main)


@pytest.mark.rule("C-7", "RA-25", "RA-18", "FO-12")
def test_a_controller_that_dies_in_the_middle_of_completing_a_move_leaves_all_that_the_next_one_needs() -> None:
    async def main() -> None:
        c = await cluster_with_topic(1, 2, 3, 4, topic=[[1, 2]])
        await c.alter({0: [3, 4]})
        world, first = c.world, c.controller

        def die_after_the_election(session: ServerSession, _ops: Sequence[Op]) -> None:
            if session.client is first.zookeeper and leader_of_t0(world) == 3:
                first.crash()

        hook_writes(world, after=die_after_the_election)
        await c.in_sync(1, 2, 3, 4)
        assert await c.lists() == assignment([3, 4, 1, 2], [3, 4], [1, 2])
        assert await c.state() == (3, 2, (1, 2, 3, 4))
        second = world.start_controller(1002)
        await until(lambda: second.is_active)
        await quiesce()
        successor = Cluster(world, second)
        # One epoch for the leader that is a target already, and one for each replica that goes.
        assert await successor.lists() == assignment([3, 4])
        assert await successor.state() == (3, 5, (3, 4))
        assert [word for word in lines_sent(second, 1) if "metadata" not in word][-2:] == [
            "stop under 3",
            "delete under 5",
        ]
        await second.stop()

    run_virtually(main)


def leader_of_t0(world: World) -> int:
    znode = world.server.tree.get(T0)
    assert znode is not None
    return int(znode.data.split(b'"leader":')[1].split(b",")[0])
