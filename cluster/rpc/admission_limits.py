"""The settings of admission."""

from msgspec import Struct

from cluster.process.descriptors import UNLIMITED
from cluster.process.settings import Settings


class AdmissionLimits(Struct, frozen=True):
    """Sizes in bytes, times in ms; each under the name of its setting.

    `max_control_connections`: as `max_connections`, of the control listener.
    """

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
    max_control_connections: int

    @classmethod
    def from_settings(cls, settings: Settings, descriptors: int = UNLIMITED) -> "AdmissionLimits":
        """`descriptors`: for connections of both listeners together; the control listener gets a quarter."""
        named = {name: getattr(settings, name) for name in cls.__struct_fields__ if hasattr(settings, name)}
        of_control = descriptors // 4
        named["max_connections"] = min(settings.max_connections, descriptors - of_control)
        return cls(**named, max_control_connections=min(settings.max_connections, of_control))
