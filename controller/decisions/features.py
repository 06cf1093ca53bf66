"""Finalized features: what a new controller makes of `/feature`, and which brokers may take part.

This process supports no feature of its own, so a new cluster starts with none finalized.
Source: Kafka KafkaController.setupFeatureVersioning; KIP-584.
"""

from collections.abc import Mapping

from cluster.broker import Broker
from cluster.znodes import FinalizedFeatures


def features_at_failover(found: FinalizedFeatures | None, *, versioning: bool) -> FinalizedFeatures:
    """What `/feature` must say once a controller is in office; `found` is None for an absent node (FO-1)."""
    if not versioning:
        return FinalizedFeatures(enabled=False)
    if found is None or not found.enabled:
        return FinalizedFeatures(enabled=True)
    return found


def incompatible_features(broker: Broker, finalized: Mapping[str, int]) -> tuple[str, ...]:
    """Finalized features that the broker does not know or whose level is outside its range, sorted (FT-2)."""
    return tuple(
        name
        for name, level in sorted(finalized.items())
        if (supported := broker.features.get(name)) is None
        or not supported.min_version <= level <= supported.max_version
    )
