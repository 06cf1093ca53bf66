"""Options of our gRPC channels and servers, the same for every program."""

from typing import Final

MESSAGE_BYTES_MAX: Final = 128 * 1024 * 1024
"""A LeaderAndIsr for every partition of a large cluster is one message."""
SERVER_CONCURRENCY_MAX: Final = 4096
"""Calls that one server works on at a time; more are refused with RESOURCE_EXHAUSTED."""
CLIENT_CONCURRENCY_MAX: Final = 512
"""Calls that one client has in flight to one address: thousands begun at one instant are lost by grpc.aio."""

_KEEPALIVE_MS: Final = 10_000
_RECONNECT_MS_MIN: Final = 100
_RECONNECT_MS_MAX: Final = 1000


def channel_options(connect_timeout_ms: int) -> list[tuple[str, int]]:
    """Options of a client's channel.

    Reconnection is quick, because a node that comes back is waited for; retries by the library are off,
    because whoever calls decides what may be sent twice.
    """
    return [
        *_message_options(),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MS_MIN),
        # Despite its name this is how long one attempt to connect may take.
        ("grpc.min_reconnect_backoff_ms", connect_timeout_ms),
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS_MAX),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        # Each client has its own connections, so that closing one's channel ends it.
        ("grpc.use_local_subchannel_pool", 1),
    ]


def server_options() -> list[tuple[str, int]]:
    return [
        *_message_options(),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS),
        # Clients keep idle channels alive too; without leave a server ends their connections for it (GOAWAY).
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
        # Otherwise a second process could take the same port and half of the calls.
        ("grpc.so_reuseport", 0),
    ]


def _message_options() -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ]
