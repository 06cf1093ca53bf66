"""Finalized features: validation, update and description."""

import asyncio
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from cluster.model.broker import Broker, BrokerId, FeatureRange
from cluster.model.errors import ApiError, ErrorCode, ZooKeeperError
from cluster.model.protocol_version import ProtocolVersion
from cluster.requests.configs import (
    DescribedFeature,
    DescribeFeaturesRequest,
    DescribeFeaturesResponse,
    FeatureSupport,
    FeatureUpdate,
    PlanFeatureUpdatesRequest,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from cluster.znodes.cluster_wide import FinalizedFeatures, decode_features, encode_features
from cluster.znodes.paths import FEATURE, broker_path
from cluster.znodes.registrations import encode_broker
from cluster.zookeeper.port import SetData, ZkError
from controller.apis import APIS
from controller.decisions.configs.features import features_at_failover, plan_feature_updates
from controller.event_loop import preempt
from controller.request_events import RequestEvent
from tests.controllers.contexts import broker
from tests.controllers.elections import cluster
from tests.controllers.fault_injection import FaultInjector
from tests.controllers.worlds import RunningController, World, quiesce, run_virtually, until

E = ErrorCode
SUPPORTED = {"f": FeatureRange(1, 5), "g": FeatureRange(2, 3)}


def capable(number: int, **ranges: FeatureRange) -> Broker:
    return replace(broker(number), features=ranges)


@pytest.mark.rule("FT-3")
@pytest.mark.parametrize(
    ("update", "why"),
    [
        (FeatureUpdate("f", 4), None),
        (FeatureUpdate("f", 2, 2), None),
        (FeatureUpdate("f", 0, 2), None),
        (FeatureUpdate("f", 0, 3), None),
        (FeatureUpdate("f", -1, 3), None),
        (FeatureUpdate("g", 2), None),
        (FeatureUpdate("g", 2, 2), None),
        (FeatureUpdate("g", 2, 3), None),
        (FeatureUpdate("", 4), "no name"),
        (FeatureUpdate("f", 4, 0), "type 0 is unknown"),
        (FeatureUpdate("f", 4, 4), "type 4 is unknown"),
        (FeatureUpdate("g", 0, 2), "not finalized"),
        (FeatureUpdate("f", 0, 1), "is a downgrade"),
        (FeatureUpdate("f", 3), "at level 3 already"),
        (FeatureUpdate("f", 2, 1), "no safe downgrade"),
        (FeatureUpdate("f", 2, 3), "no safe downgrade"),
        (FeatureUpdate("f", 4, 2), "no upgrade"),
        (FeatureUpdate("h", 1), "does not support the feature"),
        (FeatureUpdate("f", 6), "supports levels 1 to 5"),
        (FeatureUpdate("g", 1), "supports levels 2 to 3"),
        (FeatureUpdate("f", 5), "brokers [2] do not support"),
        (FeatureUpdate("g", 3), "brokers [1, 2] do not support"),
    ],
)
def test_each_feature_update_is_checked_by_itself(update: FeatureUpdate, why: str | None) -> None:
    brokers = [
        capable(1, f=FeatureRange(1, 5), g=FeatureRange(1, 2)),
        capable(2, f=FeatureRange(1, 4), g=FeatureRange(1, 2)),
    ]
    plan = plan_feature_updates([update], {"f": 3}, SUPPORTED, brokers)
    (refusal,) = plan.refusals
    if why is None:
        assert refusal is None
        level = update.max_version_level
        expected = {"f": 3} | {update.feature: level}
        assert plan.levels == {name: level for name, level in expected.items() if level >= 1}
    else:
        assert refusal is not None
        assert why in refusal
        assert plan.levels == {"f": 3}


@pytest.mark.rule("FO-1")
@pytest.mark.parametrize(
    ("found", "versioning", "expected"),
    [
        (None, True, FinalizedFeatures(True, {"f": 5, "g": 3})),
        (FinalizedFeatures(True, {"f": 2}), True, FinalizedFeatures(True, {"f": 2})),
        (FinalizedFeatures(True, {"f": 2}, version=1), True, FinalizedFeatures(True, {"f": 2})),
        (FinalizedFeatures(False, {"f": 2}), True, FinalizedFeatures(True)),
        (None, False, FinalizedFeatures(False)),
        (FinalizedFeatures(True, {"f": 2}), False, FinalizedFeatures(False)),
    ],
)
def test_a_new_cluster_starts_with_all_that_its_controller_supports(
    found: FinalizedFeatures | None, versioning: bool, expected: FinalizedFeatures
) -> None:
    assert features_at_failover(found, SUPPORTED, versioning=versioning, version=2) == expected


async def features(world: World) -> FinalizedFeatures:
    znode = await world.tool.get(FEATURE)
    assert znode is not None
    return decode_features(znode.data)


async def update(c: RunningController, *updates: FeatureUpdate) -> Mapping[str, ErrorCode]:
    answer = await c.ask(UpdateFeaturesRequest(updates))
    assert isinstance(answer, UpdateFeaturesResponse)
    return {result.feature: result.error_code for result in answer.results}


@pytest.mark.rule("FT-3", "FT-4", "FT-1", "D-17")
def test_valid_updates_are_written_together_and_each_has_its_own_result() -> None:
    async def main() -> None:
        world, c = await cluster(supported_features=SUPPORTED)
        await world.start_broker(1)
        await quiesce()
        assert c.context.brokers.live_ids == set()
        record = encode_broker(capable(1, f=FeatureRange(1, 5), g=FeatureRange(1, 5)), 1)
        await world.write(SetData(broker_path(BrokerId(1)), record))
        await until(lambda: c.context.brokers.live_ids == {1})
        assert await features(world) == FinalizedFeatures(True, {"f": 5, "g": 3})
        interfering = FaultInjector(c, FEATURE)
        results = await update(c, FeatureUpdate("f", 4, 2), FeatureUpdate("g", 0, 3), FeatureUpdate("h", 1))
        assert results == {"f": E.NONE, "g": E.NONE, "h": E.INVALID_REQUEST}
        assert await features(world) == FinalizedFeatures(True, {"f": 4})
        assert interfering.attempts == 1
        # What was written counts at once.
        assert await update(c, FeatureUpdate("f", 4)) == {"f": E.INVALID_REQUEST}
        assert interfering.attempts == 1
        assert await update(c, FeatureUpdate("f", 5), FeatureUpdate("g", 2)) == {"f": E.NONE, "g": E.NONE}
        assert await features(world) == FinalizedFeatures(True, {"f": 5, "g": 2})
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("FT-3", "FT-4")
def test_what_an_update_would_come_to_is_given_without_a_write() -> None:
    async def main() -> None:
        world, c = await cluster(supported_features=SUPPORTED)
        interfering = FaultInjector(c, FEATURE)
        wanted = (FeatureUpdate("f", 4, 2), FeatureUpdate("g", 0, 3), FeatureUpdate("h", 1))
        plan = await c.ask(PlanFeatureUpdatesRequest(wanted))
        assert interfering.attempts == 0
        assert plan.levels == {"f": 4}
        assert plan.results == (await c.ask(UpdateFeaturesRequest(wanted))).results
        assert (await features(world)).levels == plan.levels
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("FT-2")
def test_features_are_described_with_everybody_who_supports_them() -> None:
    async def main() -> None:
        world, c = await cluster(supported_features={"f": FeatureRange(1, 5)})
        record = encode_broker(capable(7, f=FeatureRange(1, 6), h=FeatureRange(2, 3)), 1)
        await world.start_broker(7)
        await world.write(SetData(broker_path(BrokerId(7)), record))
        await until(lambda: c.context.brokers.live_ids == {7})
        assert await c.ask(DescribeFeaturesRequest()) == DescribeFeaturesResponse(
            True,
            (
                DescribedFeature("f", 5, 1, 5, (FeatureSupport(BrokerId(7), 1, 6),)),
                DescribedFeature("h", None, None, None, (FeatureSupport(BrokerId(7), 2, 3),)),
            ),
        )
        await c.stop()
        _, old = await cluster(protocol_version=ProtocolVersion.parse("2.6"))
        assert await old.ask(DescribeFeaturesRequest()) == DescribeFeaturesResponse(enabled=False)
        with pytest.raises(ApiError, match="INVALID_REQUEST"):
            await old.ask(PlanFeatureUpdatesRequest(()))
        await old.stop()

    run_virtually(main)


@pytest.mark.rule("FT-4")
def test_when_the_write_fails_the_valid_updates_fail_and_the_others_keep_their_error() -> None:
    async def main() -> None:
        _, c = await cluster(supported_features=SUPPORTED)
        FaultInjector(c, FEATURE, ZooKeeperError("no"), ZkError.NO_AUTH)
        for _ in range(2):
            results = await update(c, FeatureUpdate("f", 4, 2), FeatureUpdate("h", 1))
            assert results == {"f": E.FEATURE_UPDATE_FAILED, "h": E.INVALID_REQUEST}
        assert await update(c, FeatureUpdate("f", 4, 2)) == {"f": E.NONE}
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("FT-3", "D-7")
def test_without_versioning_nothing_is_finalized_and_while_not_active_nothing_is_answered() -> None:
    async def main() -> None:
        world, c = await cluster(protocol_version=ProtocolVersion.parse("2.6"), supported_features=SUPPORTED)
        with pytest.raises(ApiError, match="INVALID_REQUEST"):
            await update(c, FeatureUpdate("f", 4))
        standby = world.start_controller(1002)
        await quiesce()
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            await update(standby, FeatureUpdate("f", 4))
        preempted: asyncio.Future[UpdateFeaturesResponse] = asyncio.get_running_loop().create_future()
        preempt(RequestEvent(APIS[UpdateFeaturesRequest], UpdateFeaturesRequest(()), preempted))
        with pytest.raises(ApiError, match="NOT_CONTROLLER"):
            await preempted
        await standby.stop()
        await c.stop()

    run_virtually(main)


@pytest.mark.rule("FT-4")
def test_a_node_that_is_missing_disabled_or_malformed_meanwhile() -> None:
    async def main() -> None:
        world, c = await cluster(supported_features=SUPPORTED)
        await world.write(SetData(FEATURE, encode_features(FinalizedFeatures(False, {"g": 2}))))
        assert await update(c, FeatureUpdate("f", 2)) == {"f": E.NONE}
        assert await features(world) == FinalizedFeatures(True, {"f": 2})
        await world.delete(FEATURE)
        assert await update(c, FeatureUpdate("g", 2)) == {"g": E.NONE}
        assert await features(world) == FinalizedFeatures(True, {"g": 2})
        for malformed in (b"no json", b'{"version":2,"status":1}'):
            await world.write(SetData(FEATURE, malformed))
            with pytest.raises(ApiError, match="malformed"):
                await update(c, FeatureUpdate("f", 2))
        await c.stop()
        # It could be repaired: levels that somebody finalized are not to be lost.
        second = world.start_controller(1002, supported_features=SUPPORTED)
        await until(lambda: second.is_active, "active")
        znode = await world.tool.get(FEATURE)
        assert znode is not None
        assert znode.data == malformed
        await second.stop()

    run_virtually(main)
