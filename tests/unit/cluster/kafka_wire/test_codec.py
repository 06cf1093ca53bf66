"""Messages and their bytes: layouts known by heart, versions, and values and bytes that are refused by name."""

import pytest
from msgspec.structs import replace

from cluster.kafka_wire.apis import message_type
from cluster.kafka_wire.codec import decode, encode
from cluster.kafka_wire.errors import MalformedMessageError, UnsupportedVersionError
from cluster.kafka_wire.message import EncodedPart, Message
from cluster.kafka_wire.messages.brokers import AlterPartitionRequest
from cluster.kafka_wire.messages.connections import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    HeartbeatRequest,
    SupportedFeatureKey,
)
from cluster.kafka_wire.messages.control import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from cluster.kafka_wire.messages.data import MetadataRequest
from cluster.kafka_wire.messages.topics import DescribeTopicPartitionsRequest, DescribeTopicPartitionsRequestCursor
from cluster.kafka_wire.schema import load_schema, schema_names

PARTITION = LeaderAndIsrPartitionState(partition_index=1, leader=3, leader_epoch=5, isr=(3, 2), replicas=(3, 2, 1))
TOPIC = LeaderAndIsrTopicState(topic_name="orders", topic_id="kJ3vFxuZS_OMRGEsrLmIsg", partition_states=(PARTITION,))
REQUEST = LeaderAndIsrRequest(
    controller_id=1001,
    controller_epoch=4,
    broker_epoch=2**40,
    topic_states=(TOPIC,),
    live_leaders=(LeaderAndIsrLiveLeader(broker_id=3, host_name="b3", port=9092),),
)


def with_partition(**fields: object) -> LeaderAndIsrRequest:
    partition = LeaderAndIsrPartitionState(**fields)  # type: ignore[arg-type]
    return LeaderAndIsrRequest(topic_states=(replace(TOPIC, partition_states=(PARTITION, partition)),))


EVERY_VERSION = [
    (name, version)
    for name in schema_names()
    for version in range(load_schema(name).valid_versions.first, load_schema(name).valid_versions.last + 1)
]


@pytest.mark.parametrize("name", schema_names())
def test_a_message_with_nothing_set_is_itself_again_in_every_version(name: str) -> None:
    message = message_type(name)()
    for of, version in EVERY_VERSION:
        if of == name:
            assert decode(type(message), version, encode(message, version)) == message


def test_numbers_strings_and_arrays_before_flexible_versions() -> None:
    data = encode(HeartbeatRequest(group_id="g", generation_id=7, member_id="mé"), 3)
    assert data == b"\0\1g" + b"\0\0\0\7" + b"\0\3m\xc3\xa9" + b"\xff\xff"
    assert decode(HeartbeatRequest, 3, data) == HeartbeatRequest(group_id="g", generation_id=7, member_id="mé")


def test_flexible_versions_are_compact_and_end_with_tagged_fields() -> None:
    data = encode(HeartbeatRequest(group_id="g", generation_id=7, member_id=""), 4)
    assert data == b"\2g" + b"\0\0\0\7" + b"\1" + b"\0" + b"\0"


def test_tagged_fields_are_written_in_order_where_they_are_not_their_default() -> None:
    response = ApiVersionsResponse(
        api_keys=(ApiVersion(api_key=18, max_version=4),),
        supported_features=(SupportedFeatureKey(name="f", min_version=1, max_version=2),),
        zk_migration_ready=True,
    )
    data = encode(response, 3)
    assert data == (
        b"\0\0" + b"\2" + b"\0\x12\0\0\0\4\0" + b"\0\0\0\0" + b"\2" + b"\0\x08" + b"\2\2f\0\1\0\2\0" + b"\3\1\1"
    )
    assert decode(ApiVersionsResponse, 3, data) == response


def test_a_struct_that_may_be_null() -> None:
    for cursor in (None, DescribeTopicPartitionsRequestCursor(topic_name="t", partition_index=4)):
        request = DescribeTopicPartitionsRequest(cursor=cursor)
        assert decode(DescribeTopicPartitionsRequest, 0, encode(request, 0)) == request
    assert encode(DescribeTopicPartitionsRequest(), 0) == b"\1\0\0\x07\xd0\xff\0"


def test_an_array_that_may_be_null_is_not_an_empty_one() -> None:
    assert encode(MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"
    assert decode(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
    assert decode(MetadataRequest, 1, b"\0\0\0\0").topics == ()


def test_parts_encoded_once_give_the_same_bytes() -> None:
    shared = replace(TOPIC, partition_states=(EncodedPart(encode(PARTITION, 7)), PARTITION))
    expected = encode(replace(REQUEST, topic_states=(replace(TOPIC, partition_states=(PARTITION, PARTITION)),)), 7)
    assert encode(replace(REQUEST, topic_states=(shared,)), 7) == expected
    assert encode(replace(REQUEST, topic_states=(EncodedPart(encode(shared, 7)),)), 7) == expected


def test_tagged_fields_that_are_not_known_are_skipped() -> None:
    data = encode(ApiVersionsRequest(client_software_name="klamm", client_software_version="1"), 3)
    newer = data[:-1] + b"\2" + b"\0\0" + b"\xff\x01\3abc"
    assert decode(ApiVersionsRequest, 3, newer) == decode(ApiVersionsRequest, 3, data)


@pytest.mark.parametrize(
    ("message", "version", "what"),
    [
        (LeaderAndIsrRequest(type=1), 4, "LeaderAndIsrRequest v4 has no room for type = 1"),
        (REQUEST, 1, "LeaderAndIsrRequest v1 has no room for topic_states = (LeaderAndIsrTopicState("),
        (
            with_partition(leader_recovery_state=1),
            5,
            "has no room for topic_states[0].partition_states[1].leader_recovery_state = 1",
        ),
        (MetadataRequest(allow_auto_topic_creation=False), 3, "has no room for allow_auto_topic_creation = False"),
        (REQUEST, 8, "LeaderAndIsrRequest has no version 8; it has 0-7"),
        (REQUEST, -1, "LeaderAndIsrRequest has no version -1; it has 0-7"),
    ],
)
def test_what_a_version_has_no_room_for_is_refused(message: Message, version: int, what: str) -> None:
    with pytest.raises(UnsupportedVersionError) as refused:
        encode(message, version)
    assert what in str(refused.value)


def test_what_kafka_calls_ignorable_is_left_out() -> None:
    old = decode(LeaderAndIsrRequest, 4, encode(REQUEST, 4))
    assert old == replace(REQUEST, topic_states=(replace(TOPIC, topic_id="A" * 22),))


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (
            with_partition(leader_epoch=2**31),
            "topic_states[0].partition_states[1].leader_epoch: 2147483648 does",
        ),
        (with_partition(isr=(1, None)), "topic_states[0].partition_states[1].isr: (1, None) does not fit []int32"),
        (with_partition(replicas=None), "topic_states[0].partition_states[1].replicas: None does not fit []int32"),
        (LeaderAndIsrRequest(topic_states=None), "topic_states: None does not fit []LeaderAndIsrTopicState"),  # type: ignore[arg-type]
        (LeaderAndIsrRequest(topic_states=(None,)), "topic_states[0]: None does not fit LeaderAndIsrTopicState"),  # type: ignore[arg-type]
        (LeaderAndIsrRequest(topic_states=(replace(TOPIC, topic_name=None),)), "topic_states[0].topic_name: None does"),
        (LeaderAndIsrRequest(topic_states=(replace(TOPIC, topic_name="\ud800"),)), "topic_states[0].topic_name: "),
        (LeaderAndIsrRequest(topic_states=(replace(TOPIC, topic_name="x" * 2**15),)), "a string of 32768 bytes"),
        (
            LeaderAndIsrRequest(topic_states=(replace(TOPIC, topic_id="short"),)),
            "topic_states[0].topic_id: 'short' does",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_named_by_its_path(message: Message, what: str) -> None:
    with pytest.raises(MalformedMessageError) as refused:
        encode(message, 7)
    assert str(refused.value).startswith("LeaderAndIsrRequest v7: topic_states")
    assert what in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("version", range(8))
def test_no_shorter_or_longer_bytes_are_a_message(version: int) -> None:
    # Without the array that only older versions have, or only newer ones.
    message = REQUEST if version >= 2 else replace(REQUEST, topic_states=())
    data = encode(message, version)
    for end in range(len(data)):
        with pytest.raises(MalformedMessageError):
            decode(LeaderAndIsrRequest, version, data[:end])
    with pytest.raises(MalformedMessageError, match="3 bytes are left over"):
        decode(LeaderAndIsrRequest, version, data + b"\0\0\0")


@pytest.mark.parametrize(
    ("type_", "version", "data", "what"),
    [
        (MetadataRequest, 1, b"\x7f\xff\xff\xff", "topics: a length of 2147483647 where 0 bytes are left (at byte 0)"),
        (MetadataRequest, 1, b"\xff\xff\xff\xfe", "topics: a length of -2 (at byte 0)"),
        (MetadataRequest, 0, b"\xff\xff\xff\xff", "topics: null, which it may not be (at byte 4)"),
        (MetadataRequest, 1, b"\0\0\0\1\xff\xff", "topics[0].name: null, which it may not be (at byte 6)"),
        (MetadataRequest, 1, b"\0\0\0\1\0\5ab", "topics[0].name: a length of 5 where 2 bytes are left (at byte 4)"),
        (MetadataRequest, 1, b"\0\0\0\1\0\2\xc3\x28", "topics[0].name: 'utf-8' codec can't decode"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\xff\1", "topics: a varint of more than 31 bits (at byte 0)"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f", "topics: a varint of more than 31 bits (at byte 0)"),
        (MetadataRequest, 9, b"\xff", "topics: the bytes end within it (at byte 0)"),
        (MetadataRequest, 9, b"\1\0\0\0\2\5\0\5\0", "tag 5 twice"),
        (ApiVersionsRequest, 3, b"\2k\2\1\1\7\5ab", "tag 7 has a length of 5 where 2 bytes are left"),
        (AlterPartitionRequest, 0, b"\0\0\0", "broker_id…broker_epoch: the bytes end within it (at byte 0)"),
        (
            ApiVersionsResponse,
            3,
            b"\0\0\1\0\0\0\0\1\1\7" + bytes(8),
            "finalized_features_epoch: +1 bytes beyond",
        ),
    ],
)
def test_bytes_that_are_no_message_are_refused_by_the_path_of_the_field(
    type_: type[Message], version: int, data: bytes, what: str
) -> None:
    with pytest.raises(MalformedMessageError) as refused:
        decode(type_, version, data)
    assert what in str(refused.value)


def test_the_elements_of_all_arrays_are_limited_together() -> None:
    request = replace(REQUEST, topic_states=(TOPIC, TOPIC))
    # Two topics, a partition of each with two replicas in the ISR and three in all, and a leader.
    for version in (3, 7):
        data = encode(request, version)
        assert len(decode(LeaderAndIsrRequest, version, data, elements_max=15).topic_states) == 2
        with pytest.raises(MalformedMessageError, match=r"live_leaders: 1 elements where 0 more are taken"):
            decode(LeaderAndIsrRequest, version, data, elements_max=14)
        with pytest.raises(MalformedMessageError, match=r"\[1\]\.partition_states\[0\]\.replicas: 3 elements"):
            decode(LeaderAndIsrRequest, version, data, elements_max=13)


def test_many_elements_of_two_bytes_are_refused_before_they_are_made() -> None:
    claimed = b"\x81\x80\x80\x04" + b"\1\0" * 2**23 + b"\0\0\0\0"
    with pytest.raises(MalformedMessageError, match="topics: 8388608 elements where 2000000 more are taken"):
        decode(MetadataRequest, 9, claimed)
