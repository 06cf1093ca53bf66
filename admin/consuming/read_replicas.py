"""The replica that a consumer reads each partition from: the leader, or the follower to which the leader has sent it.

Source: Kafka SubscriptionState (preferred read replica); KIP-392.
"""

from typing import NamedTuple

from admin.describing.topology import LeaderAddress, Topology
from cluster.model.broker import BrokerId


class _Preference(NamedTuple):
    """`until`: in seconds of the caller's clock; then the leader is asked again."""

    broker: BrokerId
    until: float


class ReadReplicas:
    """The sources of the partitions of one topic. A preference ends after `lasts_s` seconds."""

    def __init__(self, topology: Topology, topic: str, lasts_s: float) -> None:
        self._topology, self._topic, self._lasts_s = topology, topic, lasts_s
        self._preferred: dict[int, _Preference] = {}

    def prefer(self, partition: int, broker: BrokerId, now: float) -> None:
        """Read the partition from this follower from now on."""
        self._preferred[partition] = _Preference(broker, now + self._lasts_s)

    def forget(self, partition: int) -> None:
        """Read the partition from its leader again."""
        self._preferred.pop(partition, None)

    def forget_broker(self, address: str) -> None:
        """Read from the leaders what was read from the broker at this address."""
        for partition, preferred in tuple(self._preferred.items()):
            if self._topology.address(preferred.broker) == address:
                self.forget(partition)

    def source(self, partition: int, now: float) -> LeaderAddress | None:
        """The broker to read from, with the partition's leader epoch; None while there is no leader."""
        leader = self._topology.leader(self._topic, partition)
        preferred = self._preferred.get(partition)
        if leader is None or preferred is None:
            return leader
        address = self._topology.address(preferred.broker)
        if address is None or now >= preferred.until or preferred.broker == leader.broker:
            del self._preferred[partition]
            return leader
        return LeaderAddress(preferred.broker, address, leader.epoch)
