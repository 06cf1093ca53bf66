"""One call of a state machine as a whole: no effect, one batch, an error per partition, or the end of the event."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, PartitionEpoch
from cluster.model.errors import ControllerMovedError, ErrorCode, ZooKeeperError
from cluster.model.partition import RECOVERING, LeaderAndIsr, ReplicaAssignment, TopicAssignment
from cluster.model.state_machines import PartitionState, ReplicaState
from cluster.requests.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from cluster.znodes.paths import CONTROLLER_EPOCH, broker_path, state_path, topic_path
from cluster.znodes.topics import decode_state, encode_state, encode_topic
from cluster.zookeeper.port import Delete, SetData
from controller.active_controller import UnsentDecisionsError
from controller.changes import (
    BrokerShuttingDown,
    DeletionsQueued,
    OfflineReplicasReported,
    PartitionsMoved,
    ReassignmentsWritten,
)
from controller.decisions.partitions.leader_election import ElectionFailure, Offline, Preferred
from controller.events import BrokerModifications, LeaderAndIsrResponseReceived
from controller.fenced_writes import Conflict, Written
from controller.handlers.partitions.partition_transitions import move_partitions
from controller.handlers.partitions.replica_transitions import move_replicas
from simulator.recount import recount
from tests.controllers.contexts import ids, leadership, tp
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, running_cluster, until


async def with_topic(*replicas: list[int], **settings: Any) -> tuple[World, RunningController, Any]:
    """Brokers 1 to 3 with topic t, nothing pending, and the active controller."""
    world, c = await running_cluster(1, 2, 3, **settings)
    await world.create_topic("t", *replicas)
    for partition, of_partition in enumerate(replicas):
        await world.leads("t", partition, leader=of_partition[0])
    await quiesce()
    c.brokers.received.clear()
    return world, c, c.controller._active


@pytest.mark.rule("PS-1", "RM-1")
def test_moving_nothing_asks_nobody_and_tells_nobody() -> None:
    async def main() -> None:
        _, c, active = await with_topic([1, 2])
        before = c.zookeeper.requests
        assert await move_partitions(active, [], PartitionState.ONLINE, Offline()) == {}
        await move_replicas(active, {BrokerId(1): []}, ReplicaState.ONLINE)
        await move_replicas(active, {}, ReplicaState.OFFLINE)
        await quiesce()
        assert c.zookeeper.requests == before
        assert c.brokers.received == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("PS-2", "PS-6", "RM-1", "RQ-13")
def test_one_call_is_one_batch_and_results_are_of_elections_only() -> None:
    async def main() -> None:
        world, c, active = await with_topic([1, 2, 3], [1, 2, 3])
        new, absent = tp("t-2"), tp("t-9")
        c.context.apply(ReassignmentsWritten({new: ReplicaAssignment(ids(1, 2, 3))}))
        c.context.apply(PartitionsMoved({new: PartitionState.NEW}))
        partitions = [tp("t-0"), new, tp("t-1"), absent]
        results = await move_partitions(active, partitions, PartitionState.ONLINE, Preferred())
        assert {p: type(result) for p, result in results.items()} == {tp("t-0"): LeaderAndIsr, tp("t-1"): LeaderAndIsr}
        assert (await world.state("t", 2)).leader_epoch == 0  # type: ignore[union-attr]
        await quiesce()
        for broker in (1, 2, 3):
            (request,) = c.brokers.of(broker, LeaderAndIsrRequest)
            assert request.controller_epoch == c.context.epoch
            assert len(request.topic_states[0].partition_states) == 3
            assert len(c.brokers.of(broker, UpdateMetadataRequest)) == 1
        c.brokers.received.clear()
        await move_replicas(
            active, {BrokerId(2): [tp("t-0"), tp("t-1")], BrokerId(3): [tp("t-0")]}, ReplicaState.ONLINE
        )
        await quiesce()
        assert [len(c.brokers.of(b, LeaderAndIsrRequest)) for b in (1, 2, 3)] == [0, 1, 1]
        assert [len(c.brokers.of(b, UpdateMetadataRequest)) for b in (1, 2, 3)] == [1, 1, 1]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("PS-3", "PS-14", "RM-2", "FN-4")
def test_an_error_is_everybodys_and_a_moved_controller_nobodys() -> None:
    async def main() -> None:
        world, c, active = await with_topic([1, 2], [2, 1])
        before = [await world.state("t", p) for p in (0, 1)]
        both = [tp("t-0"), tp("t-1")]
        error: Exception = ZooKeeperError("broken", ErrorCode.UNKNOWN_SERVER_ERROR)

        async def fail(_states: Any) -> Any:
            raise error

        active.store.write_states = fail
        results = await move_partitions(active, both, PartitionState.ONLINE, Preferred())
        assert [type(results[p]) for p in both] == [ElectionFailure] * 2
        assert "broken" in results[both[0]].reason  # type: ignore[union-attr]
        await move_replicas(active, {BrokerId(1): both}, ReplicaState.OFFLINE)
        assert c.context.replicas.state(BrokerId(1), both[0]) is ReplicaState.ONLINE
        error = ControllerMovedError("another one")
        with pytest.raises(ControllerMovedError):
            await move_partitions(active, both, PartitionState.ONLINE, Preferred())
        with pytest.raises(ControllerMovedError):
            await move_replicas(active, {BrokerId(1): both}, ReplicaState.OFFLINE)
        await quiesce()
        assert [await world.state("t", p) for p in (0, 1)] == before
        assert {c.context.leaderships.partition_state(p) for p in both} == {PartitionState.ONLINE}
        assert not c.brokers.of(2, LeaderAndIsrRequest)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RM-4", "RM-5", "RM-6")
@pytest.mark.parametrize("queued", [False, True])
def test_a_replica_that_goes_offline_is_stopped_and_leaves_the_isr_but_queued_topics_are_not_announced(
    queued: bool,
) -> None:
    async def main() -> None:
        world, c, active = await with_topic([1, 2, 3])
        if queued:
            c.context.apply(DeletionsQueued(("t",)))
        await move_replicas(active, {BrokerId(2): [tp("t-0")]}, ReplicaState.OFFLINE)
        await quiesce()
        state = await world.state("t")
        assert state is not None
        assert (state.leader, state.isr, state.leader_epoch) == (1, (1, 3), 1)
        (stop,) = c.brokers.of(2, StopReplicaRequest)
        # The epoch is the one before the ISR shrank, which the broker knows.
        expected = [(-2 if queued else 0, False)]
        assert [(s.leader_epoch, s.delete_partition) for s in stop.partition_states] == expected
        assert [len(c.brokers.of(b, LeaderAndIsrRequest)) for b in (1, 2, 3)] == ([0, 0, 0] if queued else [1, 0, 1])
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RQ-2", "RQ-14", "IL-1", "D-9")
def test_a_batch_that_cannot_be_sent_ends_the_controller_epoch_and_leaves_nothing_for_the_next_batch() -> None:
    async def main() -> None:
        world, c, active = await with_topic([1, 2])
        send = active.channels.send

        def refuse(_broker: BrokerId, _request: Any, **_: Any) -> None:
            raise RuntimeError("no queueing today")

        active.channels.send = refuse
        broken = active.new_batch()
        broken.add_stop_replica(BrokerId(1), tp("t-0"), delete=True)
        with pytest.raises(UnsentDecisionsError):
            active.send(broken)
        active.channels.send = send
        following = active.new_batch()
        following.add_update_metadata_for_all()
        active.send(following)
        await quiesce()
        assert not c.brokers.of(1, StopReplicaRequest)
        assert len(c.brokers.of(1, UpdateMetadataRequest)) == 1
        active.channels.send = refuse
        await world.create_topic("u", [1])
        await until(lambda: c.controller._active is not active, "the resignation")
        await until(lambda: c.is_active)
        await until(lambda: any(r.topic_states for r in c.brokers.of(1, LeaderAndIsrRequest)))
        assert c.context.epoch == 2
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RQ-11", "RQ-33")
def test_sending_is_queueing_and_what_waits_keeps_the_epochs_it_was_made_with() -> None:
    async def main() -> None:
        _, c, active = await with_topic([1, 2])
        c.brokers.unreachable.add(1)
        began = asyncio.get_running_loop().time()
        await move_replicas(active, {BrokerId(1): [tp("t-0")]}, ReplicaState.ONLINE)
        assert asyncio.get_running_loop().time() == began
        made_with = c.context.brokers.epochs[BrokerId(1)]
        c.context.brokers.epochs[BrokerId(1)] = BrokerEpoch(made_with + 50)
        await quiesce(5)
        assert not c.brokers.of(1, LeaderAndIsrRequest)
        c.brokers.unreachable.clear()
        await quiesce()
        (request,) = c.brokers.of(1, LeaderAndIsrRequest)
        assert (request.broker_epoch, request.controller_epoch) == (made_with, 1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RQ-34")
def test_an_answer_of_a_broker_only_becomes_an_event() -> None:
    async def main() -> None:
        _, c, _ = await with_topic([1, 2])
        before, response = recount(c.context), LeaderAndIsrResponse(ErrorCode.KAFKA_STORAGE_ERROR)
        c.controller._on_answer(BrokerId(1), LeaderAndIsrRequest(1001, 1, 1, (), ()), response)  # type: ignore[arg-type]
        ((event, _),) = c.controller.events._queue
        assert event == LeaderAndIsrResponseReceived(BrokerId(1), response)
        assert (recount(c.context), c.context.brokers.offline_directories) == (before, {})
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("PS-10", "D-25")
def test_rounds_of_elections_follow_at_once_and_after_ten_with_pauses() -> None:
    async def main() -> None:
        world, c, active = await with_topic([1, 2])
        loop, write, rounds = asyncio.get_running_loop(), active.store.write_states, []

        async def lose(states: Any) -> Any:
            rounds.append(loop.time())
            return {p: Conflict(0, exists=False) for p in states} if len(rounds) <= 13 else await write(states)

        active.store.write_states = lose
        results = await move_partitions(active, [tp("t-0")], PartitionState.ONLINE, Preferred())
        gaps = [after - before for before, after in pairwise(rounds)]
        assert len(gaps) == 13
        assert max(gaps[:9]) < 0.02
        assert all(0.04 <= gap < 1.3 for gap in gaps[9:])
        assert results[tp("t-0")] == await world.state("t")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("ZK-23", "ZK-29", "FN-1")
def test_states_are_written_on_the_epoch_last_read_and_topic_znodes_on_whatever_there_is() -> None:
    async def main() -> None:
        world, c, active = await with_topic([1, 2])
        known = c.context.leaderships.known[tp("t-0")]
        fits = leadership(1, [1], partition_epoch=known.partition_epoch + 1)
        ahead = leadership(1, [2], partition_epoch=known.partition_epoch + 2)
        assert await active.store.write_states({tp("t-0"): ahead}) == {tp("t-0"): Conflict(0, exists=False)}
        assert await world.state("t") == known
        assert await active.store.write_states({tp("t-0"): fits}) == {tp("t-0"): Written(1)}
        again = leadership(1, [2], partition_epoch=known.partition_epoch + 1)
        assert await active.store.write_states({tp("t-0"): again}) == {tp("t-0"): Conflict(0, exists=False)}
        assert await world.state("t") == fits
        assignment = TopicAssignment({0: ReplicaAssignment(ids(1, 2))}, c.context.topics.ids["t"])
        for _ in range(3):
            await world.write(SetData(topic_path("t"), encode_topic(assignment)))
        (outcome,) = (await active.store.write_topics({"t": assignment})).values()
        assert isinstance(outcome, Written)
        await world.write(SetData(CONTROLLER_EPOCH, b"9"))
        with pytest.raises(ControllerMovedError):
            await active.store.write_topics({"t": assignment})
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("IS-20", "IS-21", "RM-10")
def test_a_recovering_partition_stays_so_through_death_and_clean_election() -> None:
    async def main() -> None:
        world, first, _ = await with_topic([1, 2])
        recovering = leadership(1, [1], leader_epoch=4, recovery=RECOVERING)
        await first.stop()
        await world.write(SetData(state_path(tp("t-0")), encode_state(recovering)))
        c = world.start_controller(1002)
        await until(lambda: c.is_active)
        await world.stop_broker(1)
        orphaned = await world.leads("t", leader=-1, isr=[1])
        assert orphaned.leader_recovery_state == RECOVERING
        await world.start_broker(1)
        led = await world.leads("t", leader=1)
        assert (led.isr, led.leader_recovery_state, led.leader_epoch) == ((1,), RECOVERING, 6)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("D-111", "RQ-13")
def test_the_rest_of_a_divided_request_does_not_end_what_is_said_of_a_part_that_failed() -> None:
    async def main() -> None:
        _, c, active = await with_topic([1, 2], [2, 1], **{"inter.broker.protocol.version": "2.5"})
        c.brokers.answers[BrokerId(1)] = ErrorCode.UNKNOWN_SERVER_ERROR
        batch = active.new_batch()
        # With a flag for the whole request they are divided.
        batch.add_stop_replica(BrokerId(1), tp("t-0"), delete=True)
        batch.add_stop_replica(BrokerId(1), tp("t-1"), delete=False)
        active.send(batch)
        await until(lambda: c.brokers.of(1, StopReplicaRequest), "the first part")
        c.brokers.answers.clear()
        await until(lambda: len(c.brokers.of(1, StopReplicaRequest)) == 2, "the second part")
        await quiesce()
        assert active.channels.states()[BrokerId(1)].errors == {"StopReplica": ErrorCode.UNKNOWN_SERVER_ERROR}
        following = active.new_batch()
        following.add_stop_replica(BrokerId(1), tp("t-1"), delete=False)
        active.send(following)
        await quiesce()
        assert active.channels.states()[BrokerId(1)].errors == {}

    run_virtually(main)


@pytest.mark.rule("INV-7", "INV-2", "INV-3")
def test_what_brokers_are_sent_was_in_zookeeper_before_it_was_queued() -> None:
    async def main() -> None:
        world, c, active = await with_topic([1, 2, 3], [2, 3, 1])
        send, seen = active.channels.send, []

        def check(broker: BrokerId, request: Any, **rest: Any) -> None:
            for topic in request.topic_states if isinstance(request, LeaderAndIsrRequest) else ():
                for state in topic.partition_states:
                    partition = tp(f"{topic.topic_name}-{state.partition_index}")
                    znode = world.server.tree.get(state_path(partition))
                    assert znode is not None
                    assert znode.stat.version >= state.partition_epoch
                    stored = decode_state(partition, znode.data, PartitionEpoch(znode.stat.version))
                    assert stored is not None
                    if znode.stat.version == state.partition_epoch:
                        sent_states = (state.leader, state.leader_epoch, state.isr, state.controller_epoch)
                        assert sent_states == (stored.leader, stored.leader_epoch, stored.isr, stored.controller_epoch)
                    seen.append(partition)
            send(broker, request, **rest)

        active.channels.send = check
        await world.stop_broker(2)
        await world.leads("t", 1, leader=3)
        await world.create_topic("u", [3, 1])
        await world.leads("u", leader=3)
        await world.start_broker(2)
        await quiesce()
        await world.stop_broker(3)
        await world.leads("u", leader=1)
        await quiesce()
        assert set(seen) == {tp("t-0"), tp("t-1"), tp("u-0")}
        assert c.context.epoch == ControllerEpoch(1)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-10", "BK-20", "BK-21", "BK-22", "BK-53")
def test_a_dead_broker_takes_all_its_replicas_along_and_an_incarnation_its_failed_disks() -> None:
    async def main() -> None:
        world, c, _ = await with_topic([1, 2], [2, 1], [2])
        hosted = [tp("t-0"), tp("t-1"), tp("t-2")]
        c.context.apply(OfflineReplicasReported(BrokerId(2), frozenset([tp("t-2")])))
        c.context.apply(BrokerShuttingDown(BrokerId(2), BrokerEpoch(1)))
        epoch = await world.broker_epoch(2)
        await world.stop_broker(2)
        await until(lambda: c.gauge("ActiveBrokerCount") == 2)
        await quiesce()
        assert (c.context.brokers.offline_directories, c.context.brokers.shutting_down) == ({}, set())
        assert [c.context.replicas.state(BrokerId(2), p) for p in hosted] == [ReplicaState.OFFLINE] * 3
        assert c.context.replicas.state(BrokerId(1), hosted[0]) is ReplicaState.ONLINE
        # Late news of the dead incarnation's registration means nothing any more.
        c.brokers.received.clear()
        c.controller.events.put(BrokerModifications(BrokerId(2)))
        await quiesce()
        assert c.brokers.received == []
        c.context.apply(OfflineReplicasReported(BrokerId(2), frozenset([tp("t-2")])))
        await world.start_broker(2)
        await world.leads("t", 2, leader=2)
        assert await world.broker_epoch(2) > epoch
        assert c.context.brokers.offline_directories == {}
        assert [c.context.replicas.state(BrokerId(2), p) for p in hosted] == [ReplicaState.ONLINE] * 3
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-10", "TP-11", "TP-13", "TP-14")
def test_topics_that_came_and_went_unseen_are_found_in_one_comparison() -> None:
    async def main() -> None:
        world, c, _ = await with_topic([1, 2])
        c.zookeeper.pause()
        await world.create_topic("a", [1, 2], [2, 3], topic_id="Wx8MUo0-SnefEGwuS32aMQ")
        await world.create_topic("b", [3])
        for below in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
            await world.write(Delete(topic_path("t") + below))
        c.zookeeper.resume()
        for topic, partition, leader in (("a", 0, 1), ("a", 1, 2), ("b", 0, 3)):
            await world.leads(topic, partition, leader=leader)
        await quiesce()
        assert c.context.topics.names == {"a", "b"}
        assert c.context.topics.ids["a"] == "Wx8MUo0-SnefEGwuS32aMQ"
        assert {topic: sorted(of_topic) for topic, of_topic in c.context.topics.assignments.items()} == {
            "a": [0, 1],
            "b": [0],
        }
        assert c.context.topics.assignment(tp("a-1")).replicas == (2, 3)
        assert await world.tool.exists(broker_path(BrokerId(1))) is not None
        await c.stop()

    run_virtually(main)
