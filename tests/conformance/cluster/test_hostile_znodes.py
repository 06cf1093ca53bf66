"""Whatever a znode contains, its decoder returns a value or a MalformedZnodeError, which stops no controller."""

from collections.abc import Callable
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.broker import BrokerId, ControllerId, PartitionEpoch
from cluster.model.errors import MalformedZnodeError
from cluster.model.partition import TopicPartition
from cluster.znodes.admin_requests import decode_log_dir_event, decode_partitions, decode_reassignments
from cluster.znodes.candidates import decode_profile
from cluster.znodes.cluster_wide import decode_cluster_id, decode_features, decode_producer_id_block
from cluster.znodes.configs import decode_config, decode_config_change
from cluster.znodes.controller import decode_controller, decode_controller_epoch
from cluster.znodes.paths import PREFERRED_REPLICA_ELECTION
from cluster.znodes.registrations import decode_broker, decode_controller_registration
from cluster.znodes.topics import decode_state, decode_topic
from klamm.v1 import control_pb2

T0: Final = TopicPartition("t", 0)
DECODERS: Final[dict[str, Callable[[bytes], object]]] = {
    "controller": decode_controller,
    "controller epoch": decode_controller_epoch,
    "broker": lambda data: decode_broker(BrokerId(1), data),
    "controller registration": lambda data: decode_controller_registration(ControllerId(1001), data),
    "candidate": lambda data: decode_profile(ControllerId(1001), data),
    "topic": lambda data: decode_topic("t", data),
    "state": lambda data: decode_state(T0, data, PartitionEpoch(0)),
    "config": lambda data: decode_config("/config/topics/t", data),
    "config change": lambda data: decode_config_change("/config/changes/config_change_0", data),
    "partitions": lambda data: decode_partitions(PREFERRED_REPLICA_ELECTION, data),
    "reassignments": decode_reassignments,
    "log directory event": lambda data: decode_log_dir_event("/log_dir_event_notification/e", data),
    "producer ids": decode_producer_id_block,
    "cluster id": decode_cluster_id,
    "features": decode_features,
}
HOSTILE: Final = (
    b"",
    b"null",
    b'"\xff"',
    b"9" * 5000,
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b'{"brokerid":99999999999999999999}',
    b'{"version":1,"host":"\xff","port":1}',
    b'{"version":1,"host":"\\ud800x","port":1}',
    b'{"version":1,"host":"h","port":99999999999}',
    '{"version":2,"endpoints":["P://h:²"]}'.encode(),
    b'{"version":2,"endpoints":["P://h:--2"]}',
    '{"version":1,"partitions":{"²":[1]}}'.encode(),
    b'{"version":1,"partitions":{"99999999999":[1]}}',
    b'{"version":1,"partitions":{"0":[99999999999]}}',
    b'{"version":1,"leader":99999999999,"leader_epoch":0,"isr":[1],"controller_epoch":1}',
    b'{"version":1,"broker":1,"block_start":"\xc2\xb2","block_end":"x"}',
)


def decode(node: str, data: bytes) -> None:
    try:
        DECODERS[node](data)
    except MalformedZnodeError as error:
        refusal = error
    else:
        return
    assert refusal.path.startswith("/")
    assert refusal.data == data


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: repr(data[:30]))
@pytest.mark.parametrize("node", DECODERS)
def test_hostile_contents_are_named_and_not_fatal(node: str, data: bytes) -> None:
    decode(node, data)


@given(data=st.binary(max_size=60))
@pytest.mark.parametrize("node", DECODERS)
def test_random_bytes_are_named_and_not_fatal(node: str, data: bytes) -> None:
    decode(node, data)


numbers = st.integers(-(2**33), 2**33)
replicas = st.lists(numbers, max_size=3)


@given(
    partitions=st.dictionaries(numbers.map(str), replicas, max_size=3),
    adding=st.dictionaries(numbers.map(str), replicas, max_size=2),
)
def test_a_topic_that_can_be_read_can_be_sent_to_brokers(
    partitions: dict[str, list[int]], adding: dict[str, list[int]]
) -> None:
    try:
        topic = decode_topic("t", msgspec.json.encode({"partitions": partitions, "adding_replicas": adding}))
    except MalformedZnodeError:
        return
    for partition, assignment in topic.partitions.items():
        control_pb2.LeaderAndIsrPartitionState(
            partition_index=partition, replicas=assignment.replicas, adding_replicas=assignment.adding
        )
        assert len(set(assignment.replicas)) == len(assignment.replicas)


@given(leader=numbers, epoch=numbers, isr=replicas, controller_epoch=numbers)
def test_a_state_that_can_be_read_can_be_sent_and_its_epoch_raised(
    leader: int, epoch: int, isr: list[int], controller_epoch: int
) -> None:
    body = {"leader": leader, "leader_epoch": epoch, "isr": isr, "controller_epoch": controller_epoch}
    try:
        state = decode_state(T0, msgspec.json.encode(body), PartitionEpoch(3))
    except MalformedZnodeError:
        return
    assert state is not None
    assert list(state.isr) == list(dict.fromkeys(isr))
    control_pb2.LeaderAndIsrPartitionState(
        leader=state.leader,
        leader_epoch=state.leader_epoch + 1,
        isr=state.isr,
        controller_epoch=state.controller_epoch,
    )
