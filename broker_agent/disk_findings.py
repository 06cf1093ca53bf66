"""What this broker knows to be wrong with its disks: failed directories, logs that cannot be loaded, lost records."""

from collections.abc import Iterator

from broker_agent.log_damage import DamagedReplica
from broker_agent.replica_manager import ReplicaManager
from cluster.bounds import shortened
from cluster.requests.cluster import Finding


def disk_findings(manager: ReplicaManager) -> Iterator[Finding]:
    """For DescribeFindings. A damaged replica that has fetched again what was missing is forgotten."""
    logs, own_id = manager.logs, manager.own_id
    for path, error in logs.failures.items():
        yield Finding("failed_log_directory", f"log directory {path} failed: {error}", broker=own_id)
    for (topic, partition), why in logs.unloadable.items():
        yield Finding("offline_replica", f"broker {own_id}: {why}", topic, partition, own_id)
    for directory, names in logs.unacceptable_names.items():
        for name in names:
            detail = f"{directory}: {shortened(name)} cannot be a partition; nothing in it is touched: move it away"
            yield Finding("unacceptable_directory", detail, broker=own_id)
    for replica in logs.damaged_replicas:
        if _has_recovered(manager, replica):
            logs.forget_damage(replica)
        else:
            detail = f"broker {own_id}: {replica.detail}"
            yield Finding("damaged_replica", detail, *replica.topic_partition, own_id)


def _has_recovered(manager: ReplicaManager, replica: DamagedReplica) -> bool:
    """Whether a follower has fetched again what was missing. A leader has nobody to fetch it from."""
    partition = manager.online(replica.topic_partition)
    if partition is None or partition.log is None or partition.is_leader or not replica.damage.is_cut:
        return False
    return partition.log.high_watermark >= replica.damage.to_offset
