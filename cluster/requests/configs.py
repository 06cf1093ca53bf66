"""Configurations of topics and brokers, and finalized features."""

from msgspec import Struct

from cluster.broker import BrokerId
from cluster.errors import ErrorCode, FieldViolation
from cluster.requests.plans import Plan

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
SET_CONFIG = 0
DELETE_CONFIG = 1


class ConfigResource(Struct, frozen=True):
    """`resource_type`: TOPIC_RESOURCE or BROKER_RESOURCE; an empty broker name is the default of all brokers.

    `configuration_keys` None: all.
    """

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = None


class DescribeConfigsRequest(Struct, frozen=True):
    resources: tuple[ConfigResource, ...]


class DescribedConfig(Struct, frozen=True):
    """`config_source`, Kafka's numbers: 1 topic, 2 this broker, 3 default of all brokers, 4 file, 5 built in."""

    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool = False


class DescribeConfigsResult(Struct, frozen=True):
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[DescribedConfig, ...] = ()


class DescribeConfigsResponse(Struct, frozen=True):
    results: tuple[DescribeConfigsResult, ...]


class AlterableConfig(Struct, frozen=True):
    """`config_operation`: SET_CONFIG, or DELETE_CONFIG with `value` None. Source: KIP-339."""

    name: str
    config_operation: int
    value: str | None = None


class AlterConfigsResource(Struct, frozen=True):
    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


class AlterConfigsRequest(Struct, frozen=True):
    """Change single keys and leave the others. A resource is changed as a whole or not at all."""

    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct, frozen=True):
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    violations: tuple[FieldViolation, ...] = ()


class AlterConfigsResponse(Struct, frozen=True):
    """`plan`, with `validate_only` only: the settings, and the elections that they lead to."""

    responses: tuple[AlterConfigsResourceResponse, ...]
    plan: Plan | None = None


class FeatureUpdate(Struct, frozen=True):
    """`upgrade_type`: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade. A level below 1 removes the feature."""

    feature: str
    max_version_level: int
    upgrade_type: int = 1


class UpdateFeaturesRequest(Struct, frozen=True):
    """`validate_only` is not honoured, as in Kafka's ZooKeeper mode; PlanFeatureUpdates tells without doing."""

    feature_updates: tuple[FeatureUpdate, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


class UpdatableFeatureResult(Struct, frozen=True):
    feature: str
    error_code: ErrorCode
    error_message: str | None = None


class UpdateFeaturesResponse(Struct, frozen=True):
    results: tuple[UpdatableFeatureResult, ...]


class PlanFeatureUpdatesRequest(Struct, frozen=True):
    """What UpdateFeatures would do. Nothing is changed."""

    feature_updates: tuple[FeatureUpdate, ...]


class PlanFeatureUpdatesResponse(Struct, frozen=True):
    """`levels`: all finalized features as they would be."""

    results: tuple[UpdatableFeatureResult, ...]
    levels: dict[str, int] = {}


class DescribeFeaturesRequest(Struct, frozen=True):
    pass


class FeatureSupport(Struct, frozen=True):
    """Levels of a feature that one broker supports."""

    broker_id: BrokerId
    min_version_level: int
    max_version_level: int


class DescribedFeature(Struct, frozen=True):
    """`finalized_level` None: not finalized; the other levels are the controller's, None where it does not know it."""

    feature: str
    finalized_level: int | None
    min_version_level: int | None
    max_version_level: int | None
    brokers: tuple[FeatureSupport, ...] = ()


class DescribeFeaturesResponse(Struct, frozen=True):
    """`enabled`: whether the protocol version finalizes features at all."""

    enabled: bool
    features: tuple[DescribedFeature, ...] = ()
