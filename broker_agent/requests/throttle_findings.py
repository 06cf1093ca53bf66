"""What of a throttle of replication is set on a broker, so that one which nobody needs any more is found.

Whether a reassignment is under way only the controller knows: the health check leaves these out meanwhile.
"""

from collections.abc import Iterator
from typing import Final

from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.replication.replication_quota import ThrottledSide
from cluster.requests.cluster import Finding

KIND: Final = "forgotten_throttle"


def throttle_findings(manager: ReplicaManager) -> Iterator[Finding]:
    """The rates of this broker, and the topics led here that have a list of throttled replicas."""
    rates = [quota for quota in (manager.leader_quota, manager.follower_quota) if quota.bytes_per_second is not None]
    for name in sorted({"default" if quota.is_of_all else str(manager.own_id) for quota in rates}):
        here = [quota for quota in rates if quota.is_of_all is (name == "default")]
        options = " ".join(f"--delete-config {quota.side.rate_key}" for quota in here)
        limits = ", ".join(f"{quota.side.rate_key} is {quota.bytes_per_second} bytes/s" for quota in here)
        detail = f"{limits}, and nothing is being reassigned: 'klamm brokers alter {name} {options}'"
        yield Finding(KIND, detail, broker=manager.own_id)
    topics: dict[str, tuple[str, str]] = {}
    for partition in manager.online_partitions():
        if partition.is_leader and partition.log is not None:
            config = partition.log.config
            lists = (config.leader_replication_throttled_replicas, config.follower_replication_throttled_replicas)
            if any(lists):
                topics[partition.topic_partition.topic] = lists
    for topic, lists in sorted(topics.items()):
        set_here = [side.replicas_key for side, listed in zip(ThrottledSide, lists, strict=True) if listed]
        options = " ".join(f"--delete-config {key}" for key in set_here)
        detail = f"throttled replicas are set, and nothing is being reassigned: 'klamm topics alter {topic} {options}'"
        yield Finding(KIND, detail, topic)
