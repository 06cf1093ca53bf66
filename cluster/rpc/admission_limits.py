"""The settings of admission."""

from msgspec import Struct

from cluster.config.settings import Settings
from cluster.process.descriptors import UNLIMITED


class AdmissionLimits(Struct, frozen=True):
    """The settings, and by them and the descriptors the connections of listeners.

    `max_connections` is that of the listener for clients; `max_other_connections`: of each other listener for gRPC;
    `max_kafka_connections`: of all Kafka listeners together.
    """

    settings: Settings
    max_connections: int
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
        most, of_other = settings.max_connections, descriptors // 4
        left = descriptors - of_other * (2 if has_external else 1)
        of_kafka = (left - of_other) // 2 if has_kafka else 0
        of_clients = of_other if has_kafka else left
        return cls(settings, min(most, of_clients), min(most, of_other), min(most, of_kafka))
