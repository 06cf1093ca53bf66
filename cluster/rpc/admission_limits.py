"""The settings of admission."""

from collections.abc import Mapping

from msgspec import Struct

from cluster.config.connection_overrides import connection_overrides
from cluster.config.settings import Settings
from cluster.process.descriptors import UNLIMITED


class AdmissionLimits(Struct, frozen=True):
    """Sizes in bytes, times in ms; each under the name of its setting.

    `max_connections` is that of the listener for clients; `max_other_connections`: of each other listener for gRPC;
    `max_kafka_connections`: of all Kafka listeners together.
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
        """`descriptors`: for connections of all listeners; each but that for clients gets a quarter.

        `has_external`: whether there is a listener for external clients. `has_kafka`: whether there are Kafka
        listeners. Then that for clients gets a quarter, too, and the rest is theirs: each of their connections may need
        another one, to the broker that its requests are passed on to.
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
