"""Topic deletion with brokers that only respond: requests to brokers, what blocks it, what completes it."""

from collections.abc import Sequence
from typing import Any

import pytest

from cluster.model.broker import BrokerId, TopicId
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.model.state_machines import ReplicaState
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.requests.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribedTopicDeletion,
    DescribeTopicDeletionsRequest,
    NewPartitions,
    NewTopic,
    WaitingReplica,
)
from cluster.znodes.configs import encode_config
from cluster.znodes.paths import delete_topic_path, partitions_path, topic_config_path, topic_path
from cluster.znodes.topics import encode_topic
from cluster.zookeeper.port import Create, Delete, Op, SetData
from state_log.record import Kind
from tests.controllers.contexts import ids
from tests.controllers.topic_deletions import E, counters_agree, describe, gone, kinds, mark, stops
from tests.controllers.worlds import World, quiesce, run_virtually, running_cluster, until


@pytest.mark.rule("TD-4", "TD-7", "TD-9", "TD-13", "TD-15", "TD-20", "RQ-8", "CX-7", "CX-10", "CX-11", "TI-3", "INV-9")
def test_a_topic_is_forgotten_stopped_deleted_and_only_then_removed() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create(topic_config_path("t"), encode_config({"retention.ms": "1"}))
        await world.create_topic("t", [1, 2], [2, 1])
        await world.leads("t", 1, leader=2)
        await quiesce()
        old_id = (await world.topic("t")).topic_id  # type: ignore[union-attr]
        c.brokers.received.clear()
        deleted = deletions(world)
        await mark(world, "t")
        await gone(world, "t")
        await quiesce()
        forget, *_ = c.brokers.of(3, UpdateMetadataRequest)
        assert [(p.leader, p.leader_epoch, p.zk_version) for p in forget.topic_states[0].partition_states] == [
            (-2, 0, 0)
        ] * 2
        assert stops(c, 1) == [("t", p, -2, delete) for delete in (False, True) for p in (0, 1)]
        assert kinds(c, 3) == [UpdateMetadataRequest]
        assert not c.brokers.of(1, LeaderAndIsrRequest), "nobody is told of the shrinking ISRs"
        assert deleted.index(delete_topic_path("t")) > deleted.index(topic_config_path("t"))
        assert deleted.index(topic_config_path("t")) > deleted.index(topic_path("t"))
        assert deleted.index(topic_path("t")) > deleted.index(partitions_path("t"))
        assert "t" not in c.context.topics.names | c.context.deletions.queued | c.context.deletions.started
        assert not c.context.leaderships.known
        assert not c.context.leaderships.partition_states
        counts = ("TopicsToDeleteCount", "ReplicasToDeleteCount", "GlobalTopicCount")
        assert [c.gauge(name) for name in counts] == [0, 0, 0]
        assert [r.to_state for r in c.sink.of(Kind.TOPIC)] == ["created", "queued for deletion", "deleted"]
        await world.create_topic("t", [3])
        assert (await world.leads("t", leader=3)).leader_epoch == 0
        assert (await world.topic("t")).topic_id not in {None, old_id}  # type: ignore[union-attr]
        assert counters_agree(c)
        await c.stop()

    run_virtually(main)


def deletions(world: World) -> list[str]:
    """The paths deleted from now on, in order."""
    paths: list[str] = []
    carry_out = world.server.write

    def write(session: Any, ops: Sequence[Op]) -> Any:
        paths.extend(op.path for op in ops if isinstance(op, Delete))
        return carry_out(session, ops)

    world.server.write = write  # type: ignore[method-assign]
    return paths


@pytest.mark.rule("TD-10")
def test_the_marker_of_an_unknown_topic_is_removed() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await mark(world, "nonsense")
        await gone(world, "nonsense")
        assert c.context.topics.names == {"t"}
        assert c.gauge("TopicsToDeleteCount") == 0
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TD-1", "TD-3", "TD-11")
def test_where_deletion_is_disabled_markers_go_and_topics_stay() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, delete_topic_enable=False)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await mark(world, "t")
        await until(lambda: not world.server.tree.children("/admin/delete_topics"))
        await quiesce()
        assert not stops(c, 1)
        await c.stop()
        await mark(world, "t")
        successor = world.start_controller(1002, delete_topic_enable=False)
        await until(lambda: successor.is_active)
        await quiesce()
        assert not world.server.tree.children("/admin/delete_topics")
        assert await world.topic("t") is not None
        assert successor.gauge("TopicsToDeleteCount") == 0
        await successor.stop()

    run_virtually(main)


@pytest.mark.rule("TD-6", "TD-9", "TD-13", "TD-27", "BK-13", "BK-16", "RM-10", "CX-20", "INV-10")
def test_a_dead_replica_holds_its_topic_until_it_returns() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2, 3])
        await world.leads("t", leader=1)
        await world.stop_broker(3)
        await world.leads("t", leader=1, isr=(1, 2))
        await mark(world, "t")
        # One epoch for each living replica that is stopped; the last one stays listed.
        state = await world.leads("t", leader=-1)
        await quiesce()
        assert (state.leader_epoch, state.isr) == (3, (2,))
        assert [stops(c, b)[-1] for b in (1, 2)] == [("t", 0, -2, True)] * 2
        assert [c.gauge(f"{name}Count") for name in ("TopicsToDelete", "TopicsIneligibleToDelete")] == [1, 1]
        assert [c.gauge(f"{name}Count") for name in ("ReplicasToDelete", "ReplicasIneligibleToDelete")] == [1, 0]
        assert c.gauge("OfflinePartitionsCount") == 0
        described = await describe(c)
        (waits,) = described.waiting
        assert waits.reason.startswith("broker 3 is not alive; the topic is deleted without it at ")
        waiting = WaitingReplica(0, BrokerId(3), ReplicaState.OFFLINE.value, waits.reason)
        assert described == DescribedTopicDeletion(
            "t", "on hold", "replicas offline on broker 3", deleted_replicas=2, replicas=3, waiting=(waiting,)
        )
        c.brokers.received.clear()
        await world.start_broker(3)
        await gone(world, "t")
        await quiesce()
        assert kinds(c, 3).index(LeaderAndIsrRequest) < kinds(c, 3).index(StopReplicaRequest)
        assert stops(c, 3) == [("t", 0, -2, False), ("t", 0, -2, True)]
        assert not stops(c, 1), "what is deleted is not deleted again"
        assert counters_agree(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TD-8", "TD-20", "TD-25")
def test_a_broker_that_refuses_holds_the_topic_until_a_broker_of_it_starts() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        c.brokers.deletions[BrokerId(2)] = ErrorCode.KAFKA_STORAGE_ERROR
        await mark(world, "t")
        await until(lambda: c.gauge("TopicsIneligibleToDeleteCount") == 1)
        await quiesce(10)
        assert [s for s in stops(c, 2) if s[3]] == [("t", 0, -2, True)]
        described = await describe(c)
        assert (described.state, described.deleted_replicas) == ("on hold", 1)
        assert described.reason == "refused by broker 2; tried again when a broker of the topic starts"
        await world.start_broker(3)
        await quiesce()
        assert await world.topic("t") is not None, "broker 3 has nothing to do with it"
        c.brokers.deletions.clear()
        await world.stop_broker(1)
        await quiesce()
        await world.start_broker(1)
        await gone(world, "t")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-34", "RQ-20", "TD-8", "TD-26")
def test_a_broker_that_dies_before_it_answers_does_not_leave_its_replica_hanging() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.answers[BrokerId(2)] = ErrorCode.STALE_CONTROLLER_EPOCH
        await mark(world, "t")
        await quiesce(10)
        assert c.context.replicas.by_state("t")[ReplicaState.DELETION_STARTED] == 1
        assert c.gauge("TopicsIneligibleToDeleteCount") == 0
        described = await describe(c)
        assert (described.state, described.waiting[0].reason) == ("in progress", "broker 2 has not answered yet")
        c.brokers.answers.clear()
        await world.stop_broker(2)
        await until(lambda: c.gauge("TopicsIneligibleToDeleteCount") == 1)
        await world.start_broker(2)
        await gone(world, "t")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TD-26", "TD-6")
def test_a_broker_back_before_the_others_have_answered_is_informed_when_they_have() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.unreachable.add(BrokerId(1))
        await mark(world, "t")
        await quiesce()
        assert c.gauge("ReplicasToDeleteCount") == 1
        await world.stop_broker(2)
        await quiesce()
        await world.start_broker(2)
        await quiesce()
        assert c.gauge("TopicsIneligibleToDeleteCount") == 0
        assert await world.topic("t") is not None
        c.brokers.unreachable.clear()
        await gone(world, "t")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("FO-7", "FO-8", "FO-13", "TD-1", "TD-5")
def test_a_new_controller_holds_topics_with_dead_replicas_and_deletes_the_others() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await world.create_topic("held", [1, 2])
        await world.create_topic("free", [1])
        await world.leads("held", leader=1)
        await world.leads("free", leader=1)
        await world.stop_broker(2)
        await quiesce()
        await first.stop()
        await mark(world, "held", "free", "never-was")
        second = world.start_controller(1002)
        await gone(world, "free")
        await gone(world, "never-was")
        await quiesce()
        assert second.gauge("TopicsIneligibleToDeleteCount") == 1
        assert not any(topic == "held" and delete for topic, _, _, delete in stops(second, 1))
        await world.start_broker(2)
        await gone(world, "held")
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("TD-28", "RM-7", "ZC-8")
def test_a_half_deleted_topic_is_deleted_to_the_end() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2], [2, 1])
        await world.leads("t", 1, leader=2)
        await first.stop()
        await mark(world, "t")
        await world.write(Delete("/brokers/topics/t/partitions/0/state"), Delete("/brokers/topics/t/partitions/0"))
        await world.create("/brokers/topics/t/notes", b"somebody's own")
        second = world.start_controller(1002)
        await gone(world, "t")
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("TD-15", "ZC-8")
@pytest.mark.parametrize("times", [1, 2, 3])
def test_nodes_added_while_a_topic_is_removed_are_removed_too_at_the_latest_at_the_next_occasion(times: int) -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        left = times
        carry_out = world.server.write

        def write(session: Any, ops: Sequence[Op]) -> Any:
            nonlocal left
            if left > 0 and any(isinstance(op, Delete) and op.path == topic_path("t") for op in ops):
                carry_out(session, [Create(f"{topic_path('t')}/more-{left}")])
                left -= 1
            return carry_out(session, ops)

        world.server.write = write  # type: ignore[method-assign]
        await mark(world, "t")
        await quiesce(2)
        assert left == 0
        assert (world.server.tree.get(topic_path("t")) is None) is (times < 3)
        if times == 3:
            assert world.server.tree.get(delete_topic_path("t")) is not None
            assert c.gauge("TopicsToDeleteCount") == 1
            await mark(world, "another")
        await gone(world, "t")
        await c.stop()

    run_virtually(main)


def test_a_topic_znode_that_cannot_be_read_does_not_grow_but_can_be_deleted() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create(topic_path("t"), b"not JSON")
        await until(lambda: "t" in c.context.topics.names)
        grown = await c.ask(CreatePartitionsRequest((NewPartitions("t", 2),)))
        assert grown.results[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await mark(world, "t")
        await gone(world, "t")
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-21", "TP-22")
def test_partitions_added_to_a_doomed_topic_are_taken_out_again() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await world.stop_broker(2)
        await quiesce()
        await mark(world, "t")
        await world.leads("t", leader=-1)
        known = await world.topic("t")
        assert known is not None
        grown = TopicAssignment({0: known.partitions[0], 1: ReplicaAssignment(ids(1))}, TopicId(known.topic_id or ""))
        await world.write(SetData(topic_path("t"), encode_topic(grown)))
        await quiesce()
        assert await world.topic("t") == known
        assert await world.state("t", 1) is None
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TD-4", "TD-15", "D-19")
def test_many_topics_go_in_few_transactions_and_requests() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        topics = [f"t{n}" for n in range(20)]
        for topic in topics:
            await world.create_topic(topic, *[[1, 2]] * 25)
        await world.leads(topics[-1], 24, leader=1)
        await quiesce()
        c.brokers.received.clear()
        transactions = 0
        carry_out = world.server.write

        def write(session: Any, ops: Sequence[Op]) -> Any:
            nonlocal transactions
            transactions += 1
            return carry_out(session, ops)

        world.server.write = write  # type: ignore[method-assign]
        await mark(world, *topics)
        await gone(world, topics[-1])
        # 500 partitions: two ISR removals each, then 1,080 nodes, 250 to a transaction.
        assert transactions < 20
        assert len(c.brokers.received) < 12
        assert counters_agree(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-1")
def test_the_name_of_a_topic_that_is_being_deleted_is_refused_with_what_the_deletion_waits_for() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1, 9])
        await world.leads("t", 0, leader=1)
        await mark(world, "t")

        await until(lambda: "t" in c.context.deletions.queued, "the deletion is known")

        async def on_hold() -> bool:
            found = (await c.ask(DescribeTopicDeletionsRequest(("t",)))).deletions
            return [deletion.state for deletion in found] == ["on hold"]

        await until(on_hold, "the deletion waits for broker 9")
        for validate_only in (False, True):
            answer = await c.ask(CreateTopicsRequest((NewTopic("t", 1, 1),), validate_only=validate_only))
            assert answer.topics[0].error_code is E.TOPIC_ALREADY_EXISTS
            assert answer.topics[0].error_message == "topic t is still being deleted: replicas offline on broker 9"

    run_virtually(main)
