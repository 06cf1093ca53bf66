"""Heads of state-change logs on the wire: peers that send none are served, and no head fails its request."""

from typing import Any

import pytest

from cluster.model.broker import ControllerEpoch, ControllerId
from cluster.model.errors import ErrorCode
from cluster.requests.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StateLogHead,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from cluster.rpc.codec import codec_for
from cluster.rpc.methods import encode_request
from cluster.rpc.request_bounds import check_of
from klamm.v1 import control_pb2

HEAD = StateLogHead("controller-1001", "1700000000000.7", (1 << 62), "ab" * 32, "boot")
REQUESTS: list[Any] = [LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest]
RESPONSES: list[Any] = [LeaderAndIsrResponse, UpdateMetadataResponse, StopReplicaResponse]

pytestmark = pytest.mark.rule("D-50")


def message_of(kind: Any) -> Any:
    return getattr(control_pb2, kind.__name__)


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_a_request_has_the_head_it_was_given(kind: Any) -> None:
    request = kind(ControllerId(1001), ControllerEpoch(3), state_log_head=HEAD)
    assert codec_for(kind, message_of(kind)).decode(encode_request(request)) == request


@pytest.mark.parametrize("kind", [*REQUESTS, *RESPONSES], ids=lambda kind: kind.__name__)
def test_a_peer_of_before_sends_none(kind: Any) -> None:
    numbers = {"controller_id": 1001, "controller_epoch": 3} if kind in REQUESTS else {"error_code": 0}
    decoded = codec_for(kind, message_of(kind)).decode(message_of(kind)(**numbers).SerializeToString())
    assert decoded.state_log_head is None


@pytest.mark.parametrize("kind", RESPONSES, ids=lambda kind: kind.__name__)
def test_a_head_with_nothing_in_it_is_read_as_such(kind: Any) -> None:
    message = message_of(kind)(error_code=int(ErrorCode.NONE))
    message.state_log_head.SetInParent()
    decoded = codec_for(kind, message_of(kind)).decode(message.SerializeToString())
    assert decoded.state_log_head == StateLogHead()


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: kind.__name__)
def test_no_head_is_beyond_the_bounds_of_its_request(kind: Any) -> None:
    head = StateLogHead("\0" * 100_000, "x" * 100_000, -(1 << 63), "\0", "y" * 100_000)
    request = kind(ControllerId(1001), ControllerEpoch(3), state_log_head=head)
    assert check_of(kind).accepts_all((request,))
    assert check_of(kind).violation(request) is None
