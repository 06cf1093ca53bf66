"""Chooses the options of gRPC channels and servers, the same for every program."""

from typing import Final

from cluster.rpc.admission_limits import AdmissionLimits

MESSAGE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Large enough for a LeaderAndIsr with every partition of a large cluster in one message."""
CLIENT_CONCURRENCY_MAX: Final = 512
"""The limit of calls in flight from one client to one address: grpc.aio loses calls if thousands start at once."""

_UNCOMPRESSED: Final = 1
"""The set of compression algorithms that has only "identity"."""
_KEEPALIVE_MS: Final = 6000
"""The interval at which an idle connection is tried. A server of an earlier release permits no less than 5 s."""
_KEEPALIVE_TIMEOUT_MS: Final = 4000
"""The time after which a connection without any acknowledgement counts as broken; also the socket's TCP_USER_TIMEOUT.

TCP itself tries again after ever longer pauses: when a network that was cut for 13 s works again, a call would wait for
up to another 13 s.
"""
_AGE_GRACE_MS: Final = 60_000
"""More than any call between nodes takes."""
_SENT_AGAIN_BYTES_MAX: Final = 4 << 20
"""Larger requests are not kept until they are answered; one that crosses the notice fails as if a connection broke."""
_RECONNECT_MS_MIN: Final = 100
_RECONNECT_MS_MAX: Final = 1000


def channel_options(connect_timeout_ms: int, *, is_secured: bool = False) -> list[tuple[str, int]]:
    """Choose the options of a client's channel.

    Reconnection is quick, because callers wait for nodes that return. Retries by the library are off, because the
    caller decides what may be sent twice; but under TLS, where servers replace connections by age, it sends again what
    crossed their notice: the server has not seen it.
    """
    return [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.initial_reconnect_backoff_ms", _RECONNECT_MS_MIN),
        # Despite its name this is the timeout of one connection attempt.
        ("grpc.min_reconnect_backoff_ms", connect_timeout_ms),
        ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS_MAX),
        ("grpc.enable_retries", int(is_secured)),
        ("grpc.per_rpc_retry_buffer_size", _SENT_AGAIN_BYTES_MAX),
        ("grpc.enable_http_proxy", 0),
        # Each client has its own connections, so that closing one's channel ends it.
        ("grpc.use_local_subchannel_pool", 1),
    ]


def server_options(request_bytes_max: int) -> list[tuple[str, int]]:
    """Choose the options of a listener's server, which refuses requests of more than `request_bytes_max` bytes."""
    return [
        ("grpc.max_receive_message_length", request_bytes_max),
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_TIMEOUT_MS),
        # Clients also keep idle channels alive; without this option a server closes their connections (GOAWAY).
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
        # Otherwise a second process could bind the same port and get half of the calls.
        ("grpc.so_reuseport", 0),
    ]


def secured_options(max_age_ms: int) -> list[tuple[str, int]]:
    """Choose the options of a server under TLS, whose connections are replaced after about `max_age_ms`.

    The library tells the client to open another one and lets the calls in flight finish; those that never do, as
    streams, are ended after a while, and their clients resume them.
    """
    return [("grpc.max_connection_age_ms", max_age_ms), ("grpc.max_connection_age_grace_ms", _AGE_GRACE_MS)]


def admission_options(limits: AdmissionLimits, *, is_main: bool) -> list[tuple[str, int]]:
    """Choose the options that limit what clients may open and send. `is_main`: for the listener for clients."""
    connections = limits.max_connections if is_main else limits.max_other_connections
    return [
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.max_concurrent_streams", limits.settings.klamm_max_requests_per_connection),
        ("grpc.max_connection_idle_ms", limits.settings.connections_max_idle_ms),
        ("grpc.server_handshake_timeout_ms", limits.settings.socket_connection_setup_timeout_ms),
        # Compressed requests are refused: the library has no bound for what they become.
        ("grpc.compression_enabled_algorithms_bitset", _UNCOMPRESSED),
        # Limits calls that have arrived and not been seen by our code: by default the library drops those beyond 1000.
        ("grpc.server.max_pending_requests", limits.settings.klamm_max_open_requests),
        ("grpc.server.max_pending_requests_hard_limit", limits.settings.klamm_max_open_requests),
    ]
