"""The TLS contexts with which a controller governs brokers of Apache Kafka."""

import ssl
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from cluster.config.kafka_listeners import KafkaListener
from cluster.config.kafka_settings import KafkaKeys
from cluster.tls.contexts import client_context, server_context


class KafkaTls(Struct, frozen=True):
    """`to_brokers`: with the certificate of this controller, if it has one. `passing_on`: without it, for what clients
    ask that have shown none themselves, and must not gain by it. `listening`: for each SSL listener.
    """

    to_brokers: ssl.SSLContext
    passing_on: ssl.SSLContext
    listening: Mapping[str, ssl.SSLContext]


def kafka_tls(settings: KafkaKeys, listeners: tuple[KafkaListener, ...]) -> KafkaTls:
    """The contexts. Raises ConfigError that names the settings."""
    own = settings.tls_of()
    nobody = replace(own, keystore_location=None, keystore_key=None, keystore_certificate_chain=None, key_password=None)
    names = [listener.name for listener in listeners if listener.security_protocol == "SSL"]
    listening = {name: server_context(settings.tls_of(name)) for name in names}
    return KafkaTls(client_context(own), client_context(nobody), listening)
