"""The settings of admission."""

from msgspec import Struct

from cluster.process.settings import Settings


class AdmissionLimits(Struct, frozen=True):
    """Sizes in bytes, times in ms; each under the name of its setting."""

    queued_max_requests: int
    klamm_max_open_requests: int
    klamm_max_requests_per_connection: int
    queued_max_request_bytes: int
    socket_request_max_bytes: int
    klamm_request_transfer_timeout_ms: int
    max_connections: int
    max_connections_per_ip: int
    connections_max_idle_ms: int
    socket_connection_setup_timeout_ms: int

    @classmethod
    def from_settings(cls, settings: Settings) -> "AdmissionLimits":
        return cls(**{name: getattr(settings, name) for name in cls.__struct_fields__})
