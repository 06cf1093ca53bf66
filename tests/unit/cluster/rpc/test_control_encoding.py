"""What several requests carry is serialised once, and its bytes are kept no longer than the requests."""

import gc

import pytest
from msgspec.structs import replace

from cluster.model.broker import Broker, BrokerId, ControllerEpoch, ControllerId, Endpoint, LeaderEpoch, PartitionEpoch
from cluster.requests.control import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from cluster.rpc import control_encoding
from klamm.v1 import control_pb2

ME, EPOCH, ONE = ControllerId(1001), ControllerEpoch(3), BrokerId(1)


def leader_and_isr(partitions: int) -> LeaderAndIsrRequest:
    states = tuple(
        LeaderAndIsrPartitionState(p, EPOCH, ONE, LeaderEpoch(4), (ONE,), PartitionEpoch(6), (ONE,))
        for p in range(partitions)
    )
    return LeaderAndIsrRequest(ME, EPOCH, topic_states=(LeaderAndIsrTopicState("t", None, states),))


def update_metadata(partitions: int) -> UpdateMetadataRequest:
    states = tuple(
        UpdateMetadataPartitionState(p, EPOCH, ONE, LeaderEpoch(4), (ONE,), PartitionEpoch(6), (ONE,))
        for p in range(partitions)
    )
    broker = Broker(ONE, (Endpoint("host1", 9092),))
    return UpdateMetadataRequest(
        ME, EPOCH, topic_states=(UpdateMetadataTopicState("t", None, states),), live_brokers=(broker,)
    )


class Counted:
    """A message class that counts its instances."""

    def __init__(self, message: type) -> None:
        self.message, self.made = message, 0

    def __call__(self, **fields: object) -> object:
        self.made += 1
        return self.message(**fields)


def count(monkeypatch: pytest.MonkeyPatch, name: str) -> Counted:
    counted = Counted(getattr(control_pb2, name))
    monkeypatch.setattr(control_pb2, name, counted)
    return counted


def test_a_partition_state_of_several_requests_is_serialised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = count(monkeypatch, "LeaderAndIsrPartitionState")
    first = leader_and_isr(partitions=5)
    second = replace(first, broker_epoch=9, topic_states=tuple(replace(t) for t in first.topic_states))
    encoded = [control_encoding.encode_leader_and_isr(request) for request in (first, second)]
    assert counted.made == 5
    messages = [control_pb2.LeaderAndIsrRequest.FromString(data) for data in encoded]
    assert [p.partition_index for p in messages[1].topic_states[0].partition_states] == list(range(5))
    assert messages[0].topic_states == messages[1].topic_states


def test_the_metadata_of_several_requests_are_serialised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions, brokers = count(monkeypatch, "UpdateMetadataPartitionState"), Counted(control_pb2.Broker)
    monkeypatch.setattr(control_encoding, "_broker", control_encoding._broker._replace(message_class=brokers))
    first = update_metadata(partitions=5)
    second = replace(first, broker_epoch=9)
    encoded = [control_encoding.encode_update_metadata(request) for request in (first, second)]
    assert (partitions.made, brokers.made) == (5, 1)
    messages = [control_pb2.UpdateMetadataRequest.FromString(data) for data in encoded]
    assert [p.partition_index for p in messages[1].topic_states[0].partition_states] == list(range(5))
    assert [(b.id, b.endpoints[0].host) for b in messages[1].live_brokers] == [(1, "host1")]
    assert messages[0].topic_states == messages[1].topic_states


def held_parts() -> int:
    kinds = (
        control_encoding._leader_and_isr_partitions,
        control_encoding._update_metadata_topics,
        control_encoding._live_brokers,
    )
    return sum(map(len, kinds))


def test_equal_states_of_different_requests_do_not_share_and_nothing_outlives_them() -> None:
    gc.collect()
    before = held_parts()
    requests = leader_and_isr(3), leader_and_isr(3), update_metadata(3)
    control_encoding.encode_leader_and_isr(requests[0])
    control_encoding.encode_leader_and_isr(requests[1])
    control_encoding.encode_update_metadata(requests[2])
    assert held_parts() == before + 3 + 3 + 2
    del requests
    gc.collect()
    assert held_parts() == before
