"""What is estimated of a request is never less than what is sent, by either protocol."""

from typing import Any

import pytest

from cluster.kafka_wire.codec import encode
from cluster.model.bounds import INT32_MAX
from cluster.model.broker import (
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    LeaderEpoch,
    TopicId,
)
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests import control
from cluster.rpc.methods import encode_request
from controller.adapters.kafka.control_messages import ControlMessages
from controller.decisions.request_sizes import within

T_ID = TopicId("dGhpc2lzMTZieXRlcyEhIQ")
PARTITIONS = 40
HEAD: Any = (ControllerId(INT32_MAX), ControllerEpoch(INT32_MAX), BrokerEpoch(2**62))


def size_of(request: control.ControlRequest, protocol: str) -> int:
    if protocol == "grpc":
        return len(encode_request(request))
    controller = Broker(BrokerId(1), (Endpoint("h", 1),))
    return len(encode(*ControlMessages(ProtocolVersion.parse(protocol), controller).message(request)))


def leader_and_isr(replicas: tuple[BrokerId, ...]) -> control.LeaderAndIsrRequest:
    state = control.LeaderAndIsrPartitionState(
        *(INT32_MAX, ControllerEpoch(INT32_MAX), replicas[0], INT32_MAX, replicas, INT32_MAX),
        *(replicas, replicas, replicas, True),
    )  # fmt: skip
    topic = control.LeaderAndIsrTopicState("t" * 249, T_ID, (state,) * PARTITIONS)
    return control.LeaderAndIsrRequest(*HEAD, topic_states=(topic,), live_leaders=())


def update_metadata(replicas: tuple[BrokerId, ...]) -> control.UpdateMetadataRequest:
    state = control.UpdateMetadataPartitionState(
        *(INT32_MAX, ControllerEpoch(INT32_MAX), replicas[0], INT32_MAX, replicas, INT32_MAX),
        *(replicas, replicas),
    )  # fmt: skip
    topic = control.UpdateMetadataTopicState("t" * 249, T_ID, (state,) * PARTITIONS)
    return control.UpdateMetadataRequest(*HEAD, topic_states=(topic,))


def stop_replica() -> control.StopReplicaRequest:
    state = control.StopReplicaPartitionState("t" * 249, INT32_MAX, LeaderEpoch(INT32_MAX), True, T_ID)
    return control.StopReplicaRequest(*HEAD, partition_states=(state,) * PARTITIONS)


@pytest.mark.parametrize("protocol", ["grpc", "2.4", "3.9"])
def test_replicas_that_are_stopped_are_not_larger_than_estimated(protocol: str) -> None:
    states = tuple(
        control.StopReplicaPartitionState(f"{topic:t>249}", INT32_MAX, LeaderEpoch(INT32_MAX), True, T_ID)
        for topic in range(PARTITIONS)
    )
    size = size_of(control.StopReplicaRequest(*HEAD, partition_states=states), protocol) - 200
    assert len(list(within(states * 2, 2 * size))) >= 2
    assert list(within(states * 2, 3 * size)) == [states * 2]


@pytest.mark.parametrize("replicas", [1, 3, 50])
@pytest.mark.parametrize("make", [leader_and_isr, update_metadata])
@pytest.mark.parametrize("protocol", ["grpc", "2.4", "3.9"])
def test_a_topic_is_not_larger_than_estimated(protocol: str, make: Any, replicas: int) -> None:
    request = make(tuple(BrokerId(INT32_MAX - number) for number in range(replicas)))
    # Beside the topics there are some numbers, and of UpdateMetadata the brokers.
    of_topics = size_of(request, protocol) - 200
    # Two of them are sent together only if both fit.
    assert len(list(within(request.topic_states * 2, 2 * of_topics))) == 2
    assert len(list(within(request.topic_states * 2, 6 * of_topics))) == 1


def test_without_topics_there_is_one_empty_part() -> None:
    assert list(within((), 1)) == [()]
