"""Collects the settings of admission."""

from collections.abc import Mapping

from msgspec import Struct

from cluster.config.connection_overrides import connection_overrides
from cluster.config.settings import Settings
from cluster.process.descriptors import UNLIMITED


class AdmissionLimits(Struct, frozen=True):
    """Holds each limit under the name of its setting; sizes are in bytes, times in ms.

    `max_connections` limits the listener for clients, `max_other_connections` each other gRPC listener, and
    `max_kafka_connections` all Kafka listeners together.
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
    max_connections_per_ip_overrides: Mapping[str, int]
    max_other_connections: int
    max_kafka_connections: int

    @classmethod
    def from_settings(
        cls, settings: Settings, descriptors: int = UNLIMITED, *, has_external: bool = False, has_kafka: bool = False
    ) -> "AdmissionLimits":
        """Read the limits from settings, and divide `descriptors` among the connections of all listeners.

        Each gRPC listener except the one for clients gets a quarter of the descriptors. `has_external`: whether there
        is a listener for external clients. `has_kafka`: whether there are Kafka listeners. Then the listener for
        clients gets a quarter too, and half of the rest is the number of Kafka connections: each may need a second one,
        to the broker to which its requests are passed on.
        """
        named = {name: getattr(settings, name) for name in cls.__struct_fields__ if hasattr(settings, name)}
        of_other = descriptors // 4
        left = descriptors - of_other * (2 if has_external else 1)
        of_kafka = (left - of_other) // 2
        named["max_connections"] = min(settings.max_connections, of_other if has_kafka else left)
        named["max_connections_per_ip_overrides"] = connection_overrides(settings.max_connections_per_ip_overrides)
        return cls(
            **named,
            max_other_connections=min(settings.max_connections, of_other),
            max_kafka_connections=min(settings.max_connections, of_kafka) if has_kafka else 0,
        )
