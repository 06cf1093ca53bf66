"""The benchmark's check finds an agent that was sent anything else than what ZooKeeper has."""

import pytest

from benchmarks.partition_table import Message, PartitionTable
from benchmarks.synthetic_cluster import PartitionInZooKeeper, Shape
from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.zookeeper.port import Stat
from klamm.v1 import control_pb2 as pb

BROKER, BROKER_EPOCH = BrokerId(1), BrokerEpoch(70)
TP = TopicPartition("t", 0)
REPLICAS = (BrokerId(1), BrokerId(2))


def in_zookeeper(
    leader: int = 1, leader_epoch: int = 3, partition_epoch: int = 4
) -> dict[TopicPartition, PartitionInZooKeeper]:
    leadership = LeaderAndIsr(
        BrokerId(leader), LeaderEpoch(leader_epoch), REPLICAS, ControllerEpoch(2), PartitionEpoch(partition_epoch)
    )
    return {TP: PartitionInZooKeeper(REPLICAS, leadership, Stat(0, 0, partition_epoch, 0))}


def leader_and_isr(
    *, leader: int = 1, leader_epoch: int = 3, controller_epoch: int = 2, broker_epoch: int = BROKER_EPOCH
) -> pb.LeaderAndIsrRequest:
    state = pb.LeaderAndIsrPartitionState(
        partition_index=0,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=REPLICAS,
        partition_epoch=leader_epoch + 1,
        replicas=REPLICAS,
    )
    topic = pb.LeaderAndIsrTopicState(topic_name="t", partition_states=[state])
    return pb.LeaderAndIsrRequest(controller_epoch=controller_epoch, broker_epoch=broker_epoch, topic_states=[topic])


def update_metadata(
    *, leader: int = 1, leader_epoch: int = 3, live: tuple[int, ...] = (1, 2)
) -> pb.UpdateMetadataRequest:
    state = pb.UpdateMetadataPartitionState(
        partition_index=0,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=REPLICAS,
        zk_version=leader_epoch + 1,
        replicas=REPLICAS,
    )
    topic = pb.UpdateMetadataTopicState(topic_name="t", partition_states=[state])
    return pb.UpdateMetadataRequest(
        controller_epoch=2,
        broker_epoch=BROKER_EPOCH,
        topic_states=[topic],
        live_brokers=[pb.Broker(id=broker) for broker in live],
    )


def table_of(*messages: Message) -> PartitionTable:
    table = PartitionTable(BROKER, BROKER_EPOCH)
    for at_ms, message in enumerate(messages):
        table.apply(message, at_ms)
    return table


def test_an_agent_that_received_everything_has_no_differences() -> None:
    table = table_of(leader_and_isr(), update_metadata())
    assert list(table.differences(in_zookeeper(), {1, 2})) == []


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([update_metadata()], "LeaderAndIsr said None"),
        ([leader_and_isr()], "UpdateMetadata said None"),
        ([leader_and_isr(leader=2), update_metadata()], "LeaderAndIsr said"),
        ([leader_and_isr(), update_metadata(leader=2)], "UpdateMetadata said"),
        ([leader_and_isr(leader_epoch=2), update_metadata()], "LeaderAndIsr said"),
        ([leader_and_isr(), update_metadata(live=(1,))], "knows the brokers [1]"),
        ([leader_and_isr(), leader_and_isr(leader_epoch=2), leader_and_isr(), update_metadata()], "epoch 2 after 3"),
        ([leader_and_isr(controller_epoch=3), leader_and_isr(), update_metadata()], "controller epoch 2 after 3"),
        ([leader_and_isr(broker_epoch=69), update_metadata()], "sent to broker epoch 69"),
    ],
)
def test_whatever_is_missing_wrong_or_out_of_order_is_a_difference(messages: list[Message], expected: str) -> None:
    assert any(expected in line for line in table_of(*messages).differences(in_zookeeper(), {1, 2}))


def test_a_stopped_replica_is_hosted_no_more() -> None:
    stopped = pb.StopReplicaPartitionState(topic_name="t", partition_index=0, delete_partition=True)
    stop = pb.StopReplicaRequest(controller_epoch=2, broker_epoch=BROKER_EPOCH, partition_states=[stopped])
    assert table_of(leader_and_isr(), stop).hosted == {}


def test_the_time_of_a_new_leader_is_that_of_the_first_request_with_it() -> None:
    table = table_of(
        leader_and_isr(), leader_and_isr(leader=2, leader_epoch=4), leader_and_isr(leader=2, leader_epoch=5)
    )
    assert table.new_leaders_at_ms == {TP: 1}


@pytest.mark.parametrize("brokers", [3, 5])
def test_a_synthetic_cluster_spreads_leaders_and_pairs_evenly(brokers: int) -> None:
    shape = Shape(4, 60, 3, tuple(BrokerId(b) for b in range(1, brokers + 1)))
    assignments = [a.replicas for i in range(4) for a in shape.assignment(i).partitions.values()]
    assert all(len(set(replicas)) == 3 for replicas in assignments)
    led = [sum(replicas[0] == broker for replicas in assignments) for broker in shape.brokers]
    assert max(led) == min(led)
    pairs = {frozenset((a, b)) for replicas in assignments for a in replicas for b in replicas if a != b}
    assert len(pairs) == brokers * (brokers - 1) // 2
