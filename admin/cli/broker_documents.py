"""Writes what is known of brokers: description, load, impact of a controlled shutdown, configs with their source."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import asdict

from cluster.cli.documents import write_table
from cluster.model.broker import UNKNOWN_BROKER_EPOCH
from cluster.requests.cluster import DescribeClusterResponse, DescribedBroker
from cluster.requests.configs import DescribedConfig
from cluster.requests.elections import PlanControlledShutdownResponse
from cluster.requests.topics import DescribedTopic

_SOURCES: Final = {1: "topic", 2: "broker", 3: "default of brokers", 4: "file", 5: "default"}
BROKER_COLUMNS: Final = ("id", "address", "rack", "epoch", "state")


def broker_document(b: DescribedBroker) -> dict[str, Any]:
    epoch = None if b.epoch == UNKNOWN_BROKER_EPOCH else b.epoch
    return {"id": b.id, "address": b.endpoint.address, "rack": b.rack, "epoch": epoch, "state": b.state}


def all_broker_documents(described: DescribeClusterResponse) -> list[dict[str, Any]]:
    """Describe all brokers by id, with those that host replicas and are not registered."""
    dead = ({"id": b, "address": None, "rack": None, "epoch": None, "state": "dead"} for b in described.dead_brokers)
    return sorted((*map(broker_document, described.brokers), *dead), key=lambda document: int(document["id"]))


def by_registration(documents: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Divide documents of brokers into `brokers`, the registered ones as programs expect, and `dead_brokers`."""
    return {
        "brokers": [document for document in documents if document["state"] != "dead"],
        "dead_brokers": [document for document in documents if document["state"] == "dead"],
    }


def load_of_brokers(topics: Sequence[DescribedTopic]) -> dict[int, dict[str, int]]:
    """Count for each broker the partitions that it leads, is preferred leader of, hosts, and hosts out of sync."""
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
    """List the partitions that a shutdown would affect, as `leaderless[]` and `below_min_isr[]`."""
    return {"leaderless": list(map(asdict, plan.leaderless)), "below_min_isr": list(map(asdict, plan.below_min_isr))}


def config_documents(configs: Sequence[DescribedConfig]) -> list[dict[str, Any]]:
    return [
        {
            "name": c.name,
            "value": c.value,
            "source": _SOURCES.get(c.config_source, str(c.config_source)),
            "read_only": c.read_only,
        }
        for c in sorted(configs, key=lambda c: c.name)
    ]


def write_configs(configs: list[dict[str, Any]]) -> None:
    """Write a table of what `config_documents` returned."""
    write_table(("config", "value", "source"), ((c["name"], c["value"], c["source"]) for c in configs))
