"""Ids, epochs and versions as distinct types; endpoints and broker records.

Each kind of number has its own type, so that a leader epoch cannot be passed as a partition epoch. All are plain ints
at run time. The bound of each is that in requests, where the field has no other; znodes and files have their own.
"""

from typing import Annotated, Final, Literal, NewType

from msgspec import Struct

from cluster.model import bounds
from cluster.model.annotations import Mark

BrokerId = NewType("BrokerId", Annotated[int, bounds.BROKER_ID])
ControllerId = NewType("ControllerId", Annotated[int, bounds.BROKER_ID_OR_NONE])
"""Id of a controller process; from the same number space as broker ids (1001 and up by default)."""

BrokerEpoch = NewType("BrokerEpoch", Annotated[int, bounds.BROKER_EPOCH])
"""czxid of the broker's registration znode: increases with every registration."""
ControllerEpoch = NewType("ControllerEpoch", Annotated[int, bounds.CONTROLLER_EPOCH])
"""Content of /controller_epoch: incremented by every won controller election."""
LeaderEpoch = NewType("LeaderEpoch", Annotated[int, bounds.LEADER_EPOCH_OR_NONE])
"""Per partition: incremented by every leadership decision of a controller."""
PartitionEpoch = NewType("PartitionEpoch", Annotated[int, bounds.PARTITION_EPOCH])
"""ZooKeeper data version of the partition's state znode."""
ZkVersion = NewType("ZkVersion", int)
"""ZooKeeper data version of any other znode."""
Offset = NewType("Offset", Annotated[int, bounds.INT64])
TopicId = NewType("TopicId", Annotated[str, bounds.TOPIC_ID])
"""22 characters of unpadded URL-safe base64: a version-4 UUID."""

NO_LEADER: Final = BrokerId(-1)
LEADER_DURING_DELETE: Final = BrokerId(-2)
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
LEADER_EPOCH_DURING_DELETE: Final = LeaderEpoch(-2)
INITIAL_LEADER_EPOCH: Final = LeaderEpoch(0)
INITIAL_PARTITION_EPOCH: Final = PartitionEpoch(0)
INITIAL_CONTROLLER_EPOCH: Final = ControllerEpoch(0)
UNKNOWN_BROKER_EPOCH: Final = BrokerEpoch(-1)
UNKNOWN_CONTROLLER_EPOCH: Final = ControllerEpoch(-1)
NO_CONTROLLER: Final = ControllerId(-1)
UNKNOWN_OFFSET: Final = Offset(-1)
ZERO_TOPIC_ID: Final = TopicId("A" * 22)
"""The value for "no topic id" in Kafka's messages (KIP-516); here None is used, and this one only received."""

DEFAULT_LISTENER: Final = "PLAINTEXT"

BrokerProtocol = Literal["klamm", "kafka"]
"""What a controller speaks to brokers: gRPC to klamm's agents, or Kafka's protocol to brokers of Apache Kafka."""


def joined_address(host: str, port: int) -> str:
    """`host:port`, or `[host]:port` for an IPv6 address, as a gRPC target."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


WITH_TLS: Final = frozenset({"SSL", "SASL_SSL"})
WITH_SASL: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})


class Endpoint(Struct, frozen=True):
    """The address of one listener of a process."""

    host: Annotated[str, bounds.HOST]
    port: Annotated[int, bounds.PORT]
    listener: Annotated[str, bounds.LISTENER] = DEFAULT_LISTENER
    security_protocol: Annotated[str, bounds.LISTENER] = DEFAULT_LISTENER

    @property
    def address(self) -> str:
        """The address `host:port`, or `[host]:port` for an IPv6 address, as a gRPC target."""
        return joined_address(self.host, self.port)

    @property
    def has_tls(self) -> bool:
        """Whether it is reached under TLS."""
        return self.security_protocol in WITH_TLS

    @property
    def has_sasl(self) -> bool:
        """Whether who connects has to authenticate by SASL."""
        return self.security_protocol in WITH_SASL


class FeatureRange(Struct, frozen=True):
    """Supported versions of one feature, both ends inclusive."""

    min_version: int
    max_version: int


class Broker(Struct, frozen=True, weakref=True):
    """One registered broker; its epoch is kept separately."""

    id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: Annotated[str, bounds.TEXT] | None = None
    features: Annotated[dict[str, FeatureRange], Mark.NOT_SENT] = {}
    has_damaged_replicas: Annotated[bool, Mark.NOT_SENT] = False
    """Whether it joins the cluster only once it has named them to the active controller (D-40)."""
    klamm_version: Annotated[str, Mark.NOT_SENT] = ""
    """The version of klamm that runs it; empty for brokers of Apache Kafka, and for klamm before 0.3."""

    def endpoint(self, listener: str = DEFAULT_LISTENER) -> Endpoint | None:
        """The endpoint of that listener, None if the broker does not have it."""
        return next((e for e in self.endpoints if e.listener == listener), None)


class RegisteredBroker(Struct, frozen=True):
    """A broker incarnation: the broker record and the epoch of this registration."""

    broker: Broker
    epoch: BrokerEpoch
