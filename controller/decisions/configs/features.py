"""Finalized features: initial content of `/feature`, broker admission, and feature updates.

Source: Kafka KafkaController.setupFeatureVersioning, processFeatureUpdates; KIP-584.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from cluster.model.broker import Broker, FeatureRange
from cluster.requests.configs import DescribedFeature, FeatureSupport, FeatureUpdate
from cluster.znodes.cluster_wide import FinalizedFeatures

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
_DOWNGRADES: Final = (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)


def features_at_failover(
    found: FinalizedFeatures | None, supported: Mapping[str, FeatureRange], *, versioning: bool, version: int
) -> FinalizedFeatures:
    """The required content of `/feature` after a controller failover; `found` is None if the znode is missing (FO-1).

    A new cluster finalizes all features that this process supports, at the highest level. A cluster without versioning
    so far finalizes none, as the features of its brokers are unknown. `version`: format version to write.
    """
    if not versioning:
        return FinalizedFeatures(enabled=False, version=version)
    if found is None:
        levels = {name: range_.max_version for name, range_ in supported.items()}
        return FinalizedFeatures(enabled=True, levels=levels, version=version)
    if not found.enabled:
        return FinalizedFeatures(enabled=True, version=version)
    return FinalizedFeatures(enabled=True, levels=found.levels, version=version)


def incompatible_features(broker: Broker, finalized: Mapping[str, int]) -> tuple[str, ...]:
    """Finalized features that the broker does not support at their level, sorted (FT-2)."""
    return tuple(
        name
        for name, level in sorted(finalized.items())
        if (supported := broker.features.get(name)) is None
        or not supported.min_version <= level <= supported.max_version
    )


def describe(
    finalized: Mapping[str, int], supported: Mapping[str, FeatureRange], brokers: Iterable[Broker]
) -> tuple[DescribedFeature, ...]:
    """Every known feature, sorted by name, with the brokers that support it, sorted by id."""
    registered = sorted(brokers, key=lambda broker: broker.id)
    names = {*finalized, *supported, *(name for broker in registered for name in broker.features)}
    described: list[DescribedFeature] = []
    for name in sorted(names):
        own = supported.get(name)
        support = tuple(
            FeatureSupport(broker.id, range_.min_version, range_.max_version)
            for broker in registered
            if (range_ := broker.features.get(name)) is not None
        )
        least, most = (None, None) if own is None else (own.min_version, own.max_version)
        described.append(DescribedFeature(name, finalized.get(name), least, most, support))
    return tuple(described)


class FeaturePlan(Struct, frozen=True):
    """`levels`: all finalized features after the updates. `refusals`: one per update, None for a valid one."""

    levels: dict[str, int]
    refusals: tuple[str | None, ...]


def plan_feature_updates(
    updates: Iterable[FeatureUpdate],
    finalized: Mapping[str, int],
    supported: Mapping[str, FeatureRange],
    brokers: Iterable[Broker],
) -> FeaturePlan:
    """Validate each update separately; the valid ones together give the new levels (FT-3, FT-4)."""
    registered = list(brokers)
    levels = dict(finalized)
    refusals: list[str | None] = []
    for update in updates:
        refusal = _refuse_update(update, finalized, supported, registered)
        refusals.append(refusal)
        if refusal is not None:
            continue
        if update.max_version_level < 1:
            levels.pop(update.feature, None)
        else:
            levels[update.feature] = update.max_version_level
    return FeaturePlan(levels, tuple(refusals))


def _refuse_update(
    update: FeatureUpdate, finalized: Mapping[str, int], supported: Mapping[str, FeatureRange], brokers: list[Broker]
) -> str | None:
    if not update.feature:
        return "the feature has no name"
    if update.upgrade_type not in {UPGRADE, *_DOWNGRADES}:
        return f"upgrade type {update.upgrade_type} is unknown"
    current = finalized.get(update.feature)
    if update.max_version_level < 1:
        if update.upgrade_type not in _DOWNGRADES:
            return "a level below 1 removes the feature, which is a downgrade"
        return "the feature is not finalized" if current is None else None
    return _refuse_change(update, current) or _refuse_level(update, supported, brokers)


def _refuse_change(update: FeatureUpdate, current: int | None) -> str | None:
    level = update.max_version_level
    if current is None:
        # Not finalized: there is no level to compare with.
        return None
    if level == current:
        return f"the feature is at level {level} already"
    if level < current and update.upgrade_type != SAFE_DOWNGRADE:
        return f"level {level} is below the present {current}, and no safe downgrade is asked for"
    if level > current and update.upgrade_type != UPGRADE:
        return f"level {level} is above the present one, and no upgrade is asked for"
    return None


def _refuse_level(
    update: FeatureUpdate, supported: Mapping[str, FeatureRange], brokers: Iterable[Broker]
) -> str | None:
    range_ = supported.get(update.feature)
    if range_ is None:
        return "this controller does not support the feature"
    if not range_.min_version <= update.max_version_level <= range_.max_version:
        return f"this controller supports levels {range_.min_version} to {range_.max_version}"
    wanted = {update.feature: update.max_version_level}
    lacking = sorted(broker.id for broker in brokers if incompatible_features(broker, wanted))
    return f"brokers {lacking} do not support the level" if lacking else None
