"""New, dead and bounced brokers, and which brokers are compatible with the finalized features."""

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerEpoch, BrokerId, FeatureRange
from cluster.znodes.cluster_wide import FinalizedFeatures
from controller.decisions.brokers.broker_changes import plan_broker_changes
from controller.decisions.configs.features import features_at_failover, incompatible_features
from tests.controllers.contexts import broker, registered


@pytest.mark.rule("BK-1")
def test_a_higher_epoch_is_a_bounce_and_a_lower_one_is_old_news() -> None:
    found = {BrokerId(b): registered(b, epoch) for b, epoch in ((1, 10), (2, 21), (3, 29), (5, 50), (4, 40))}
    known = {BrokerId(b): BrokerEpoch(epoch) for b, epoch in ((1, 10), (2, 20), (3, 30), (7, 70), (6, 60))}
    changes = plan_broker_changes(found, known)
    assert (changes.new, changes.bounced, changes.dead) == ((4, 5), (2,), (6, 7))


@pytest.mark.rule("FO-1")
@pytest.mark.parametrize(
    ("found", "versioning", "expected"),
    [
        (None, True, FinalizedFeatures(True)),
        (FinalizedFeatures(True, {"f": 2}), True, FinalizedFeatures(True, {"f": 2})),
        (FinalizedFeatures(False, {"f": 2}), True, FinalizedFeatures(True)),
        (None, False, FinalizedFeatures(False)),
        (FinalizedFeatures(True, {"f": 2}), False, FinalizedFeatures(False)),
    ],
)
def test_a_new_controller_sets_the_features_up(
    found: FinalizedFeatures | None, versioning: bool, expected: FinalizedFeatures
) -> None:
    assert features_at_failover(found, {}, versioning=versioning, version=2) == expected


@pytest.mark.rule("FT-2")
@pytest.mark.parametrize(
    ("supported", "expected"),
    [
        ({}, ("f",)),
        ({"f": FeatureRange(1, 1)}, ("f",)),
        ({"f": FeatureRange(3, 4)}, ("f",)),
        ({"f": FeatureRange(1, 2), "g": FeatureRange(1, 9)}, ()),
    ],
)
def test_a_broker_must_support_every_finalized_level(
    supported: dict[str, FeatureRange], expected: tuple[str, ...]
) -> None:
    assert incompatible_features(replace(broker(1), features=supported), {"f": 2}) == expected
    assert incompatible_features(replace(broker(1), features=supported), {}) == ()
