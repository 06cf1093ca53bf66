"""The TLS contexts with which a controller governs brokers of Apache Kafka."""

import ssl
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from cluster.config.kafka_listeners import KafkaListener
from cluster.config.kafka_settings import KafkaKeys
from cluster.kafka_wire.tls import TlsSettings, client_context, server_context


class KafkaTls(Struct, frozen=True):
    """`to_brokers`: with the certificate of this controller, if it has one. `passing_on`: without it, for what clients
    ask that have shown none themselves, and must not gain by it. `listening`: for each SSL listener.
    """

    to_brokers: ssl.SSLContext
    passing_on: ssl.SSLContext
    listening: Mapping[str, ssl.SSLContext]


def kafka_tls(settings: KafkaKeys, listeners: tuple[KafkaListener, ...]) -> KafkaTls:
    """The contexts. Raises ConfigError that names the settings."""
    own = _tls_settings(settings)
    nobody = replace(own, keystore_location=None, keystore_key=None, keystore_certificate_chain=None, key_password=None)
    names = [listener.name for listener in listeners if listener.security_protocol == "SSL"]
    listening = {name: server_context(replace(own, client_auth=settings.client_auth_of(name))) for name in names}
    return KafkaTls(client_context(own), client_context(nobody), listening)


def _tls_settings(settings: KafkaKeys) -> TlsSettings:
    key, password = settings.ssl_keystore_key, settings.ssl_key_password
    return TlsSettings(
        keystore_location=settings.ssl_keystore_location,
        keystore_key=None if key is None else key.get_secret_value(),
        keystore_certificate_chain=settings.ssl_keystore_certificate_chain,
        key_password=None if password is None else password.get_secret_value(),
        truststore_location=settings.ssl_truststore_location,
        truststore_certificates=settings.ssl_truststore_certificates,
        client_auth=settings.ssl_client_auth,
        endpoint_identification_algorithm=settings.ssl_endpoint_identification_algorithm,
    )
