"""What this broker knows to be wrong with its disks: failed directories, logs that cannot be loaded, lost records."""

from collections.abc import Iterator

from broker_agent.replication.replica_manager import ReplicaManager
from cluster.model.bounds import shortened
from cluster.requests.cluster import Finding


def disk_findings(manager: ReplicaManager) -> Iterator[Finding]:
    """For DescribeFindings."""
    logs, own_id = manager.logs, manager.own_id
    for path, error in logs.failures.items():
        yield Finding("failed_log_directory", f"log directory {path} failed: {error}", broker=own_id)
    for (topic, partition), why in logs.unloadable.items():
        yield Finding("offline_replica", f"broker {own_id}: {why}", topic, partition, own_id)
    for directory, names in logs.unacceptable_names.items():
        for name in names:
            detail = f"{directory}: {shortened(name)} cannot be a partition; nothing in it is touched: move it away"
            yield Finding("unacceptable_directory", detail, broker=own_id)
    for replica in (replica for replica in logs.damaged_replicas if not replica.is_in_doubt):
        detail = f"broker {own_id}: {replica.detail}; {replica.remedy(own_id)}"
        yield Finding("damaged_replica", detail, *replica.topic_partition, own_id)
