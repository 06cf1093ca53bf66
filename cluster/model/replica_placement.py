"""Places the replicas of new partitions on brokers and racks.

Source: Kafka AdminUtils.assignReplicasToBrokers; KIP-36 for racks.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from cluster.model.broker import Broker, BrokerId
from cluster.model.errors import ApiError, ErrorCode, all_refusals

MAX_PARTITIONS: Final = 100_000
"""Limit per topic. The topic znode lists all partitions, and ZooKeeper's limit is about 1 MiB; without a limit, a
request for billions of partitions would exhaust the memory.
"""


def place_replicas(
    brokers: Iterable[Broker],
    partition_count: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, tuple[BrokerId, ...]]:
    """Partition -> replicas, preferred one first (TP-5).

    `start`: index of the broker of the first partition's first replica; `shift`: distance of further replicas from the
    first. Both are below the number of brokers, random for a new topic. Raises ApiError for impossible counts, and if
    only some brokers have a rack.
    """
    racks = {b.id: b.rack for b in sorted(brokers, key=lambda b: b.id)}
    _check_counts(partition_count, first_partition, replication_factor, len(racks))
    named = {b: rack for b, rack in racks.items() if rack is not None}
    if named and len(named) < len(racks):
        nameless = sorted(racks.keys() - named.keys())
        raise ApiError(ErrorCode.INVALID_REQUEST, f"some brokers have a rack, but brokers {nameless} have none")
    ordered = alternate_racks(named) if named else tuple(racks)
    return {
        partition: _place_partition(
            ordered,
            named,
            partition,
            replication_factor,
            start=start,
            # Incremented each time the first replicas have used all brokers, counted from the first new partition.
            shift=shift + partition // len(ordered) - max(0, first_partition - 1) // len(ordered),
        )
        for partition in range(first_partition, first_partition + partition_count)
    }


def _check_counts(partition_count: int, first_partition: int, replication_factor: int, brokers: int) -> None:
    """Raise ApiError for invalid counts; names both if both are."""
    errors: list[ApiError] = []
    if partition_count <= 0 or first_partition + partition_count > MAX_PARTITIONS:
        why = (
            f"the number of partitions must be above 0, not {partition_count}"
            if partition_count <= 0
            else f"a topic has at most {MAX_PARTITIONS} partitions, not {first_partition + partition_count}"
        )
        errors.append(ApiError(ErrorCode.INVALID_PARTITIONS, why, field="num_partitions", value=partition_count))
    if not 0 < replication_factor <= brokers:
        why = f"replication factor {replication_factor} must be between 1 and the number of live brokers ({brokers})"
        errors.append(
            ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, why, field="replication_factor", value=replication_factor)
        )
    if errors:
        raise all_refusals(errors)


def alternate_racks(racks: Mapping[BrokerId, str]) -> tuple[BrokerId, ...]:
    """Brokers with alternating racks: racks by name, brokers by id within them."""
    queues: dict[str, list[BrokerId]] = {}
    for broker in sorted(racks):
        queues.setdefault(racks[broker], []).append(broker)
    longest = max(len(queue) for queue in queues.values())
    return tuple(queue[i] for i in range(longest) for _, queue in sorted(queues.items()) if i < len(queue))


def _place_partition(
    ordered: tuple[BrokerId, ...],
    racks: Mapping[BrokerId, str],
    partition: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
) -> tuple[BrokerId, ...]:
    count = len(ordered)
    rack_count = len(set(racks.values())) if racks else 1
    first = (partition + start) % count
    placed = [ordered[first]]
    tried = 0
    while len(placed) < replication_factor:
        candidate = ordered[(first + 1 + (shift * rack_count + tried) % (count - 1)) % count]
        tried += 1
        if not racks or _adds_to_the_spread(candidate, placed, racks, rack_count):
            placed.append(candidate)
    return tuple(placed)


def _adds_to_the_spread(
    candidate: BrokerId, placed: list[BrokerId], racks: Mapping[BrokerId, str], rack_count: int
) -> bool:
    used_racks = {racks[b] for b in placed}
    if racks[candidate] in used_racks and len(used_racks) < rack_count:
        return False
    return candidate not in placed
