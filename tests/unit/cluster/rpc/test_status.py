"""Errors as gRPC statuses."""

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from cluster.model.errors import ErrorCode, PeerNotConnectedError, PeerTooOldError, PeerUnreachableError
from cluster.rpc.status import STATUS_OF_ERROR, error_of


def test_every_error_has_a_status_that_is_no_success() -> None:
    assert set(STATUS_OF_ERROR) == set(ErrorCode) - {ErrorCode.NONE}
    assert grpc.StatusCode.OK not in STATUS_OF_ERROR.values()


@pytest.mark.parametrize(
    ("details", "said", "is_unsent"),
    [
        (
            "Stream removed (recvmsg:Connection timed out (110))",
            "the connection broke: nothing was acknowledged",
            False,
        ),
        (
            "connection attempt timed out before receiving SETTINGS frame",
            "it accepts connections, but does not answer",
            True,
        ),
        ("last error: UNKNOWN: ipv4:h:1: tcp handshaker shutdown", "connection timed out", True),
        (
            "last error: UNKNOWN: ipv4:h:1: Cannot check peer: missing selected ALPN property.",
            "it speaks TLS, but is no klamm gRPC port, perhaps Kafka's, ZooKeeper's or for metrics",
            True,
        ),
        ("Failed to connect to remote host: connect() timed out", "connection timed out", True),
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:h:1: Failed to connect to remote host: "
            "getsockopt(SO_ERROR): Connection timed out (110)",
            "connection timed out",
            True,
        ),
    ],
)
def test_a_cut_of_the_network_is_named_without_the_layers_of_grpc(details: str, said: str, *, is_unsent: bool) -> None:
    """As gRPC tells of it: of a connection that there was, and of attempts to make one."""
    lost = AioRpcError(grpc.StatusCode.UNAVAILABLE, Metadata(), Metadata(), details)
    error = error_of(lost, "h:1")
    assert (type(error) is PeerNotConnectedError) is is_unsent
    assert isinstance(error, PeerUnreachableError)
    assert error.why == said


def test_a_call_that_the_peer_does_not_know_names_an_earlier_release() -> None:
    unknown = AioRpcError(grpc.StatusCode.UNIMPLEMENTED, Metadata(), Metadata(), "Method not found!")
    error = error_of(unknown, "h:1")
    assert isinstance(error, PeerTooOldError)
    assert error.code is ErrorCode.UNSUPPORTED_VERSION
