"""Topic and broker configs, quotas of clients and users, and finalized features."""

from msgspec import Struct

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode, FieldViolation
from cluster.requests.field_types import ClientItems, Int32, String
from cluster.requests.plans import Plan
from cluster.requests.request import RequestFor

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
CLIENT_RESOURCE = 64
"""The quotas of a client id. Kafka has requests of their own for them (KIP-546), and no resource of this number."""
USER_RESOURCE = 65
"""Likewise the quotas of a user, or of a user with a client id. The name is that of the znode below `/config/users`:
`ann`, `<default>`, `ann/clients/app`, each part percent-encoded.
"""
SET_CONFIG = 0
DELETE_CONFIG = 1


class ConfigResource(Struct, frozen=True):
    """`resource_type`: TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_RESOURCE or USER_RESOURCE; an empty name of a broker or
    client is the default of all.

    `configuration_keys` None: all.
    """

    resource_type: Int32
    resource_name: String
    configuration_keys: ClientItems[String] | None = None


class DescribeConfigsRequest(RequestFor["DescribeConfigsResponse"], frozen=True):
    resources: ClientItems[ConfigResource]


class DescribedConfig(Struct, frozen=True):
    """`config_source`, Kafka's numbers: 1 topic, 2 this broker, 3 cluster-wide, 4 file, 5 default."""

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

    name: String
    config_operation: Int32
    value: String | None = None


class AlterConfigsResource(Struct, frozen=True):
    resource_type: Int32
    resource_name: String
    configs: ClientItems[AlterableConfig]


class AlterConfigsRequest(RequestFor["AlterConfigsResponse"], frozen=True):
    """Alter single keys. Each resource is changed completely or not at all."""

    resources: ClientItems[AlterConfigsResource]
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct, frozen=True):
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    violations: tuple[FieldViolation, ...] = ()


class AlterConfigsResponse(Struct, frozen=True):
    """`plan`: with `validate_only` only; the configs and the elections that follow."""

    responses: tuple[AlterConfigsResourceResponse, ...]
    plan: Plan | None = None


class FeatureUpdate(Struct, frozen=True):
    """`upgrade_type`: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade. A level below 1 removes the feature."""

    feature: String
    max_version_level: Int32
    upgrade_type: Int32 = 1


class UpdateFeaturesRequest(RequestFor["UpdateFeaturesResponse"], frozen=True):
    """`validate_only` is ignored, as in Kafka's ZooKeeper mode; use PlanFeatureUpdates for a dry run."""

    feature_updates: ClientItems[FeatureUpdate]
    timeout_ms: Int32 = 60_000
    validate_only: bool = False


class UpdatableFeatureResult(Struct, frozen=True):
    feature: str
    error_code: ErrorCode
    error_message: str | None = None


class UpdateFeaturesResponse(Struct, frozen=True):
    results: tuple[UpdatableFeatureResult, ...]


class PlanFeatureUpdatesRequest(RequestFor["PlanFeatureUpdatesResponse"], frozen=True):
    """Dry run of UpdateFeatures."""

    feature_updates: ClientItems[FeatureUpdate]


class PlanFeatureUpdatesResponse(Struct, frozen=True):
    """`levels`: all finalized features after the updates."""

    results: tuple[UpdatableFeatureResult, ...]
    levels: dict[str, int] = {}


class DescribeFeaturesRequest(RequestFor["DescribeFeaturesResponse"], frozen=True):
    pass


class FeatureSupport(Struct, frozen=True):
    """The levels of a feature that one broker supports."""

    broker_id: BrokerId
    min_version_level: int
    max_version_level: int


class DescribedFeature(Struct, frozen=True):
    """`finalized_level` None: not finalized; the other levels are the controller's, None if it does not know the
    feature.
    """

    feature: str
    finalized_level: int | None
    min_version_level: int | None
    max_version_level: int | None
    brokers: tuple[FeatureSupport, ...] = ()


class DescribeFeaturesResponse(Struct, frozen=True):
    """`enabled`: whether the protocol version has finalized features."""

    enabled: bool
    features: tuple[DescribedFeature, ...] = ()
