"""Values that mean something to the nodes of a cluster, by the name of the field that has them."""

from collections.abc import Sequence
from typing import Final

from simulator.record_batches import encode_client_batch
from simulator.virtual_time_loop import START_MS
from tests.fuzz.messages import Known

TOPICS: Final = ("t", "u")
_BATCH: Final = encode_client_batch(b"value", 3, timestamp=START_MS)


def known_values(topic_ids: Sequence[str], broker_epochs: Sequence[int], brokers: Sequence[int]) -> Known:
    """Of a cluster in its first controller epoch, with these brokers and with TOPICS of three partitions at most."""
    few = [0, 0, 1, 2]
    return {
        "topic_name": TOPICS,
        "topic": TOPICS,
        "topics": TOPICS,
        "name": [*TOPICS, "new", "retention.ms"],
        "topic_id": topic_ids,
        "partition_index": few,
        "partition_indexes": few,
        "partition": few,
        "partitions": few,
        "controller_id": [1001],
        "controller_epoch": [1, 1, 1, 2],
        "broker_epoch": [-1, *broker_epochs],
        "replica_epoch": [-1, *broker_epochs],
        "new_isr_epochs": broker_epochs,
        "broker_id": brokers,
        "broker_ids": brokers,
        "id": brokers,
        "replica_id": [-1, *brokers],
        "leader": [*brokers, -1, -2],
        "leader_id": brokers,
        "isr": brokers,
        "new_isr": brokers,
        "replicas": brokers,
        "adding_replicas": brokers,
        "removing_replicas": brokers,
        "offline_replicas": brokers,
        "leader_epoch": [0, 1, 2, 3],
        "partition_epoch": [0, 1, 2, 3],
        "zk_version": [0, 1, 2, 3],
        "current_leader_epoch": [-1, 0, 1],
        "last_fetched_epoch": [-1, 0],
        "leader_recovery_state": [0, 0, 1],
        "acks": [-1, 0, 1],
        "timeout_ms": [0, 1000, 20_000],
        "max_wait_ms": [0, 500],
        "min_bytes": [0, 1],
        "max_bytes": [1 << 20],
        "partition_max_bytes": [1 << 20],
        "fetch_offset": [0, 2, 6],
        "offset": [-1, 0, 3, 6],
        "log_start_offset": [-1, 0, 3],
        "timestamp": [-1, -2, -3, START_MS],
        "isolation_level": [0, 1],
        "records": [_BATCH, _BATCH, _BATCH + _BATCH, _BATCH[:-1], b""],
        "host": ["broker-1", "elsewhere"],
        "port": [9092, 9093],
        "listener": ["PLAINTEXT", "CONTROL"],
        "security_protocol": ["PLAINTEXT"],
        "num_partitions": [1, 2, -1],
        "count": [3, 4],
        "replication_factor": [1, 3, -1],
        "assignments.key": few,
        "configs.key": ["retention.ms", "min.insync.replicas", "cleanup.policy"],
        "configs.value": ["1", "delete", "100000"],
        "resource_type": [2, 4],
        "resource_name": [*TOPICS, "", "1"],
        "config_operation": [0, 1, 2, 3],
        "value": ["1", "100000", "debug"],
        "keys": ["retention.ms", "log.level"],
        "configuration_keys": ["retention.ms", "log.level"],
        "election_type": [0, 1],
        "feature": ["x"],
        "max_version_level": [0, 1, 2],
        "upgrade_type": [1, 2, 3],
        "cursor": ["", "1-0", "1-5"],
        "event": ["BrokerChange"],
    }
