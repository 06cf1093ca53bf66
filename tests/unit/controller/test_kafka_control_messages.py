"""Control requests as messages of Kafka: the versions of each protocol version, and what brokers answer."""

from typing import Any

import pytest

from cluster.kafka_wire.codec import decode, encode
from cluster.kafka_wire.message import EncodedPart
from cluster.kafka_wire.messages import control as wire_control
from cluster.kafka_wire.messages.control import StopReplicaPartitionError, StopReplicaResponse, UpdateMetadataResponse
from cluster.model.broker import (
    ZERO_TOPIC_ID,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    LeaderEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests import control
from controller.adapters.kafka.control_messages import ControlMessages, ControlVersions, answer_type, response_of

T_ID = TopicId("dGhpc2lzMTZieXRlcyEhIQ")
CONTROLLER = Broker(BrokerId(1001), (Endpoint("klamm", 9095), Endpoint("klamm", 9096, "TLS", "SSL")), rack="a")
EPOCHS: Any = {
    "controller_id": ControllerId(1001),
    "controller_epoch": ControllerEpoch(7),
    "broker_epoch": BrokerEpoch(42),
}


def leader_and_isr(partitions: int = 2) -> control.LeaderAndIsrRequest:
    states = tuple(
        control.LeaderAndIsrPartitionState(
            number,
            ControllerEpoch(7),
            BrokerId(1),
            3,
            (BrokerId(1), BrokerId(2)),
            5,
            (BrokerId(1), BrokerId(2)),
            adding_replicas=(BrokerId(2),),
            is_new=number == 0,
        )
        for number in range(partitions)
    )
    return control.LeaderAndIsrRequest(
        **EPOCHS,
        topic_states=(control.LeaderAndIsrTopicState("t", T_ID, states),),
        live_leaders=(control.LiveLeader(BrokerId(1), "host1", 9092),),
    )


def update_metadata() -> control.UpdateMetadataRequest:
    state = control.UpdateMetadataPartitionState(
        0, ControllerEpoch(7), BrokerId(1), 3, (BrokerId(1),), 5, (BrokerId(1),)
    )
    return control.UpdateMetadataRequest(
        **EPOCHS,
        topic_states=(control.UpdateMetadataTopicState("t", T_ID, (state,)),),
        live_brokers=(Broker(BrokerId(1), (Endpoint("host1", 9092),)),),
    )


def stop_replica(*deletes: bool) -> control.StopReplicaRequest:
    return control.StopReplicaRequest(
        **EPOCHS,
        partition_states=tuple(
            control.StopReplicaPartitionState(topic, number, LeaderEpoch(3), delete, T_ID)
            for number, delete in enumerate(deletes)
            for topic in ("t", "u")
        ),
    )


def sent(request: control.ControlRequest, protocol: str) -> Any:
    """What a broker of this protocol version reads."""
    message, version = ControlMessages(ProtocolVersion.parse(protocol), CONTROLLER).message(request)
    return decode(type(message), version, encode(message, version))


@pytest.mark.rule("D-81")
@pytest.mark.parametrize(
    ("protocol", "versions"),
    [
        ("2.4", (4, 6, 2)),
        ("2.5", (4, 6, 2)),
        ("2.6", (4, 6, 3)),
        ("2.7", (4, 6, 3)),
        ("2.8-IV0", (4, 6, 3)),
        ("2.8", (5, 7, 3)),
        ("3.1", (5, 7, 3)),
        ("3.2", (6, 7, 3)),
        ("3.3", (6, 7, 3)),
        ("3.4", (7, 8, 4)),
        ("3.9", (7, 8, 4)),
    ],
)
def test_the_versions_of_each_protocol_version(protocol: str, versions: tuple[int, int, int]) -> None:
    found = ControlVersions.of(ProtocolVersion.parse(protocol))
    assert (found.leader_and_isr, found.update_metadata, found.stop_replica) == versions


@pytest.mark.rule("D-81")
@pytest.mark.parametrize(
    ("protocol", "topic_id"), [("2.4", ZERO_TOPIC_ID), ("2.8", T_ID), ("3.2", T_ID), ("3.9", T_ID)]
)
def test_leaders_and_isrs(protocol: str, topic_id: TopicId) -> None:
    message = sent(leader_and_isr(), protocol)
    assert (message.controller_id, message.controller_epoch, message.broker_epoch) == (1001, 7, 42)
    assert not message.is_kraft_controller
    (topic,) = message.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", topic_id)
    first, second = topic.partition_states
    assert (first.is_new, second.is_new, second.partition_index) == (True, False, 1)
    assert (first.leader, first.leader_epoch, first.isr, first.partition_epoch) == (1, 3, (1, 2), 5)
    assert (first.replicas, first.adding_replicas, first.removing_replicas) == ((1, 2), (2,), ())
    assert [(leader.broker_id, leader.host_name, leader.port) for leader in message.live_leaders] == [
        (1, "host1", 9092)
    ]


@pytest.mark.rule("D-82")
@pytest.mark.parametrize("protocol", ["2.4", "2.8", "3.9"])
def test_the_controller_is_among_the_live_brokers(protocol: str) -> None:
    message = sent(update_metadata(), protocol)
    first, controller = message.live_brokers
    assert (first.id, first.rack, controller.id, controller.rack) == (1, None, 1001, "a")
    described = [(e.host, e.port, e.listener, e.security_protocol) for e in controller.endpoints]
    assert described == [("klamm", 9095, "PLAINTEXT", 0), ("klamm", 9096, "TLS", 1)]
    ((partition,),) = (topic.partition_states for topic in message.topic_states)
    assert (partition.leader, partition.zk_version, partition.offline_replicas) == (1, 5, ())


@pytest.mark.rule("D-81", "RQ-13")
@pytest.mark.parametrize("delete", [False, True])
def test_before_2_6_a_request_stops_or_deletes_all_its_replicas(delete: bool) -> None:
    message = sent(stop_replica(delete, delete), "2.5")
    assert message.delete_partitions is delete
    assert [(topic.name, topic.partition_indexes) for topic in message.topics] == [("t", (0, 1)), ("u", (0, 1))]


@pytest.mark.rule("D-81")
@pytest.mark.parametrize("protocol", ["2.6", "3.9"])
def test_each_replica_is_stopped_or_deleted(protocol: str) -> None:
    message = sent(stop_replica(True, False), protocol)
    for topic, name in zip(message.topic_states, ("t", "u"), strict=True):
        assert topic.topic_name == name
        states = [(s.partition_index, s.leader_epoch, s.delete_partition) for s in topic.partition_states]
        assert states == [(0, 3, True), (1, 3, False)]


def test_a_state_that_several_brokers_are_sent_is_encoded_once() -> None:
    messages = ControlMessages(ProtocolVersion((3, 9)), CONTROLLER)
    request = leader_and_isr(5)
    parts = [
        [part.data for topic in messages.message(request)[0].topic_states for part in topic.partition_states]  # type: ignore[attr-defined]
        for _ in range(2)
    ]
    assert all(first is second for first, second in zip(*parts, strict=True))
    updated = [messages.message(update_metadata())[0] for _ in range(2)]
    assert all(isinstance(topic, EncodedPart) for message in updated for topic in message.topic_states)  # type: ignore[attr-defined]


@pytest.mark.rule("D-102", "BK-52")
def test_an_error_of_a_topic_without_an_id_counts_only_where_one_topic_can_be_meant() -> None:
    """Brokers answer with ids, and all topics without one come together."""
    (topic,) = leader_and_isr(3).topic_states
    states = topic.partition_states
    request = control.LeaderAndIsrRequest(
        **EPOCHS,
        topic_states=(
            topic,
            control.LeaderAndIsrTopicState("a", None, states[:2]),
            control.LeaderAndIsrTopicState("b", None, states[1:]),
        ),
    )
    code = ErrorCode.KAFKA_STORAGE_ERROR
    errors = tuple(wire_control.LeaderAndIsrPartitionError(partition_index=p, error_code=code) for p in range(4))
    answer = wire_control.LeaderAndIsrResponse(topics=(wire_control.LeaderAndIsrTopicError(partition_errors=errors),))
    response = response_of(request, answer)
    assert [(e.topic_name, e.topic_id, e.partition_index) for e in response.partition_errors] == [  # type: ignore[union-attr]
        ("a", None, 0),
        ("b", None, 2),
    ]


@pytest.mark.rule("D-81")
def test_what_brokers_answer() -> None:
    request = leader_and_isr()
    stale = ErrorCode.STALE_CONTROLLER_EPOCH
    older = wire_control.LeaderAndIsrPartitionError(
        topic_name="t", partition_index=1, error_code=ErrorCode.STALE_CONTROLLER_EPOCH
    )
    response = response_of(request, wire_control.LeaderAndIsrResponse(partition_errors=(older,)))
    (error,) = response.partition_errors  # type: ignore[union-attr]
    assert (error.topic_name, error.partition_index, error.error_code) == ("t", 1, stale)
    newer = wire_control.LeaderAndIsrPartitionError(partition_index=0, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    of_topic = wire_control.LeaderAndIsrTopicError(topic_id=T_ID, partition_errors=(newer,))
    response = response_of(request, wire_control.LeaderAndIsrResponse(topics=(of_topic,)))
    (error,) = response.partition_errors  # type: ignore[union-attr]
    assert (error.topic_name, error.topic_id, error.error_code) == ("t", T_ID, ErrorCode.KAFKA_STORAGE_ERROR)
    stopped = StopReplicaPartitionError(topic_name="u", partition_index=1, error_code=999)
    response = response_of(stop_replica(True), StopReplicaResponse(partition_errors=(stopped,)))
    (error,) = response.partition_errors  # type: ignore[union-attr]
    # A code of a later Kafka must not stop the sender.
    assert error.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    refused = UpdateMetadataResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert response_of(update_metadata(), refused).error_code is ErrorCode.STALE_BROKER_EPOCH
    assert answer_type(request) is wire_control.LeaderAndIsrResponse
