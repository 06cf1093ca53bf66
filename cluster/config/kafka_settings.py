"""Settings with which a controller governs brokers of Apache Kafka: their protocol, its listeners, and TLS.

The names of TLS settings are Kafka's; keys and certificates are in PEM form (KIP-651).
"""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import Field, SecretStr, model_validator

from cluster.config.setting_keys import Keys
from cluster.model.broker import BrokerProtocol
from cluster.model.takeover import Takeover

ClientAuth = Literal["none", "requested", "required"]
OF_LISTENERS: Final = "listener.name.LISTENER.ssl.client.auth"
"""What documents and errors call `ssl.client.auth` with the prefix of a listener."""
_OF_LISTENER: Final = re.compile(r"listener\.name\.([a-z0-9][a-z0-9_.-]*)\.ssl\.client\.auth")


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
    ssl_client_auth: ClientAuth = "none"
    """Whether clients of a controller's SSL listeners need a certificate."""
    listener_name_ssl_client_auth: Annotated[dict[str, ClientAuth], Field(alias=OF_LISTENERS)] = {}
    """The same for one of its listeners, whose name stands for LISTENER in lower case, as in
    `listener.name.internal.ssl.client.auth`; before `ssl.client.auth`.
    """
    ssl_endpoint_identification_algorithm: Literal["https", ""] = "https"
    """`https`: the certificate of a broker must have the name by which it is reached; empty: any name will do."""

    @model_validator(mode="before")
    @classmethod
    def _gather_those_of_listeners(cls, values: Any) -> Any:
        """Gather the keys of single listeners into one value: listener name -> value."""
        if not isinstance(values, dict):
            return values
        found = {match[1].upper(): key for key in values if (match := _OF_LISTENER.fullmatch(str(key)))}
        rest = {key: value for key, value in values.items() if key not in found.values()}
        return rest | {OF_LISTENERS: {name: values[key] for name, key in found.items()}} if found else rest

    def client_auth_of(self, listener: str) -> ClientAuth:
        """Whether clients of the SSL listener of this name need a certificate."""
        return self.listener_name_ssl_client_auth.get(listener, self.ssl_client_auth)


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
