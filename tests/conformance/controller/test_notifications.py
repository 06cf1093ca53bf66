"""Notifications of failed log directories and of ISR changes, in znodes and in responses."""

from collections.abc import Sequence
from typing import Any

import pytest

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.protocol_version import ProtocolVersion
from cluster.model.state_machines import ReplicaState
from cluster.requests.control import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from cluster.znodes.admin_requests import encode_log_dir_event, encode_partitions, encode_reassignments
from cluster.znodes.paths import (
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    REASSIGN_PARTITIONS,
    delete_topic_path,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)
from cluster.znodes.topics import encode_state
from cluster.zookeeper.port import Create, SetData
from controller.decisions.brokers.log_directories import classify_directories
from controller.events import LeaderAndIsrResponseReceived
from state_log.record import Kind
from tests.controllers.contexts import context, ids, leadership, tp
from tests.controllers.elections import cluster, stop_broker
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

E = ErrorCode
STORAGE = E.KAFKA_STORAGE_ERROR
OLD = ProtocolVersion.parse("2.7-IV1")


async def announce(world: World, parent: str, prefix: str, *bodies: bytes) -> None:
    await world.write(*[Create(f"{parent}/{prefix}", body, sequential=True) for body in bodies])


async def disks_failed(world: World, *brokers: int) -> None:
    bodies = [encode_log_dir_event(BrokerId(broker)) for broker in brokers]
    await announce(world, LOG_DIR_EVENT_NOTIFICATION, "log_dir_event_", *bodies)


async def is_empty(world: World, parent: str) -> bool:
    return await world.tool.children(parent) == ()


def sent_to(c: RunningController, broker: int) -> list[TopicPartition]:
    return [
        TopicPartition(topic.topic_name, state.partition_index)
        for request in c.brokers.of(broker, LeaderAndIsrRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    ]


# Log directories


@pytest.mark.rule("BK-50", "BK-51", "BK-52", "AG-8", "CX-2")
def test_a_failed_disk_costs_its_replicas_their_leaderships_and_nothing_else() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2], [1, 2], [2, 1], [1])
        await world.leads("t", 3, leader=1)
        await quiesce()
        c.brokers.results[BrokerId(1)] = {
            tp("t-0"): STORAGE,
            tp("t-1"): E.NONE,
            tp("t-2"): STORAGE,
            tp("t-3"): E.STALE_CONTROLLER_EPOCH,
        }
        c.brokers.received.clear()
        await disks_failed(world, 1, 1)
        moved = await world.leads("t", leader=2, isr=(2,))
        assert (moved.leader_epoch, moved.partition_epoch) == (1, 1)
        shrunk = await world.leads("t", 2, leader=2, isr=(2,))
        assert shrunk.leader_epoch == 1
        for partition, isr in ((1, (1, 2)), (3, (1,))):
            untouched = await world.state("t", partition)
            assert untouched == leadership(1, isr)
        await until(lambda: is_empty(world, LOG_DIR_EVENT_NOTIFICATION))
        await quiesce()
        assert sorted(set(sent_to(c, 1))) == [tp(f"t-{p}") for p in range(4)]
        assert c.context.brokers.offline_directories == {1: {tp("t-0"), tp("t-2")}}
        stopped = [s.partition_index for r in c.brokers.of(1, StopReplicaRequest) for s in r.partition_states]
        assert sorted(set(stopped)) == [0, 2]
        assert c.context.replicas.state(BrokerId(1), tp("t-0")) is ReplicaState.OFFLINE
        sent_states = c.brokers.of(2, UpdateMetadataRequest)[-1]
        assert 1 in {b.id for b in sent_states.live_brokers}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-51")
def test_a_disk_that_is_there_again_is_believed_and_brings_nobody_back_by_itself() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.results[BrokerId(1)] = {tp("t-0"): STORAGE}
        await disks_failed(world, 1)
        moved = await world.leads("t", leader=2, isr=(2,))
        await quiesce()
        c.brokers.results[BrokerId(1)] = {tp("t-0"): E.NONE}
        await disks_failed(world, 1)
        await until(lambda: not c.context.brokers.offline_directories)
        await quiesce()
        assert await world.state("t") == moved
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-51", "D-121", "BK-10")
def test_the_only_replica_leads_again_when_its_disk_is_there_again() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.results[BrokerId(1)] = {tp("t-0"): STORAGE}
        await disks_failed(world, 1)
        await world.leads("t", leader=-1, isr=(1,))
        await quiesce()
        c.brokers.results[BrokerId(1)] = {tp("t-0"): E.NONE}
        await disks_failed(world, 1)
        led = await world.leads("t", leader=1, isr=(1,))
        await quiesce()
        assert led.leader_epoch == 2
        assert c.context.replicas.state(BrokerId(1), tp("t-0")) is ReplicaState.ONLINE
        [offline] = [
            state.offline_replicas
            for topic in c.brokers.of(2, UpdateMetadataRequest)[-1].topic_states
            for state in topic.partition_states
        ]
        assert offline == ()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-51", "D-121", "TD-8")
def test_a_deletion_that_waits_for_a_disk_goes_on_when_it_is_there_again() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.results[BrokerId(1)] = {tp("t-0"): STORAGE}
        await disks_failed(world, 1)
        await world.leads("t", leader=2, isr=(2,))
        await world.create(delete_topic_path("t"), b"")
        await quiesce()
        assert "t" in c.context.topics.names
        c.brokers.results[BrokerId(1)] = {tp("t-0"): E.NONE}
        await disks_failed(world, 1)
        await until(lambda: "t" not in c.context.topics.names)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-53", "BK-10", "BK-20")
def test_what_is_known_of_disks_goes_with_the_broker() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.results[BrokerId(1)] = {tp("t-0"): STORAGE}
        await disks_failed(world, 1)
        await until(lambda: c.context.brokers.offline_directories)
        await stop_broker(world, c, 1)
        assert c.context.brokers.offline_directories == {}
        c.brokers.results.clear()
        await world.start_broker(1)
        await until(lambda: 1 in c.context.brokers.live_ids)
        await quiesce()
        assert 1 in c.context.brokers.online_for(tp("t-0"))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-53", "PS-7")
def test_what_is_known_of_disks_goes_with_the_replica() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        for topic in ("moved", "removed"):
            await world.create_topic(topic, [1, 2])
            await world.leads(topic, leader=1)
            await quiesce()
            c.brokers.results[BrokerId(1)] = {tp(f"{topic}-0"): STORAGE}
            await disks_failed(world, 1)
            await world.leads(topic, leader=2, isr=(2,))
        c.brokers.results.clear()
        # Its replica on broker 1 is deleted by the move; then its nodes go, without a procedure as the other's.
        await world.create(REASSIGN_PARTITIONS, encode_reassignments({tp("moved-0"): ids(2)}))
        await until(lambda: c.context.topics.assignment(tp("moved-0")).replicas == ids(2))
        for topic in ("moved", "removed"):
            await world.delete(state_path(tp(f"{topic}-0")))
            for path in (partition_path(tp(f"{topic}-0")), partitions_path(topic), topic_path(topic)):
                await world.delete(path)
        await until(lambda: not c.context.topics.names)
        for topic in ("moved", "removed"):
            await world.create_topic(topic, [1, 2])
            await world.leads(topic, leader=1, isr=(1, 2))
        assert c.context.brokers.offline_directories == {}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-50")
def test_notices_of_unregistered_brokers_and_malformed_ones_are_deleted_like_the_others() -> None:
    async def main() -> None:
        world, c = await cluster(1)
        await world.create_topic("t", [1], [9])
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.received.clear()
        await disks_failed(world, 9)
        await announce(world, LOG_DIR_EVENT_NOTIFICATION, "log_dir_event_", b"no json")
        await until(lambda: is_empty(world, LOG_DIR_EVENT_NOTIFICATION))
        await quiesce()
        assert c.brokers.received == []
        await disks_failed(world, 1)
        await until(lambda: sent_to(c, 1) == [tp("t-0")])
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-51", "FN-9")
def test_an_answer_that_refuses_the_whole_request_says_nothing_of_disks() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        state = await world.leads("t", leader=1)
        await quiesce()
        c.brokers.answers[BrokerId(1)] = E.STALE_CONTROLLER_EPOCH
        c.brokers.results[BrokerId(1)] = {tp("t-0"): STORAGE}
        await disks_failed(world, 1)
        await until(lambda: is_empty(world, LOG_DIR_EVENT_NOTIFICATION))
        await quiesce()
        assert (c.context.brokers.offline_directories, await world.state("t")) == ({}, state)
        assert c.gauge("ActiveControllerCount") == 1
        await c.stop()

    run_virtually(main)


def result(name: str, code: ErrorCode, topic_id: str | None = None) -> LeaderAndIsrPartitionError:
    partition = tp(name)
    return LeaderAndIsrPartitionError(partition.topic, topic_id, partition.partition, code)  # type: ignore[arg-type]


@pytest.mark.rule("BK-51", "BK-52")
@pytest.mark.parametrize(
    ("known", "results", "offline", "lost"),
    [
        ((), [result("t-0", STORAGE)], ("t-0",), ("t-0",)),
        ((), [result("-0", STORAGE, "id-of-t")], ("t-0",), ("t-0",)),
        ((), [result("t-0", STORAGE, "unknown id")], (), ()),
        (("t-0",), [result("t-0", STORAGE), result("t-1", STORAGE)], ("t-0", "t-1"), ("t-1",)),
        (("t-0", "t-1"), [result("t-0", E.NONE)], ("t-1",), ()),
        (("t-0",), [result("t-0", E.STALE_CONTROLLER_EPOCH), result("t-1", E.INCONSISTENT_TOPIC_ID)], ("t-0",), ()),
        ((), [result("t-0", E.NONE)], (), ()),
        ((), [], (), ()),
    ],
)
def test_answers_about_partitions_tell_which_disks_failed_and_which_are_healthy(
    known: Sequence[str], results: Sequence[LeaderAndIsrPartitionError], offline: Sequence[str], lost: Sequence[str]
) -> None:
    view = context([1], {"t-0": [1], "t-1": [1]})
    news = classify_directories(view, {tp(name) for name in known}, results)
    assert news.offline == {tp(name) for name in offline}
    assert news.lost == tuple(tp(name) for name in lost)


@pytest.mark.rule("BK-51")
def test_the_late_answer_of_a_broker_that_is_gone_is_passed_over() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await stop_broker(world, c, 1)
        answer = LeaderAndIsrResponse(E.NONE, (result("t-0", STORAGE),))
        c.controller.events.put(LeaderAndIsrResponseReceived(BrokerId(1), answer))
        await quiesce()
        assert c.context.brokers.offline_directories == {}
        await c.stop()

    run_virtually(main)


# ISRs that leaders write


async def write_isr(world: World, name: str, *isr: int) -> LeaderAndIsr:
    """As a leader of old does it: leader epoch and controller epoch stay."""
    partition = tp(name)
    state = await world.state(partition.topic, partition.partition)
    assert state is not None
    written = leadership(state.leader, isr, leader_epoch=state.leader_epoch, controller_epoch=state.controller_epoch)
    await world.write(SetData(state_path(partition), encode_state(written), state.partition_epoch))
    found = await world.state(partition.topic, partition.partition)
    assert found is not None
    return found


async def isr_changed(world: World, *names: str) -> None:
    await announce(world, ISR_CHANGE_NOTIFICATION, "isr_change_", encode_partitions(tp(name) for name in names))


@pytest.mark.rule("IS-2", "IS-4")
@pytest.mark.parametrize("settings", [{"protocol_version": OLD}, {}], ids=["old protocol", "mixed cluster"])
def test_an_isr_that_its_leader_wrote_is_taken_over_and_sent_to_every_broker(settings: dict[str, Any]) -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3, **settings)
        await world.create_topic("t", [1, 2], [2, 3], [1, 2])
        await world.leads("t", 1, leader=2)
        await quiesce()
        c.brokers.received.clear()
        written = [await write_isr(world, "t-0", 1), await write_isr(world, "t-1", 2)]
        await isr_changed(world, "t-0", "never-7")
        await isr_changed(world, "t-1", "t-0")
        await until(lambda: is_empty(world, ISR_CHANGE_NOTIFICATION))
        await quiesce()
        assert [c.context.leaderships.known[tp(f"t-{p}")] for p in (0, 1)] == written
        for broker in (1, 2, 3):
            sent_states = {
                (state.partition_index, state.isr)
                for request in c.brokers.of(broker, UpdateMetadataRequest)
                for topic in request.topic_states
                for state in topic.partition_states
            }
            assert sent_states == {(0, (1,)), (1, (2,))}
        assert c.brokers.of(1, LeaderAndIsrRequest) == []
        records = [(r.partition, r.isr, r.leader_epoch) for r in c.sink.of(Kind.ISR)]
        assert records == [(0, (1,), 0), (1, (2,), 0)]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("IS-4")
def test_notifications_that_say_nothing_are_deleted_and_tell_nobody_anything() -> None:
    async def main() -> None:
        world, c = await cluster(1)
        for body in (b"no json", b'{"version":1,"partitions":[]}'):
            await announce(world, ISR_CHANGE_NOTIFICATION, "isr_change_", body)
        await quiesce()
        c.brokers.received.clear()
        await until(lambda: is_empty(world, ISR_CHANGE_NOTIFICATION))
        await quiesce()
        assert c.brokers.received == []
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("IS-2", "CX-8")
def test_the_isr_of_a_partition_whose_topic_znode_cannot_be_read_is_not_taken_over() -> None:
    async def main() -> None:
        world, first = await cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await first.stop()
        await world.write(SetData(topic_path("t"), b"no json"))
        c = world.start_controller(1002)
        await until(lambda: c.is_active)
        await write_isr(world, "t-0", 1)
        await isr_changed(world, "t-0")
        await until(lambda: is_empty(world, ISR_CHANGE_NOTIFICATION))
        await quiesce()
        assert not c.context.leaderships.known
        assert c.gauge("GlobalPartitionCount") == 0
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("IS-2", "PS-10", "PS-22", "RM-8")
def test_under_the_old_protocol_elections_read_what_leaders_may_have_written() -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3, protocol_version=OLD)
        await world.create_topic("t", [1, 2, 3])
        await world.leads("t", leader=1)
        await quiesce()
        # Broker 2 fell out; nobody was told of it yet when the leader dies.
        await write_isr(world, "t-0", 1, 3)
        await world.stop_broker(1)
        elected = await world.leads("t", leader=3, isr=(3,))
        assert (elected.leader_epoch, elected.partition_epoch) == (1, 2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("IS-3", "RA-31", "RA-51")
@pytest.mark.parametrize(
    ("settings", "announced"),
    [({"protocol_version": OLD}, True), ({"protocol_version": OLD}, False), ({}, True)],
    ids=["announced", "noticed at the state node", "announced by a leader older than the protocol"],
)
def test_a_move_is_completed_when_leaders_of_old_have_put_its_targets_into_the_isr(
    settings: dict[str, Any], announced: bool
) -> None:
    async def main() -> None:
        world, c = await cluster(1, 2, 3, **settings)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        await world.create(REASSIGN_PARTITIONS, encode_reassignments({tp("t-0"): ids(1, 3)}))
        await quiesce()
        await write_isr(world, "t-0", 1, 2, 3)
        if announced:
            await isr_changed(world, "t-0")
        done = await world.leads("t", leader=1, isr=(1, 3))
        assert done.leader_epoch > 0
        await quiesce()
        topic = await world.topic("t")
        assert topic is not None
        assert topic.partitions[0].replicas == (1, 3)
        assert await world.tool.get(REASSIGN_PARTITIONS) is None
        await c.stop()

    run_virtually(main)
