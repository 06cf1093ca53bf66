"""Finalized features: initialised on controller failover, changed by UpdateFeatures requests.

Source: Kafka KafkaController.setupFeatureVersioning, processFeatureUpdates; KIP-584.
"""

import structlog

from cluster.model.errors import ApiError, ErrorCode, MalformedZnodeError, SessionExpiredError, ZooKeeperError
from cluster.requests.configs import (
    DescribeFeaturesRequest,
    DescribeFeaturesResponse,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from cluster.znodes.cluster_wide import FinalizedFeatures
from controller.active_controller import ActiveController
from controller.decisions.configs.features import describe, features_at_failover, plan_feature_updates

_log = structlog.stdlib.get_logger()


async def set_up_features(active: ActiveController) -> None:
    """Initialise `/feature` as the protocol version requires (FO-1).

    The controller reads the znode whenever it needs it, so there is no cache to wait for (FT-1).
    """
    version = active.config.protocol_version
    try:
        found = await active.unfenced.read_features()
    except MalformedZnodeError as error:
        # Not overwritten: that could lose levels finalized by an operator.
        _log.error("Reading finalized features failed; assuming none", error=str(error))
        return
    wanted = features_at_failover(
        found, active.config.supported_features, versioning=version.has_features, version=version.feature_znode_version
    )
    if wanted != found:
        await active.unfenced.write_features(wanted, exists=found is not None)


async def update_features(active: ActiveController, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Apply the valid updates in one write, with one result per feature (FT-3, FT-4, D-17).

    Raises ApiError if the protocol version has no feature versioning, MalformedZnodeError if `/feature` is malformed.
    """
    version = active.config.protocol_version
    found = await _read_versioned(active)
    finalized = finalized_levels(found)
    supported, brokers = active.config.supported_features, active.context.brokers.registered.values()
    plan = plan_feature_updates(request.feature_updates, finalized, supported, brokers)
    failure: str | None = None
    if plan.levels != finalized:
        wanted = FinalizedFeatures(enabled=True, levels=plan.levels, version=version.feature_znode_version)
        try:
            await active.unfenced.write_features(wanted, exists=found is not None)
        except SessionExpiredError:
            raise
        except ZooKeeperError as error:
            failure = str(error)
        _log.info("Features updated", levels=plan.levels, before=finalized, failure=failure)
    return UpdateFeaturesResponse(
        tuple(
            _result(update.feature, refusal, failure)
            for update, refusal in zip(request.feature_updates, plan.refusals, strict=True)
        )
    )


async def describe_features(active: ActiveController, _request: DescribeFeaturesRequest) -> DescribeFeaturesResponse:
    """Describe every feature finalized, or supported by this controller or a registered broker, sorted by name."""
    if not active.config.protocol_version.has_features:
        return DescribeFeaturesResponse(enabled=False)
    finalized = finalized_levels(await active.unfenced.read_features())
    features = describe(finalized, active.config.supported_features, active.context.brokers.registered.values())
    return DescribeFeaturesResponse(True, features)


async def _read_versioned(active: ActiveController) -> FinalizedFeatures | None:
    version = active.config.protocol_version
    if not version.has_features:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"protocol version {version} does not version features")
    return await active.unfenced.read_features()


def finalized_levels(found: FinalizedFeatures | None) -> dict[str, int]:
    return found.levels if found is not None and found.enabled else {}


def _result(feature: str, refusal: str | None, failure: str | None) -> UpdatableFeatureResult:
    if refusal is not None:
        return UpdatableFeatureResult(feature, ErrorCode.INVALID_REQUEST, refusal)
    if failure is not None:
        return UpdatableFeatureResult(feature, ErrorCode.FEATURE_UPDATE_FAILED, failure)
    return UpdatableFeatureResult(feature, ErrorCode.NONE)
