"""Messages of numbers, joined from the kept bytes of their fields, are those of the plain codec."""

from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.requests.control import LeaderAndIsrPartitionState, UpdateMetadataPartitionState
from cluster.requests.data import MetadataPartition
from cluster.rpc import number_encoding
from cluster.rpc.codec import codec_for, sent_fields
from cluster.rpc.number_encoding import KEPT_MAX, are_numbers, number_encoder
from klamm.v1 import broker_agent_pb2, control_pb2
from tests.examples import examples
from tests.unit.cluster.rpc.test_codec import values

ONE, TWO = BrokerId(1), BrokerId(2)
STATE = LeaderAndIsrPartitionState(
    0, ControllerEpoch(3), ONE, LeaderEpoch(4), (ONE, TWO), PartitionEpoch(6), (ONE, TWO)
)


def encoder_of(struct: type[Struct], message_class: type[Message]) -> Any:
    fields = [*sent_fields(struct)]
    assert are_numbers(fields, message_class)
    return number_encoder(fields, message_class)


@pytest.mark.parametrize(
    ("struct", "message_class"),
    [
        (LeaderAndIsrPartitionState, control_pb2.LeaderAndIsrPartitionState),
        (UpdateMetadataPartitionState, control_pb2.UpdateMetadataPartitionState),
        (MetadataPartition, broker_agent_pb2.MetadataPartition),
    ],
)
@examples(40, deep=400)
@given(data=st.data())
def test_any_numbers_are_encoded_as_by_the_plain_codec(
    struct: type[Struct], message_class: type[Message], data: st.DataObject
) -> None:
    encode, codec = encoder_of(struct, message_class), codec_for(struct, message_class)
    value = data.draw(values(struct))
    # The second time from kept bytes.
    assert encode(value) == encode(value) == codec.encode(value)


def test_only_so_many_values_of_a_field_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[number_encoding._KeptBytes] = []

    class Seen(number_encoding._KeptBytes):
        def __init__(self, *of: Any) -> None:
            super().__init__(*of)
            kept.append(self)

    monkeypatch.setattr(number_encoding, "_KeptBytes", Seen)
    message_class = control_pb2.LeaderAndIsrPartitionState
    encode, codec = encoder_of(type(STATE), message_class), codec_for(type(STATE), message_class)
    for partition in range(KEPT_MAX + 3):
        state = replace(STATE, partition_index=partition)
        assert encode(state) == codec.encode(state)
    assert max(map(len, kept)) <= KEPT_MAX


def test_a_number_that_does_not_fit_is_refused_and_not_kept() -> None:
    encode = encoder_of(type(STATE), control_pb2.LeaderAndIsrPartitionState)
    for _ in range(2):
        with pytest.raises(ValueError, match="2147483648"):
            encode(replace(STATE, leader_epoch=LeaderEpoch(2**31)))
    assert encode(STATE)
