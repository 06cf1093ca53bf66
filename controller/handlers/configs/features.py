"""Finalized features: initialised on controller failover, changed by UpdateFeatures requests.

Source: Kafka KafkaController.setupFeatureVersioning, processFeatureUpdates; KIP-584.
"""

from collections.abc import Mapping, Sequence

import structlog

from cluster.errors import ApiError, ErrorCode, MalformedZnodeError, SessionExpiredError, ZooKeeperError
from cluster.requests.configs import (
    DescribeFeaturesRequest,
    DescribeFeaturesResponse,
    FeatureUpdate,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from cluster.znodes.cluster_wide import FinalizedFeatures
from controller.active_controller import ActiveController
from controller.decisions.configs.features import FeaturePlan, describe, features_at_failover, plan_feature_updates

_log = structlog.stdlib.get_logger()


async def set_up_features(active: ActiveController) -> None:
    """Bring `/feature` into the form that the protocol version asks for (FO-1).

    This controller reads the node whenever it needs it, so there is no cache to wait for (FT-1).
    """
    version = active.config.protocol_version
    try:
        found = await active.unfenced.read_features()
    except MalformedZnodeError as error:
        # Left as it is: overwriting it could lose levels that an operator finalized.
        _log.error("Finalized features are unreadable and count as none", error=str(error))
        return
    wanted = features_at_failover(
        found, active.config.supported_features, versioning=version.has_features, version=version.feature_znode_version
    )
    if wanted != found:
        await active.unfenced.write_features(wanted, exists=found is not None)


async def update_features(active: ActiveController, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Apply the valid updates in one write; each has its own result (FT-3, FT-4, D-17).

    Raises ApiError when features are not versioned here, MalformedZnodeError when the present ones are unreadable.
    """
    version = active.config.protocol_version
    found = await _read_versioned(active)
    finalized = finalized_levels(found)
    plan = _plan(active, request.feature_updates, finalized)
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
    """Every feature that is finalized, or known to this controller or a registered broker, by name."""
    if not active.config.protocol_version.has_features:
        return DescribeFeaturesResponse(enabled=False)
    finalized = finalized_levels(await active.unfenced.read_features())
    features = describe(finalized, active.config.supported_features, active.context.brokers.values())
    return DescribeFeaturesResponse(True, features)


async def _read_versioned(active: ActiveController) -> FinalizedFeatures | None:
    version = active.config.protocol_version
    if not version.has_features:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"protocol version {version} does not version features")
    return await active.unfenced.read_features()


def finalized_levels(found: FinalizedFeatures | None) -> dict[str, int]:
    return found.levels if found is not None and found.enabled else {}


def _plan(active: ActiveController, updates: Sequence[FeatureUpdate], finalized: Mapping[str, int]) -> FeaturePlan:
    return plan_feature_updates(updates, finalized, active.config.supported_features, active.context.brokers.values())


def _result(feature: str, refusal: str | None, failure: str | None) -> UpdatableFeatureResult:
    if refusal is not None:
        return UpdatableFeatureResult(feature, ErrorCode.INVALID_REQUEST, refusal)
    if failure is not None:
        return UpdatableFeatureResult(feature, ErrorCode.FEATURE_UPDATE_FAILED, failure)
    return UpdatableFeatureResult(feature, ErrorCode.NONE)
