"""Defines the options of kafka-topics that choose partitions which are not as they should be."""

from collections.abc import Collection
from typing import Annotated

import typer

from admin.brokers_view import described_topics
from admin.partition_filters import NEED_MIN_ISR, PartitionFilter, chosen
from cluster.model.errors import StartupError
from cluster.requests.data import MetadataResponse
from cluster.requests.topics import DescribedTopic

UnderReplicatedOption = Annotated[
    bool,
    typer.Option("--under-replicated", help="Only where replicas are missing in the ISR."),
]
UnavailableOption = Annotated[bool, typer.Option("--unavailable", help="Only without an available leader.")]
UnderMinIsrOption = Annotated[
    bool,
    typer.Option("--under-min-isr", help="Only with fewer than min.insync.replicas."),
]
AtMinIsrOption = Annotated[
    bool,
    typer.Option("--at-min-isr", help="Only with exactly min.insync.replicas in sync."),
]


def filters_of(
    under_replicated: bool, unavailable: bool, under_min_isr: bool, at_min_isr: bool
) -> frozenset[PartitionFilter]:
    """Return the filters whose options were given."""
    asked = (under_replicated, unavailable, under_min_isr, at_min_isr)
    return frozenset(chosen for chosen, is_asked in zip(PartitionFilter, asked, strict=True) if is_asked)


def chosen_of_metadata(known: MetadataResponse, filters: Collection[PartitionFilter]) -> list[DescribedTopic]:
    """Choose as `chosen` does, from the metadata of brokers. Raises StartupError for filters that it cannot answer."""
    if unknown := sorted(NEED_MIN_ISR.intersection(filters)):
        options = " and ".join(f"--{name}" for name in unknown)
        raise StartupError(f"no active controller answers: only an active controller knows what {options} needs")
    return chosen(described_topics(known), filters)
