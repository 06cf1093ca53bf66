"""Static configuration of a controller process."""

from msgspec import Struct

from cluster.config.settings import Settings
from cluster.model.broker import Broker, BrokerProtocol, ControllerId, Endpoint, FeatureRange
from cluster.model.listeners import ListenerNames
from cluster.model.protocol_version import ProtocolVersion
from cluster.znodes.candidates import CandidateProfile
from controller.decisions.broker_requests import RequestSettings

_STOP_REPLICA_FLAG_PER_PARTITION = ProtocolVersion((2, 6), 0)


class ControllerConfig(Struct, frozen=True):
    """What a process is started as. `endpoints`: what others connect to; the first is for clients."""

    id: ControllerId
    endpoints: tuple[Endpoint, ...]
    settings: Settings = Settings()
    as_broker: Broker | None = None
    """What to register under `/brokers/ids`; None: nothing."""
    profile: CandidateProfile | None = None
    """What to register of this candidate beside its addresses."""
    supported_features: dict[str, FeatureRange] = {}
    """Feature ranges this process supports; nothing requires a feature yet."""

    @property
    def protocol_version(self) -> ProtocolVersion:
        return self.settings.inter_broker_protocol_version

    @property
    def listeners(self) -> ListenerNames:
        return self.settings.listener_names

    @property
    def broker_protocol(self) -> BrokerProtocol:
        """The protocol that is spoken to brokers."""
        return self.settings.klamm_broker_protocol

    @property
    def governs_kafka(self) -> bool:
        """Whether the brokers are Apache Kafka's: one of them is the active controller where no candidate is to be."""
        return self.broker_protocol == "kafka"

    @property
    def partitions_followed_max(self) -> int:
        """The most partitions that this candidate follows while it stands by; 0: none."""
        return self.settings.klamm_standby_max_partitions if self.settings.klamm_standby_warm else 0

    @property
    def authenticates_to_brokers(self) -> bool:
        """Whether this process has credentials for listeners of Apache Kafka's brokers with SASL."""
        return self.settings.sasl_mechanism_inter_broker_protocol is not None

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
