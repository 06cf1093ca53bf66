"""What several requests carry is serialised once, and its bytes are kept no longer than the requests."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from cluster.model.broker import (
    Broker,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)
from cluster.model.errors import ErrorCode
from cluster.requests.control import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from cluster.requests.data import MetadataBroker, MetadataPartition, MetadataResponse, MetadataTopic
from cluster.rpc.control_encoding import PARTS, shared_size
from cluster.rpc.methods import BROKER_AGENT_SERVICE, METHOD_OF_REQUEST, encode_request
from klamm.v1 import control_pb2

TOPIC_ID = TopicId("C" * 22)
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


@contextmanager
def counted() -> Iterator[Callable[[type], int]]:
    """How many items of a type are encoded as shared parts meanwhile."""
    made: Counter[type] = Counter()
    before = [(parts, parts._encode) for parts in PARTS]

    def counting(encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
        def encode_and_count(part: Any) -> bytes:
            made[type(part)] += 1
            return encode(part)

        return encode_and_count

    for parts, encode in before:
        parts._encode = counting(encode)
    yield made.__getitem__
    for parts, encode in before:
        parts._encode = encode


def test_partition_states_are_joined_into_the_bytes_of_the_plain_codec_and_nothing_of_them_is_kept() -> None:
    request = leader_and_isr(partitions=5)
    before = held_parts()
    encoded = encode_request(request)
    assert held_parts() == before
    plain = METHOD_OF_REQUEST[LeaderAndIsrRequest].request
    assert encoded == plain.encode(request)
    assert plain.decode(encoded) == request


def test_the_metadata_of_several_requests_are_serialised_once() -> None:
    first = update_metadata(partitions=5)
    second = replace(first, broker_epoch=9)
    with counted() as made:
        encoded = [encode_request(request) for request in (first, second)]
        assert (made(UpdateMetadataTopicState), made(Broker)) == (1, 1)
    messages = [control_pb2.UpdateMetadataRequest.FromString(data) for data in encoded]
    assert [p.partition_index for p in messages[1].topic_states[0].partition_states] == list(range(5))
    assert [(b.id, b.endpoints[0].host) for b in messages[1].live_brokers] == [(1, "host1")]
    assert messages[0].topic_states == messages[1].topic_states


def held_parts() -> int:
    return sum(map(len, PARTS))


def test_equal_states_of_different_requests_do_not_share_and_nothing_outlives_them() -> None:
    gc.collect()
    before = held_parts()
    requests = update_metadata(3), update_metadata(3)
    for request in requests:
        encode_request(request)
    assert held_parts() == before + 2 + 2
    del request
    del requests
    gc.collect()
    assert held_parts() == before


def test_topics_of_several_metadata_responses_are_encoded_once_into_the_bytes_of_the_plain_codec() -> None:
    [method] = [method for method in BROKER_AGENT_SERVICE if method.name == "Metadata"]
    partitions = tuple(
        MetadataPartition(p, ErrorCode.NONE, ONE, LeaderEpoch(p), (ONE, BrokerId(2)), (ONE,), (BrokerId(2),))
        for p in range(300)
    )
    topics = (MetadataTopic("t", TOPIC_ID, ErrorCode.NONE, partitions), MetadataTopic("u", None, ErrorCode.NONE))
    brokers = (MetadataBroker(ONE, "host1", 9092), MetadataBroker(BrokerId(2), "host2", 9092, "rack"))
    answer = MetadataResponse(brokers, "cluster", ME, topics)
    assert shared_size(answer) is None
    with counted() as encoded:
        plain = method.response.encode(answer)
        for _ in range(3):
            assert method.encode_response(answer) == plain
        assert method.encode_response(replace(answer, brokers=brokers[:1])) != plain
        assert encoded(MetadataTopic) == len(topics)
    assert method.response.decode(plain) == answer
    size = shared_size(answer)
    assert size is not None
    assert len(plain) - 100 < size < len(plain)
