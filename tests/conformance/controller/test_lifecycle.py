"""Basic scenarios on the in-memory ZooKeeper: topic creation, broker failure and return, failover, and epochs."""

from typing import Any

import pytest

from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests.control import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from cluster.znodes.configs import encode_config
from cluster.znodes.paths import topic_config_path, topic_path
from cluster.znodes.topics import encode_topic
from cluster.zookeeper.port import SetData
from simulator.recount import recount
from state_log.record import Kind
from tests.controllers.worlds import RunningController, quiesce, run_virtually, running_cluster, until


def leadership(leader: int, epoch: int, isr: tuple[int, ...], controller_epoch: int, version: int) -> LeaderAndIsr:
    return LeaderAndIsr(leader, epoch, isr, controller_epoch, version)  # type: ignore[arg-type]


def counters_agree(controller: RunningController) -> bool:
    context = controller.context
    return recount(context) == (
        context.leaderships.offline_partition_count,
        context.leaderships.preferred_replica_imbalance_count,
    )


@pytest.mark.rule("PS-8", "PS-9", "TP-14", "RQ-4", "RQ-10")
def test_a_created_topic_is_led_by_its_first_live_replica() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2], [4, 3])
        assert await world.leads("t", leader=1) == leadership(1, 0, (1, 2), 1, 0)
        assert await world.leads("t", 1, leader=3) == leadership(3, 0, (3,), 1, 0)
        await quiesce()
        (request,) = [r for r in c.brokers.of(1, LeaderAndIsrRequest) if r.topic_states]
        (topic,) = request.topic_states
        (partition,) = topic.partition_states
        assert (partition.is_new, partition.replicas, partition.partition_epoch) == (True, (1, 2), 0)
        assert [leader.broker_id for leader in request.live_leaders] == [1]
        assert request.broker_epoch == await world.broker_epoch(1)
        kinds = [type(r) for b, r in c.brokers.received if b == 3]
        assert kinds.index(LeaderAndIsrRequest) < len(kinds) - 1 - kinds[::-1].index(UpdateMetadataRequest)
        topic_id = (await world.topic("t")).topic_id  # type: ignore[union-attr]
        assert topic_id is not None
        assert topic.topic_id == topic_id
        assert counters_agree(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-30", "BK-31", "BK-32", "BK-33", "PS-10", "RM-10", "RM-11")
def test_the_death_of_a_leader_elects_once_and_of_a_follower_shrinks_the_isr() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        await world.leads("t", 2, leader=3)
        await quiesce()
        await world.stop_broker(1)
        await quiesce()
        assert await world.state("t", 0) == leadership(2, 1, (2, 3), 1, 1)
        assert await world.state("t", 1) == leadership(2, 1, (2, 3), 1, 1)
        assert await world.state("t", 2) == leadership(3, 1, (3, 2), 1, 1)
        assert c.gauge("ActiveBrokerCount") == 2
        assert c.gauge("PreferredReplicaImbalanceCount") == 1
        assert counters_agree(c)
        assert not c.brokers.of(1, StopReplicaRequest)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-35", "EP-32")
def test_a_death_that_makes_another_partition_a_leader_is_not_announced_once_more() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await world.stop_broker(2)
        await world.leads("t", leader=1, isr=(1,))
        await world.stop_broker(1)
        await world.leads("t", leader=-1, isr=(1,))
        await world.start_broker(2)
        await quiesce()
        # Nobody is told that unclean elections are allowed now; the next occasion finds it out.
        await world.create(topic_config_path("t"), encode_config({"unclean.leader.election.enable": "true"}))
        c.brokers.received.clear()
        await world.stop_broker(3)
        await world.leads("t", leader=2, isr=(2,))
        await quiesce()
        (request,) = c.brokers.of(2, UpdateMetadataRequest)
        assert [b.id for b in request.live_brokers] == [2]
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("BK-11", "BK-12", "BK-13", "PS-24")
def test_a_returning_broker_learns_metadata_then_its_replicas_with_unchanged_epochs() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await world.stop_broker(2)
        await world.leads("t", leader=1, isr=(1,))
        await quiesce()
        c.brokers.received.clear()
        await world.start_broker(2)
        await until(lambda: c.brokers.of(2, LeaderAndIsrRequest))
        kinds = [type(r) for b, r in c.brokers.received if b == 2]
        assert kinds[:2] == [UpdateMetadataRequest, LeaderAndIsrRequest]
        (sent,) = c.brokers.of(2, LeaderAndIsrRequest)
        (partition,) = sent.topic_states[0].partition_states
        assert (partition.leader, partition.leader_epoch, partition.isr, partition.is_new) == (1, 1, (1,), False)
        assert await world.state("t") == leadership(1, 1, (1,), 1, 1)
        assert c.brokers.of(1, UpdateMetadataRequest)[0].topic_states == ()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("RM-10", "PS-7")
def test_the_last_in_sync_replica_is_remembered_and_elected_when_it_returns() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await world.stop_broker(2)
        await world.leads("t", leader=1, isr=(1,))
        await world.stop_broker(1)
        assert await world.leads("t", leader=-1) == leadership(-1, 2, (1,), 1, 2)
        await quiesce()
        assert c.gauge("OfflinePartitionsCount") == 1
        await world.start_broker(2)
        await quiesce()
        assert await world.state("t") == leadership(-1, 2, (1,), 1, 2)
        await world.start_broker(1)
        assert await world.leads("t", leader=1) == leadership(1, 3, (1,), 1, 3)
        await quiesce()
        assert c.gauge("OfflinePartitionsCount") == 0
        assert counters_agree(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("PS-7", "PS-30", "RM-20", "BK-14")
def test_a_topic_without_live_replicas_stays_new_until_one_starts() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [2, 3])
        await quiesce()
        assert await world.state("t") is None
        assert c.gauge("OfflinePartitionsCount") == 0
        await world.start_broker(3)
        assert await world.leads("t", leader=3) == leadership(3, 0, (3,), 1, 0)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("FO-9", "FO-10", "FO-11", "EL-13")
def test_a_failover_changes_no_healthy_partition_and_sends_everything_again() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2], [2, 1])
        await world.leads("t", 1, leader=2)
        second = world.start_controller(1002)
        await quiesce()
        assert (first.gauge("ActiveControllerCount"), second.gauge("ActiveControllerCount")) == (1, 0)
        await first.stop()
        await until(lambda: second.is_active)
        await quiesce()
        assert await world.state("t", 0) == leadership(1, 0, (1, 2), 1, 0)
        assert await world.state("t", 1) == leadership(2, 0, (2, 1), 1, 0)
        kinds = [type(r) for b, r in second.brokers.received if b == 1]
        assert kinds == [UpdateMetadataRequest, LeaderAndIsrRequest, UpdateMetadataRequest]
        introduction, full = second.brokers.of(1, UpdateMetadataRequest)
        assert introduction.topic_states == ()
        assert {b.id for b in introduction.live_brokers} == {1, 2}
        assert len(full.topic_states[0].partition_states) == 2
        (sent,) = second.brokers.of(1, LeaderAndIsrRequest)
        assert (sent.controller_id, sent.controller_epoch) == (1002, 2)
        assert sent.topic_states[0].partition_states[0].controller_epoch == 1
        assert counters_agree(second)
        loaded = second.sink.of(Kind.LOADED)
        assert [(record.topic, len(record.partitions or ())) for record in loaded] == [("t", 2)]
        assert not second.sink.of(Kind.REPLICA)
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("FO-10", "FO-11", "RM-21", "D-21")
def test_a_leader_that_died_with_its_controller_costs_two_epochs() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        second = world.start_controller(1002)
        await quiesce()
        first.crash()
        await world.stop_broker(1)
        await until(lambda: second.is_active)
        assert await world.leads("t", leader=2) == leadership(2, 2, (2,), 2, 2)
        await quiesce()
        assert counters_agree(second)
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("FO-10", "FO-11", "RM-21", "D-21", "PS-20")
def test_with_elections_first_it_costs_one_epoch_and_brokers_hear_once() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2, 3)
        await world.create_topic("t", [1, 2, 3], [2, 3, 1], [1])
        await world.leads("t", leader=1)
        second = world.start_controller(1002, klamm_failover_elect_first=True)
        await quiesce()
        first.crash()
        await world.stop_broker(1)
        await until(lambda: second.is_active)
        assert await world.leads("t", leader=2) == leadership(2, 1, (2, 3), 2, 1)
        await quiesce()
        # Where it did not lead it is only taken out of the ISR; where nobody else can lead it stays in it.
        assert await world.state("t", 1) == leadership(2, 1, (2, 3), 2, 1)
        assert await world.state("t", 2) == leadership(-1, 1, (1,), 2, 1)
        first_sent = second.brokers.of(2, LeaderAndIsrRequest)[0]
        assert {(s.partition_index, s.leader, s.leader_epoch) for s in first_sent.topic_states[0].partition_states} == {
            (0, 2, 1),
            (1, 2, 0),
        }
        assert counters_agree(second)
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("RM-1", "RM-10", "BK-33", "RM-21", "D-120")
@pytest.mark.parametrize(
    ("settings", "epoch", "left"),
    [
        # Kafka's hash table has 5 before 1 before 3.
        ({"governs_kafka": True, "takeover": "atomic"}, 3, (3,)),
        ({}, 1, (1, 3, 5)),
    ],
    ids=["Kafka", "klamm"],
)
def test_of_an_isr_that_dies_at_once_kafka_keeps_the_last_one_in_the_order_of_hashes_and_klamm_all(
    settings: dict[str, Any], epoch: int, left: tuple[int, ...]
) -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 3, 5)
        await world.create_topic("t", [1, 3, 5])
        await world.leads("t", leader=1)
        second = world.start_controller(1002, **settings)
        await quiesce()
        first.crash()
        for broker in (1, 3, 5):
            await world.stop_broker(broker)
        await until(lambda: second.is_active)
        assert await world.leads("t", leader=-1, isr=left) == leadership(-1, epoch, left, 2, epoch)
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("RM-10", "RM-11")
def test_each_failover_writes_leaderless_partitions_of_dead_replicas_again_and_no_others() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await world.create_topic("dead", [1])
        await world.create_topic("alive", [2, 1])
        await world.leads("alive", leader=2)
        await world.stop_broker(1)
        await world.leads("dead", leader=-1)
        assert await world.leads("alive", leader=2, isr=(2,)) == leadership(2, 1, (2,), 1, 1)
        await first.stop()
        second = world.start_controller(1002)
        await until(lambda: second.is_active)
        await quiesce()
        assert await world.state("dead") == leadership(-1, 2, (1,), 2, 2)
        assert await world.state("alive") == leadership(2, 1, (2,), 1, 1)
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("BK-1", "BK-2", "BK-3", "BK-4")
def test_a_bounce_seen_as_one_notification_is_a_failure_and_a_start() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        c.brokers.received.clear()
        await world.stop_broker(1)
        await world.start_broker(1)
        assert await world.leads("t", leader=2) == leadership(2, 1, (2,), 1, 1)
        await until(lambda: c.brokers.of(1, LeaderAndIsrRequest))
        assert c.brokers.of(1, LeaderAndIsrRequest)[-1].broker_epoch == await world.broker_epoch(1)
        assert counters_agree(c)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-20", "TP-23", "TP-24")
@pytest.mark.parametrize("version", ["3.9", "2.7"])
def test_a_topic_grows_through_its_node_and_changed_assignments_are_ignored(version: str) -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2, protocol_version=ProtocolVersion.parse(version))
        await world.create_topic("t", [1, 2])
        await world.leads("t", leader=1)
        await quiesce()
        before = await world.topic("t")
        assert before is not None
        grown = TopicAssignment({0: ReplicaAssignment((2,)), 1: ReplicaAssignment((2, 1))}, before.topic_id)  # type: ignore[arg-type]
        await world.write(SetData(topic_path("t"), encode_topic(grown)))
        assert await world.leads("t", 1, leader=2) == leadership(2, 0, (2, 1), 1, 0)
        assert c.context.topics.assignments["t"][0].replicas == (1, 2)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-21")
def test_a_doomed_topic_goes_back_to_the_partitions_that_came_into_being() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1], [9])
        await world.leads("t", leader=1)
        await quiesce()
        await world.create("/admin/delete_topics/t")
        await quiesce()
        topic = await world.topic("t")
        assert topic is not None
        grown = TopicAssignment({**topic.partitions, 2: topic.partitions[0]}, topic.topic_id)
        await world.write(SetData(topic_path("t"), encode_topic(grown)))
        await quiesce()
        left = await world.topic("t")
        assert left == TopicAssignment({0: topic.partitions[0]}, topic.topic_id)
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("TP-12", "CX-10", "D-8")
def test_a_topic_removed_by_hand_is_forgotten_and_can_be_created_again() -> None:
    async def main() -> None:
        world, c = await running_cluster(1)
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        await quiesce()
        for below in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
            await world.delete(topic_path("t") + below)
        await until(lambda: c.gauge("GlobalTopicCount") == 0)
        assert c.gauge("GlobalPartitionCount") == 0
        await world.create_topic("t", [1])
        assert await world.leads("t", leader=1) == leadership(1, 0, (1,), 1, 0)
        await until(lambda: counters_agree(c))
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("ZK-2", "LC-3", "PS-11")
def test_malformed_znodes_are_skipped_and_never_keep_a_controller_from_being_active() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, 2)
        await world.create_topic("good", [1, 2])
        await world.create_topic("torn", [1])
        await world.leads("good", leader=1)
        await world.leads("torn", leader=1)
        await quiesce()
        await world.create("/brokers/topics/bad", b"{no json")
        await world.create("/brokers/ids/7", b'{"version":0}')
        await world.create("/brokers/ids/x", b"")
        await world.write(SetData("/brokers/topics/torn/partitions/0/state", b'{"leader":1}'))
        await quiesce()
        second = world.start_controller(1002)
        await first.stop()
        await until(lambda: second.is_active)
        await quiesce()
        assert second.gauge("ActiveBrokerCount") == 2
        assert second.gauge("GlobalPartitionCount") == 1
        await world.stop_broker(1)
        await world.leads("good", leader=2)
        mended = TopicAssignment({0: ReplicaAssignment((2,))})  # type: ignore[arg-type]
        await world.write(SetData("/brokers/topics/bad", encode_topic(mended)))
        await world.leads("bad", leader=2)
        repaired = await world.topic("bad")
        assert repaired is not None
        assert repaired.topic_id == second.context.topics.ids["bad"]
        await second.stop()

    run_virtually(main)


@pytest.mark.rule("TI-1", "TI-3", "ZK-22", "LC-4")
def test_a_topic_without_an_id_gets_one_at_failover_and_keeps_it() -> None:
    async def main() -> None:
        world, first = await running_cluster(1, protocol_version=ProtocolVersion.parse("2.7-IV2"))
        await world.create_topic("t", [1])
        await world.leads("t", leader=1)
        assert (await world.topic("t")).topic_id is None  # type: ignore[union-attr]
        await first.stop()
        second = world.start_controller(1002)
        await until(lambda: second.is_active)
        given = (await world.topic("t")).topic_id  # type: ignore[union-attr]
        assert given is not None
        assert len(given) == 22
        await second.stop()
        third = world.start_controller(1003)
        await until(lambda: third.is_active)
        assert (await world.topic("t")).topic_id == given  # type: ignore[union-attr]
        assert third.context.topics.ids == {"t": given}
        await third.stop()

    run_virtually(main)


def unanswered_ms(c: RunningController) -> dict[str, float]:
    """By broker, as a scrape gets it."""
    name = "klamm_controller_controllerchannelmanager_unansweredrequestagems"
    families = [family for family in c.metrics.collect() if family.name == name]
    return {sample.labels["broker_id"]: sample.value for family in families for sample in family.samples}


@pytest.mark.rule("RQ-31", "RQ-32", "RQ-35")
def test_requests_to_a_silent_broker_wait_in_order_and_are_dropped_with_its_channel() -> None:
    async def main() -> None:
        world, c = await running_cluster(1, 2)
        c.brokers.unreachable.add(2)
        await world.create_topic("a", [1, 2])
        await world.create_topic("b", [2, 1])
        await world.leads("b", leader=2)
        await quiesce(2)
        assert not c.brokers.of(2, LeaderAndIsrRequest)
        assert c.gauge("TotalQueueSize", "ControllerChannelManager") > 0
        ages = unanswered_ms(c)
        assert ages.keys() == {"1", "2"}
        assert (ages["1"], ages["2"] >= 2000) == (0, True)
        c.brokers.unreachable.clear()
        await until(lambda: len(c.brokers.of(2, LeaderAndIsrRequest)) == 2)
        names = [r.topic_states[0].topic_name for r in c.brokers.of(2, LeaderAndIsrRequest)]
        assert names == ["a", "b"]
        c.brokers.unreachable.add(2)
        await world.create_topic("c", [1, 2])
        await world.leads("c", leader=1)
        await world.stop_broker(2)
        await until(lambda: 2 in c.brokers.forgotten)
        await quiesce()
        assert c.gauge("TotalQueueSize", "ControllerChannelManager") == 0
        assert unanswered_ms(c) == {"1": 0}
        await c.stop()
        assert unanswered_ms(c) == {}

    run_virtually(main)
