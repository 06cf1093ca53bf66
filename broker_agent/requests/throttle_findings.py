"""What of the throttles of moves is set on a broker, so that one which nobody needs any more is found.

Whether a reassignment is under way only the controller knows: the health check leaves these out meanwhile.
"""

from collections.abc import Iterator
from typing import Final

from broker_agent.replication.copy_throttle import RATE_KEY, CopyThrottle
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.replication.replication_quota import ThrottledSide
from cluster.requests.cluster import Finding

KIND: Final = "forgotten_throttle"


def throttle_findings(manager: ReplicaManager, copies: CopyThrottle) -> Iterator[Finding]:
    """Report the rates of this broker, and the topics led here that have a list of throttled replicas."""
    yield from _of_copies(manager, copies)
    rates = [quota for quota in (manager.leader_quota, manager.follower_quota) if quota.bytes_per_second is not None]
    for name in sorted({"default" if quota.is_of_all else str(manager.own_id) for quota in rates}):
        here = [quota for quota in rates if quota.is_of_all is (name == "default")]
        options = " ".join(f"--delete-config {quota.side.rate_key}" for quota in here)
        limits = ", ".join(f"{quota.side.rate_key} is {quota.bytes_per_second} bytes/s" for quota in here)
        detail = f"{limits}, and nothing is being reassigned: 'klamm brokers alter {name} {options}'"
        yield Finding(KIND, detail, broker=manager.own_id)
    yield from _of_topics(manager)


def _of_copies(manager: ReplicaManager, throttle: CopyThrottle) -> Iterator[Finding]:
    """Report an override of the limit for copies between log directories, unless a replica is being copied."""
    if throttle.is_overridden and not manager.logs.futures.all:
        name = "default" if throttle.is_of_all else str(manager.own_id)
        detail = (
            f"{RATE_KEY} is {throttle.bytes_per_second} bytes/s, and no replica is being moved between log directories:"
            f" 'klamm brokers alter {name} --delete-config {RATE_KEY}'; a limit that is to stay belongs into the"
            " configuration file of the broker"
        )
        yield Finding(KIND, detail, broker=manager.own_id)


def _of_topics(manager: ReplicaManager) -> Iterator[Finding]:
    """Report the topics led here that have a list of throttled replicas."""
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
