"""Every message is encoded and decoded without loss."""

import builtins
import types
import typing
from types import NoneType
from typing import Any, NewType, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.model.broker import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Offset,
)
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.agents import AlterPartitionRequest
from cluster.requests.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from cluster.requests.data import FetchPartition, FetchRequest
from cluster.requests.elections import PREFERRED, ElectLeadersRequest, ElectLeadersTopic, PlanControlledShutdownRequest
from cluster.requests.topics import CreateTopicsRequest, DescribeTopicsRequest, NewTopic
from cluster.rpc.codec import codec_for
from cluster.rpc.methods import DOMAIN_TYPES, METHOD_OF_REQUEST, encode_request
from klamm.v1 import broker_agent_pb2, control_pb2
from tests.examples import number_of_examples

WIDE = {BrokerEpoch, Offset}
WIDE_FIELDS = {"timestamp", "log_append_time_ms", "producer_id_start", "at_ms", "next_seq", "seq", "flushed_seq"}
STAYS_AT_HOME = {"features", "has_damaged_replicas", "klamm_version"}
CODECS = [
    pytest.param(codec, DOMAIN_TYPES[codec.message_class.DESCRIPTOR.name])
    for method in METHOD_OF_REQUEST.values()
    for codec in (method.request, method.response)
]


def int_of(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def values(annotation: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Any value of a type that the wire can carry; fields that stay at home keep their defaults."""
    if isinstance(annotation, NewType):
        return int_of(64) if annotation in WIDE else values(annotation.__supertype__, name)
    match get_origin(annotation), get_args(annotation):
        case (typing.Annotated, (inner, *_)):
            strategy = values(inner, name)
        case (typing.Union | types.UnionType, arguments):
            (inner,) = (a for a in arguments if a is not NoneType)
            strategy = st.none() | values(inner)
        case (builtins.tuple, arguments):
            strategy = st.lists(values(arguments[0]), max_size=3).map(tuple)
        case (builtins.dict, (key, value)):
            strategy = st.dictionaries(values(key), values(value), max_size=3)
        case _ if annotation is int:
            strategy = int_of(64 if name in WIDE_FIELDS else 32)
        case _ if annotation is str:
            strategy = st.text(max_size=8)
        case _ if issubclass(annotation, msgspec.Struct):
            hints = {n: t for n, t in get_type_hints(annotation).items() if n not in STAYS_AT_HOME}
            strategy = st.builds(annotation, **{n: values(t, n) for n, t in hints.items()})
        case _:
            strategy = st.from_type(annotation)
    return strategy


@pytest.mark.parametrize(("codec", "domain_type"), CODECS)
@settings(max_examples=number_of_examples(12, deep=30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_message_comes_back_as_it_was(codec: Any, domain_type: type, data: st.DataObject) -> None:
    value = data.draw(values(domain_type))
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("domain_type", [LeaderAndIsrRequest, UpdateMetadataRequest])
@settings(max_examples=number_of_examples(24, deep=60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_shared_encoding_says_the_same_as_the_plain_one(domain_type: Any, data: st.DataObject) -> None:
    request = data.draw(values(domain_type))
    codec = METHOD_OF_REQUEST[domain_type].request
    for _ in range(2):
        assert codec.decode(encode_request(request)) == request


def test_a_partition_state_without_a_leader_epoch_is_refused() -> None:
    message = control_pb2.LeaderAndIsrRequest(controller_id=1, controller_epoch=1, broker_epoch=1)
    message.topic_states.add(topic_name="t").partition_states.add(
        partition_index=0, controller_epoch=1, leader=1, partition_epoch=0
    )
    with pytest.raises(ApiError) as caught:
        METHOD_OF_REQUEST[LeaderAndIsrRequest].request.decode(message.SerializeToString())
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert caught.value.field == "LeaderAndIsrPartitionState.leader_epoch"


def test_an_epoch_that_may_be_absent_reads_as_minus_one_and_never_as_zero() -> None:
    message = broker_agent_pb2.FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, max_bytes=9)
    message.partitions.add(topic="t", partition=0, fetch_offset=0, partition_max_bytes=9)
    request = METHOD_OF_REQUEST[FetchRequest].request.decode(message.SerializeToString())
    assert request.partitions == (FetchPartition("t", None, 0, Offset(0), 9),)
    assert (request.partitions[0].current_leader_epoch, request.replica_epoch) == (-1, -1)


@pytest.mark.rule("R1.16")
@pytest.mark.parametrize(
    ("domain_type", "message"),
    [
        (LeaderAndIsrRequest, control_pb2.LeaderAndIsrRequest(controller_id=1, controller_epoch=2)),
        (StopReplicaRequest, control_pb2.StopReplicaRequest(controller_id=1, controller_epoch=2)),
        (UpdateMetadataRequest, control_pb2.UpdateMetadataRequest(controller_id=1, controller_epoch=2)),
    ],
)
def test_a_controller_that_names_no_incarnation_means_any(domain_type: type, message: Any) -> None:
    request = METHOD_OF_REQUEST[domain_type].request.decode(message.SerializeToString())
    assert (request.controller_id, request.controller_epoch, request.broker_epoch) == (1, 2, -1)


@pytest.mark.rule("R2.3", "R4.10", "R6.1")
@pytest.mark.parametrize(
    ("sent", "read"), [(None, None), ("A" * 22, None), ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAQ")]
)
def test_the_topic_id_of_zeros_is_none(sent: str | None, read: str | None) -> None:
    message = control_pb2.LeaderAndIsrRequest(controller_id=1, controller_epoch=1)
    message.topic_states.add(topic_name="t", topic_id=sent)
    [topic] = METHOD_OF_REQUEST[LeaderAndIsrRequest].request.decode(message.SerializeToString()).topic_states
    assert topic.topic_id == read


def test_all_topics_and_no_topics_are_distinguished() -> None:
    codec = METHOD_OF_REQUEST[DescribeTopicsRequest].request
    for topics in (None, (), ("a", "b")):
        assert codec.decode(codec.encode(DescribeTopicsRequest(topics))).topics == topics


def test_an_assignment_survives_with_its_order() -> None:
    codec = METHOD_OF_REQUEST[CreateTopicsRequest].request
    topic = NewTopic("t", assignments={1: (BrokerId(3), BrokerId(1)), 0: (BrokerId(2),)}, configs={"a": "b"})
    assert codec.decode(codec.encode(CreateTopicsRequest((topic,)))).topics == (topic,)


def test_an_error_of_a_newer_peer_reads_as_unknown() -> None:
    data = broker_agent_pb2.FetchResponse(error_code=9999).SerializeToString()
    (codec,) = (m.response for m in METHOD_OF_REQUEST.values() if m.name == "Fetch")
    assert codec.decode(data).error_code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_types_that_drifted_apart_do_not_get_a_codec() -> None:
    with pytest.raises(AssertionError, match="differ in"):
        codec_for(AlterPartitionRequest, broker_agent_pb2.FetchRequest)


@pytest.mark.parametrize("length", [127, 16_384])
def test_topic_states_of_any_length_are_framed_right(length: int) -> None:
    codec = METHOD_OF_REQUEST[LeaderAndIsrRequest].request
    topics = tuple(LeaderAndIsrTopicState("t" * n, None, ()) for n in range(length - 8, length + 8))
    request = LeaderAndIsrRequest(ControllerId(1001), ControllerEpoch(1), BrokerEpoch(9), topics)
    data = encode_request(request)
    assert codec.decode(data).topic_states == topics
    assert data == codec.encode(request)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (PlanControlledShutdownRequest(BrokerId(2**31)), "PlanControlledShutdownRequest.broker_id: "),
        (
            CreateTopicsRequest((NewTopic("t", 2**31, 1),)),
            "CreateTopicsRequest.topics: NewTopic.num_partitions: ",
        ),
        (
            ElectLeadersRequest(PREFERRED, (ElectLeadersTopic("t", (2**31,)),)),
            "ElectLeadersRequest.topic_partitions: ElectLeadersTopic.partitions: ",
        ),
    ],
)
def test_a_number_that_has_no_place_on_the_wire_is_refused_with_its_field(request_: Any, field: str) -> None:
    with pytest.raises(ApiError, match=f"^INVALID_REQUEST: {field}") as refused:
        encode_request(request_)
    assert "2147483648" in refused.value.message
