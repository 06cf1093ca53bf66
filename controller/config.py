"""Static configuration of a controller process; times in ms."""

from msgspec import Struct

from cluster.config.settings import Settings
from cluster.model.broker import Broker, BrokerProtocol, ControllerId, Endpoint, FeatureRange
from cluster.model.listeners import ListenerNames
from cluster.model.protocol_version import NEWEST, ProtocolVersion
from cluster.model.takeover import Takeover
from cluster.znodes.candidates import CandidateProfile
from controller.decisions.broker_requests import RequestSettings

_STOP_REPLICA_FLAG_PER_PARTITION = ProtocolVersion((2, 6), 0)


class ControllerConfig(Struct, frozen=True):
    """Defaults are Kafka's. `endpoints`: what others connect to; the first is for clients."""

    id: ControllerId
    endpoints: tuple[Endpoint, ...]
    protocol_version: ProtocolVersion = NEWEST
    listeners: ListenerNames = ListenerNames()
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_seconds: int = 300
    leader_rebalance_max_elections: int = 1000
    supported_features: dict[str, FeatureRange] = {}
    """Feature ranges this process supports; nothing requires a feature yet."""
    as_broker: Broker | None = None
    """What to register under `/brokers/ids`; None: nothing."""
    profile: CandidateProfile | None = None
    """What to register of this candidate beside its addresses."""
    delete_topic_enable: bool = True
    default_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    damaged_replica_election_delay_ms: int = 60_000
    delete_topic_absent_broker_grace_ms: int = 600_000
    """-1: for ever."""
    takeover: Takeover = "never"
    governs_kafka: bool = False
    """Whether the brokers are Apache Kafka's: then one of them is the active controller where no candidate is to be."""
    file: Settings = Settings()
    """The settings this process was started with, for DescribeConfigs."""

    @classmethod
    def from_settings(
        cls,
        controller: ControllerId,
        endpoints: tuple[Endpoint, ...],
        settings: Settings,
        as_broker: Broker | None = None,
        profile: CandidateProfile | None = None,
    ) -> "ControllerConfig":
        return cls(
            id=controller,
            endpoints=endpoints,
            as_broker=as_broker,
            profile=profile,
            protocol_version=settings.inter_broker_protocol_version,
            listeners=settings.listener_names,
            unclean_leader_election_enable=settings.unclean_leader_election_enable,
            auto_leader_rebalance_enable=settings.auto_leader_rebalance_enable,
            leader_imbalance_per_broker_percentage=settings.leader_imbalance_per_broker_percentage,
            leader_imbalance_check_interval_seconds=settings.leader_imbalance_check_interval_seconds,
            leader_rebalance_max_elections=settings.klamm_leader_rebalance_max_elections,
            governs_kafka=settings.klamm_broker_protocol == "kafka",
            delete_topic_enable=settings.delete_topic_enable,
            default_partitions=settings.num_partitions,
            default_replication_factor=settings.default_replication_factor,
            min_insync_replicas=settings.min_insync_replicas,
            damaged_replica_election_delay_ms=settings.klamm_damaged_replica_election_delay_ms,
            delete_topic_absent_broker_grace_ms=settings.klamm_delete_topic_absent_broker_grace_ms,
            takeover=settings.klamm_takeover,
            file=settings,
        )

    @property
    def broker_protocol(self) -> BrokerProtocol:
        """The protocol that is spoken to brokers."""
        return "kafka" if self.governs_kafka else "klamm"

    @property
    def least_profile(self) -> CandidateProfile:
        """The profile of this candidate as far as it is known without its process."""
        names = self.listeners
        return CandidateProfile("", self.broker_protocol, str(self.protocol_version), names.client, names.control)

    @property
    def kafka_release(self) -> str | None:
        """The release of Apache Kafka that no broker is older than, by the protocol; None if they are klamm's."""
        return ".".join(map(str, self.protocol_version.release)) if self.governs_kafka else None

    @property
    def request_settings(self) -> RequestSettings:
        """The form of requests under this protocol version."""
        return RequestSettings(
            inter_broker_listener=self.listeners.client,
            leader_recovery_state=self.protocol_version.has_leader_recovery_state,
            topic_ids=self.protocol_version.sends_topic_ids,
            stop_replica_flag_per_partition=self.protocol_version >= _STOP_REPLICA_FLAG_PER_PARTITION,
        )
