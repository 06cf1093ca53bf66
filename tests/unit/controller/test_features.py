"""Finalized features: those of a new cluster, compatible brokers, and allowed levels."""

from collections.abc import Mapping

import pytest

from cluster.model.broker import Broker, BrokerId, Endpoint, FeatureRange
from cluster.requests.configs import DescribedFeature, FeatureSupport, FeatureUpdate
from cluster.znodes.cluster_wide import FinalizedFeatures
from controller.decisions.configs.features import (
    describe,
    features_at_failover,
    incompatible_features,
    plan_feature_updates,
)

ONE = BrokerId(1)


def with_features(number: int, **features: FeatureRange) -> Broker:
    return Broker(BrokerId(number), (Endpoint(f"host{number}", 9092),), features=features)


@pytest.mark.rule("FT-2")
@pytest.mark.parametrize(
    ("levels", "lacking"),
    [
        ({}, ()),
        ({"f": 1}, ()),
        ({"f": 3}, ()),
        ({"f": 0}, ("f",)),
        ({"f": 4}, ("f",)),
        ({"z": 1, "f": 4, "f2": 1}, ("f", "f2", "z")),
    ],
)
def test_a_broker_must_know_every_finalized_feature_at_its_level(
    levels: dict[str, int], lacking: tuple[str, ...]
) -> None:
    assert incompatible_features(with_features(1, f=FeatureRange(1, 3)), levels) == lacking


def test_features_are_described_with_all_that_is_known_of_them_and_by_whom() -> None:
    brokers = [with_features(2, f=FeatureRange(1, 2), alien=FeatureRange(0, 7)), with_features(1, f=FeatureRange(1, 3))]
    described = describe({"f": 2, "gone": 1}, {"f": FeatureRange(1, 5), "own": FeatureRange(2, 3)}, brokers)
    assert described == (
        DescribedFeature("alien", None, None, None, (FeatureSupport(BrokerId(2), 0, 7),)),
        DescribedFeature("f", 2, 1, 5, (FeatureSupport(ONE, 1, 3), FeatureSupport(BrokerId(2), 1, 2))),
        DescribedFeature("gone", 1, None, None),
        DescribedFeature("own", None, 2, 3),
    )


@pytest.mark.rule("FO-1")
def test_a_new_cluster_finalizes_the_highest_levels_of_this_process() -> None:
    supported = {"f": FeatureRange(1, 3)}
    made = features_at_failover(None, supported, versioning=True, version=2)
    assert made == FinalizedFeatures(enabled=True, levels={"f": 3}, version=2)
    kept = FinalizedFeatures(enabled=True, levels={"f": 2}, version=1)
    upgraded = features_at_failover(kept, supported, versioning=True, version=2)
    assert upgraded == FinalizedFeatures(enabled=True, levels={"f": 2}, version=2)
    for found, versioning in ((None, True), (kept, True), (FinalizedFeatures(enabled=False), True), (kept, False)):
        assert features_at_failover(found, supported, versioning=versioning, version=1).version == 1


SUPPORTED: Mapping[str, FeatureRange] = {"f": FeatureRange(1, 5), "g": FeatureRange(2, 3), "lone": FeatureRange(1, 9)}
BROKERS = (
    with_features(2, f=FeatureRange(1, 4), g=FeatureRange(1, 3), lone=FeatureRange(1, 1)),
    with_features(1, f=FeatureRange(1, 5), g=FeatureRange(1, 3)),
)
UP, SAFE, UNSAFE = 1, 2, 3


@pytest.mark.rule("FT-3")
@pytest.mark.parametrize(
    ("update", "refusal"),
    [
        (FeatureUpdate("f", 3, UP), None),
        (FeatureUpdate("f", 4, UP), None),
        (FeatureUpdate("f", 1, SAFE), None),
        (FeatureUpdate("f", 0, SAFE), None),
        (FeatureUpdate("f", 0, UNSAFE), None),
        (FeatureUpdate("g", 2, UP), None),
        (FeatureUpdate("", 3, UP), "the feature has no name"),
        (FeatureUpdate("f", 3, 0), "upgrade type 0 is unknown"),
        (FeatureUpdate("f", 3, 4), "upgrade type 4 is unknown"),
        (FeatureUpdate("f", 0, UP), "a level below 1 removes the feature, which is a downgrade"),
        (FeatureUpdate("g", 0, SAFE), "the feature is not finalized"),
        (FeatureUpdate("f", 2, UP), "the feature is at level 2 already"),
        (FeatureUpdate("f", 1, UP), "level 1 is below the present 2, and no safe downgrade is asked for"),
        (FeatureUpdate("f", 1, UNSAFE), "level 1 is below the present 2, and no safe downgrade is asked for"),
        (FeatureUpdate("f", 3, SAFE), "level 3 is above the present one, and no upgrade is asked for"),
        (FeatureUpdate("g", 2, SAFE), None),
        (FeatureUpdate("nobody", 1, UP), "this controller does not support the feature"),
        (FeatureUpdate("f", 6, UP), "this controller supports levels 1 to 5"),
        (FeatureUpdate("g", 1, UP), "this controller supports levels 2 to 3"),
        (FeatureUpdate("f", 5, UP), "brokers [2] do not support the level"),
        (FeatureUpdate("lone", 2, UP), "brokers [1, 2] do not support the level"),
    ],
)
def test_each_update_of_a_feature_is_checked_alone(update: FeatureUpdate, refusal: str | None) -> None:
    plan = plan_feature_updates([update], {"f": 2}, SUPPORTED, BROKERS)
    assert plan.refusals == (refusal,)
    if refusal is not None:
        assert plan.levels == {"f": 2}


@pytest.mark.rule("FT-4", "D-17")
def test_the_valid_updates_make_the_new_levels_together() -> None:
    updates = [FeatureUpdate("f", 0, UP), FeatureUpdate("f", 0, SAFE), FeatureUpdate("g", 3, UP)]
    plan = plan_feature_updates(updates, {"f": 2, "old": 1}, SUPPORTED, BROKERS)
    assert plan.levels == {"old": 1, "g": 3}
    assert [refusal is None for refusal in plan.refusals] == [False, True, True]
    lowered = plan_feature_updates([FeatureUpdate("f", 1, SAFE)], {"f": 2}, SUPPORTED, BROKERS)
    assert lowered.levels == {"f": 1}
    twice = plan_feature_updates([FeatureUpdate("f", 0, SAFE)] * 2, {"f": 2}, SUPPORTED, BROKERS)
    assert (twice.levels, twice.refusals) == ({}, (None, None))
