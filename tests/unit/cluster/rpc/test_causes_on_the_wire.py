"""The cause of a control request: it arrives, and costs the same however many partitions the request has."""

import pytest

from cluster.model.broker import BrokerEpoch, BrokerId, ControllerEpoch, ControllerId, LeaderEpoch, PartitionEpoch
from cluster.requests.control import (
    ControlRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    RequestCause,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from cluster.rpc.methods import METHOD_OF_REQUEST, encode_request

CAUSES = (
    RequestCause(ControllerId(1001), ControllerEpoch(5), "ElectLeadersReceived", 17),
    RequestCause(ControllerId(1001), ControllerEpoch(5), "BrokerChange", 18),
)
HEAD = (ControllerId(1001), ControllerEpoch(5), BrokerEpoch(77))
ISR = (BrokerId(1), BrokerId(2))


def leader_and_isr(partitions: int, causes: tuple[RequestCause, ...]) -> ControlRequest:
    states = tuple(
        LeaderAndIsrPartitionState(p, HEAD[1], ISR[0], LeaderEpoch(3), ISR, PartitionEpoch(9), ISR)
        for p in range(partitions)
    )
    return LeaderAndIsrRequest(*HEAD, (LeaderAndIsrTopicState("t", None, states),), causes=causes)


def update_metadata(partitions: int, causes: tuple[RequestCause, ...]) -> ControlRequest:
    states = tuple(
        UpdateMetadataPartitionState(p, HEAD[1], ISR[0], LeaderEpoch(3), ISR, PartitionEpoch(9), ISR)
        for p in range(partitions)
    )
    return UpdateMetadataRequest(*HEAD, (UpdateMetadataTopicState("t", None, states),), causes=causes)


def stop_replica(partitions: int, causes: tuple[RequestCause, ...]) -> ControlRequest:
    states = tuple(StopReplicaPartitionState("t", p, LeaderEpoch(3), True) for p in range(partitions))
    return StopReplicaRequest(*HEAD, states, causes)


@pytest.mark.parametrize("make", [leader_and_isr, update_metadata, stop_replica])
def test_every_control_request_carries_its_causes_at_a_constant_cost(make: object) -> None:
    assert callable(make)
    costs = set()
    for partitions in (1, 500):
        request = make(partitions, CAUSES)
        data = encode_request(request)
        assert METHOD_OF_REQUEST[type(request)].request.decode(data).causes == CAUSES
        costs.add(len(data) - len(encode_request(make(partitions, ()))))
    (cost,) = costs
    assert 0 < cost < 80
    without = METHOD_OF_REQUEST[type(request)].request.decode(encode_request(make(1, ())))
    assert without.causes == ()
