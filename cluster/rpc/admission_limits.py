"""Collects the settings of admission."""

from msgspec import Struct

from cluster.config.settings import Settings
from cluster.process.descriptors import UNLIMITED


class AdmissionLimits(Struct, frozen=True):
    """The settings, and by them and the descriptors the connections of listeners.

    `max_connections` limits the listener for clients, `max_other_connections` each other gRPC listener, and
    `max_kafka_connections` all Kafka listeners together.
    """

    settings: Settings
    max_connections: int
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
        most, of_other = settings.max_connections, descriptors // 4
        left = descriptors - of_other * (2 if has_external else 1)
        of_kafka = (left - of_other) // 2 if has_kafka else 0
        of_clients = of_other if has_kafka else left
        return cls(settings, min(most, of_clients), min(most, of_other), min(most, of_kafka))
