"""Settings with which a controller governs brokers of Apache Kafka: their protocol, its listeners, and TLS.

The names of TLS settings are Kafka's; keys and certificates are in PEM form (KIP-651).
"""

from typing import Literal

from pydantic import SecretStr

from cluster.broker import BrokerProtocol
from cluster.process.setting_keys import Keys
from cluster.takeover import Takeover


class _TlsKeys(Keys):
    """Of a store, either the location of its file or its content is given."""

    ssl_keystore_type: Literal["PEM"] = "PEM"
    """Must be `PEM`; Kafka's own default is `JKS`."""
    ssl_keystore_location: str | None = None
    """File with the private key of a controller and its certificates, for its SSL listeners, and for brokers that
    authenticate their clients.
    """
    ssl_keystore_key: SecretStr | None = None
    """The private key itself, instead of a file."""
    ssl_keystore_certificate_chain: str | None = None
    """Its certificates themselves, instead of a file."""
    ssl_key_password: SecretStr | None = None
    """Password of the private key; not set: it has none."""
    ssl_truststore_type: Literal["PEM"] = "PEM"
    """Must be `PEM`; Kafka's own default is `JKS`."""
    ssl_truststore_location: str | None = None
    """File with the certificates of the authorities that certify brokers, and clients with certificates; not set: those
    that this machine trusts.
    """
    ssl_truststore_certificates: str | None = None
    """These certificates themselves, instead of a file."""
    ssl_client_auth: Literal["none", "requested", "required"] = "none"
    """Whether clients of a controller's SSL listeners need a certificate."""
    ssl_endpoint_identification_algorithm: Literal["https", ""] = "https"
    """`https`: the certificate of a broker must have the name by which it is reached; empty: any name will do."""


class KafkaKeys(_TlsKeys):
    """The kind of brokers, listeners for them and their clients, and how `/controller` is taken from them."""

    klamm_broker_protocol: BrokerProtocol = "klamm"
    """The kind of brokers that the controllers govern: `klamm`, or `kafka` for brokers of Apache Kafka 2.4 to 3.9 in
    ZooKeeper mode.
    """
    klamm_kafka_listeners: str | None = None
    """Where a controller answers brokers of Apache Kafka and their clients, `LISTENER://host:port,…`; one for each
    listener name that the brokers have. Needed with `klamm.broker.protocol` `kafka`.
    """
    klamm_kafka_advertised_listeners: str | None = None
    """What Kafka's brokers and clients are told, in the same form; `klamm.kafka.listeners` unless given."""
    klamm_kafka_register_as_broker: bool = False
    """Whether the controller is also registered under `/brokers/ids`, where brokers before 3.0 look for the controller
    when they shut down. Kafka's tools then count it among the brokers.
    """
    klamm_kafka_rack: str | None = None
    """The rack under which brokers see the controller; needed if they have racks, else they create no topics."""
    klamm_takeover: Takeover = "never"
    """How a controller takes `/controller` from Apache Kafka's brokers. `never`: only while `klamm adopt` says so.
    `atomic`: at once, and a broker takes it back when no controller of klamm lives. `persistent`: so that no broker
    competes for it; while no controller of klamm lives, nobody elects leaders.
    """
