"""Who takes part in a cluster: ids, epochs and versions as distinct types, endpoints and broker records.

Every number that counts something different has a type of its own, so that a leader epoch never
stands where a partition epoch belongs. All of them are plain ints at run time.
"""

from typing import Final, NewType

from msgspec import Struct

BrokerId = NewType("BrokerId", int)
ControllerId = NewType("ControllerId", int)
"""Candidate id of a controller process; it shares the number space of broker ids (1001 and up by default)."""

BrokerEpoch = NewType("BrokerEpoch", int)
"""czxid of the broker's registration node: greater after every registration."""
ControllerEpoch = NewType("ControllerEpoch", int)
"""Content of /controller_epoch: raised by one per successful controller election."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""Per partition: raised by one with every leadership decision of a controller."""
PartitionEpoch = NewType("PartitionEpoch", int)
"""ZooKeeper data version of the partition's state node."""
ZkVersion = NewType("ZkVersion", int)
"""ZooKeeper data version of any other node."""
Offset = NewType("Offset", int)
TopicId = NewType("TopicId", str)
"""22 characters of unpadded URL-safe base64: a version-4 UUID."""

NO_LEADER: Final = BrokerId(-1)
LEADER_DURING_DELETE: Final = BrokerId(-2)
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
LEADER_EPOCH_DURING_DELETE: Final = LeaderEpoch(-2)
INITIAL_LEADER_EPOCH: Final = LeaderEpoch(0)
INITIAL_PARTITION_EPOCH: Final = PartitionEpoch(0)
INITIAL_CONTROLLER_EPOCH: Final = ControllerEpoch(0)
UNKNOWN_BROKER_EPOCH: Final = BrokerEpoch(-1)
NO_CONTROLLER: Final = ControllerId(-1)
UNKNOWN_OFFSET: Final = Offset(-1)
ZERO_TOPIC_ID: Final = TopicId("A" * 22)
"""How Kafka's messages say that there is no id (KIP-516); here that is None, and this one comes from outside only."""

DEFAULT_LISTENER: Final = "PLAINTEXT"


class Endpoint(Struct, frozen=True):
    """Where one listener of a process can be reached."""

    host: str
    port: int
    listener: str = DEFAULT_LISTENER
    security_protocol: str = DEFAULT_LISTENER

    @property
    def address(self) -> str:
        """`host:port`, or `[host]:port` for an IPv6 address, as a gRPC target."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class FeatureRange(Struct, frozen=True):
    """Supported versions of one feature, both ends inclusive."""

    min_version: int
    max_version: int


class Broker(Struct, frozen=True, weakref=True):
    """One registered broker as the cluster knows it; its epoch is kept beside it, not in it."""

    id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: dict[str, FeatureRange] = {}

    def endpoint(self, listener: str = DEFAULT_LISTENER) -> Endpoint | None:
        """The endpoint of that listener, or None when the broker does not offer it."""
        return next((e for e in self.endpoints if e.listener == listener), None)


class RegisteredBroker(Struct, frozen=True):
    """A broker incarnation: the record and the epoch that tells this registration from every other."""

    broker: Broker
    epoch: BrokerEpoch
