"""Alters and describes topic and broker configs in the znodes that Kafka's tools use.

Source: Kafka ZkAdminManager, ConfigHelper, AdminZkClient.changeConfigs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from cluster.aio.off_loop import off_loop
from cluster.aio.slices import in_slices
from cluster.config.client_quotas import CLIENT_QUOTA_CHECKS
from cluster.model.errors import ApiError, ErrorCode, MalformedZnodeError
from cluster.requests.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribedConfig,
)
from cluster.znodes.configs import DEFAULT_ENTITY, ConfigEntity
from cluster.zookeeper.configs import overrides_of
from controller.active_controller import ActiveController
from controller.changes import MinInsyncReplicasAltered
from controller.decisions.configs.changes import altered, check_alterations, check_broker_is_klamms, config_entity
from controller.decisions.configs.descriptions import (
    BrokerLayers,
    describe_broker_configs,
    describe_overrides,
    describe_topic_configs,
)
from controller.decisions.configs.topic_configs import min_insync_replicas
from controller.handlers.configs.writes import WrittenConfig, change_configs, unreadable

_MANY_CONFIGS: Final = 100
"""Of one resource; there are fewer keys."""
_log = structlog.stdlib.get_logger()


async def alter_configs(active: ActiveController, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Write the configs of each resource together with their change notification.

    Raises ControllerMovedError when the write is fenced; some resources may have been changed by then.
    """
    repeated = await off_loop(_repeated, request.resources)
    errors: dict[int, ApiError] = {}
    accepted: dict[ConfigEntity, AlterConfigsResource] = {}
    release = active.kafka_release
    async for position, resource in in_slices(enumerate(request.resources)):
        try:
            if _key(resource) in repeated:
                raise _named_twice()
            entity = _entity(active, resource)
            if len(resource.configs) > _MANY_CONFIGS:
                await off_loop(check_alterations, entity, resource.configs, release)
            else:
                check_alterations(entity, resource.configs, release)
        except ApiError as error:
            errors[position] = error
        else:
            accepted[entity] = resource
    changes = {entity: partial(altered, configs=resource.configs) for entity, resource in accepted.items()}
    refused = await change_configs(active, changes, partial(_record, active))
    by_resource = {_key(accepted[entity]): error for entity, error in refused.items()}
    responses: list[AlterConfigsResourceResponse] = []
    async for position, resource in in_slices(enumerate(request.resources)):
        failure = errors.get(position, by_resource.get(_key(resource)))
        responses.append(
            AlterConfigsResourceResponse(
                ErrorCode.NONE if failure is None else failure.code,
                None if failure is None else failure.message,
                resource.resource_type,
                resource.resource_name,
                () if failure is None else failure.violations,
            )
        )
    return AlterConfigsResponse(tuple(responses))


def _entity(active: ActiveController, resource: AlterConfigsResource | ConfigResource) -> ConfigEntity:
    """The entity, if there is one here. Raises ApiError."""
    entity = config_entity(resource.resource_type, resource.resource_name, active.context.topics.names)
    if active.config.governs_kafka:
        check_broker_is_klamms(entity, active.config.id, alters=isinstance(resource, AlterConfigsResource))
    return entity


def _repeated(resources: Sequence[AlterConfigsResource | ConfigResource]) -> set[tuple[int, str]]:
    return {key for key, count in Counter(map(_key, resources)).items() if count > 1}


def _named_twice() -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, "the resource is named twice", field="resource_name")


def _key(resource: AlterConfigsResource | ConfigResource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _record(active: ActiveController, written: Mapping[ConfigEntity, WrittenConfig]) -> None:
    """Log what was written, and record what the state-change log has of it (D-53)."""
    if not written:
        return
    _log.info("Configs altered", entities=[entity.path for entity in written])
    default = active.config.settings.min_insync_replicas
    values = {
        entity.name: min_insync_replicas(config.now, default)
        for entity, config in written.items()
        if entity.type == "topics"
        and min_insync_replicas(config.now, default) != min_insync_replicas(config.before, default)
    }
    if values:
        active.commit(MinInsyncReplicasAltered(values))


async def describe_configs(active: ActiveController, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe each resource; unknown topics and resource types, and what is named twice, get an error each."""
    entities: dict[int, ConfigEntity] = {}
    results: dict[int, DescribeConfigsResult] = {}
    repeated = _repeated(request.resources)
    async for position, resource in in_slices(enumerate(request.resources)):
        try:
            if _key(resource) in repeated:
                raise _named_twice()
            entities[position] = _entity(active, resource)
        except ApiError as error:
            results[position] = _failed(resource, error)
    of_controller, of_all = ConfigEntity("brokers", str(active.config.id)), ConfigEntity("brokers", DEFAULT_ENTITY)
    stored = await active.configs.read(list(dict.fromkeys([*entities.values(), of_controller, of_all])))
    layers = BrokerLayers(overrides_of(stored[of_controller]), overrides_of(stored[of_all]), active.config.settings)
    async for position, entity in in_slices(entities.items()):
        resource = request.resources[position]
        own = stored[entity]
        if isinstance(own, MalformedZnodeError):
            results[position] = _failed(resource, unreadable(entity))
            continue
        wanted = resource.configuration_keys
        if entity.type == "topics" and active.config.governs_kafka:
            # What is in force besides is in the configuration of each broker.
            configs = describe_overrides(own.overrides, wanted)
        else:
            configs = _describe(entity, own.overrides, layers, wanted)
        results[position] = DescribeConfigsResult(ErrorCode.NONE, None, *_key(resource), configs)
    return DescribeConfigsResponse(tuple(results[position] for position in range(len(request.resources))))


def _describe(
    entity: ConfigEntity, own: Mapping[str, str], layers: BrokerLayers, wanted: tuple[str, ...] | None
) -> tuple[DescribedConfig, ...]:
    if entity.type == "topics":
        return describe_topic_configs(own, layers, wanted)
    if entity.type == "clients":
        return describe_overrides(own, wanted)
    if entity.type == "users":
        # Without the credentials, which are beside them.
        return describe_overrides({key: own[key] for key in CLIENT_QUOTA_CHECKS if key in own}, wanted)
    return describe_broker_configs({} if entity.name == DEFAULT_ENTITY else own, layers.of_all, layers.file, wanted)


def _failed(resource: ConfigResource, error: ApiError) -> DescribeConfigsResult:
    return DescribeConfigsResult(error.code, error.message, *_key(resource))
