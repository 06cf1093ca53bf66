"""Output of brokers: description, load, and the impact of a controlled shutdown."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from cluster.requests.cluster import DescribedBroker
from cluster.requests.elections import PlanControlledShutdownResponse, ThreatenedPartition
from cluster.requests.topics import DescribedTopic

BROKER_COLUMNS: Final = ("id", "address", "rack", "epoch", "state")


def broker_document(b: DescribedBroker) -> dict[str, Any]:
    return {"id": b.id, "address": b.endpoint.address, "rack": b.rack, "epoch": b.epoch, "state": b.state}


def load_of_brokers(topics: Sequence[DescribedTopic]) -> dict[int, dict[str, int]]:
    """Counts per broker: partitions it leads, is preferred leader of, hosts, and hosts out of sync."""
    load: dict[int, dict[str, int]] = defaultdict(
        lambda: {"leaders": 0, "preferred_leaders": 0, "replicas": 0, "out_of_sync": 0}
    )
    for topic in topics:
        for p in topic.partitions:
            load[p.leader]["leaders"] += 1
            for position, broker in enumerate(p.replicas):
                load[broker]["preferred_leaders"] += position == 0
                load[broker]["replicas"] += 1
                load[broker]["out_of_sync"] += broker not in p.isr
    return load


def threat_documents(plan: PlanControlledShutdownResponse) -> dict[str, list[dict[str, Any]]]:
    """`leaderless[]` and `below_min_isr[]`: the partitions a shutdown would affect."""
    return {
        "leaderless": [_threat(t) for t in plan.leaderless],
        "below_min_isr": [_threat(t) for t in plan.below_min_isr],
    }


def _threat(t: ThreatenedPartition) -> dict[str, Any]:
    return {
        "topic": t.topic,
        "partition": t.partition,
        "isr_after": t.isr_after,
        "min_insync_replicas": t.min_insync_replicas,
    }
