"""Settings with which a controller governs brokers of Apache Kafka: their protocol, and its listeners for them."""

from cluster.config.tls_keys import TlsKeys
from cluster.model.broker import BrokerProtocol
from cluster.model.takeover import Takeover


class KafkaKeys(TlsKeys):
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
    klamm_kafka_controller_only: bool = False
    """Whether the controller answers brokers only, and refuses clients: for clusters whose authorizer is not
    AclAuthorizer, whose decisions klamm does not know. `super.users` then names the principals of the brokers, and of
    those who run klamm's own commands; nobody else may do anything.
    """
    klamm_kafka_rack: str | None = None
    """The rack under which brokers see the controller; needed if they have racks, else they create no topics."""
    klamm_takeover: Takeover = "never"
    """How a controller takes `/controller` from Apache Kafka's brokers. `never`: only while `klamm adopt` says so.
    `atomic`: at once, and a broker takes it back when no controller of klamm lives. `persistent`: so that no broker
    competes for it; while no controller of klamm lives, nobody elects leaders.
    """

    @property
    def governs_kafka(self) -> bool:
        """Whether the brokers are of Apache Kafka."""
        return self.klamm_broker_protocol == "kafka"
