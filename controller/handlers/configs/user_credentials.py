"""Describes and alters the SCRAM credentials of users in the znodes that brokers of Apache Kafka read.

Source: Kafka ZkAdminManager.describeUserScramCredentials, alterUserScramCredentials; KIP-554.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import unquote

import structlog

from cluster.aio.off_loop import off_loop
from cluster.aio.slices import in_slices
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from cluster.znodes.configs import DEFAULT_ENTITY, ConfigEntity
from cluster.znodes.paths import CONFIG_USERS
from cluster.zookeeper.configs import StoredConfig
from controller.active_controller import ActiveController
from controller.decisions.configs.user_credentials import (
    described_credentials,
    refused_users,
    user_entity,
    with_credentials,
)
from controller.handlers.configs.writes import ConfigChange, WrittenConfig, change_configs, unreadable

_NONE: Final = "Attempt to describe a user credential that does not exist"
_log = structlog.stdlib.get_logger()


async def describe_user_scram_credentials(
    active: ActiveController, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Describe which credentials the users have, as they are in ZooKeeper now; without names, all users that have any.

    A user that is named twice, or has none, gets an error.
    """
    users: Mapping[str, int] = Counter(request.users)
    entities: dict[str, ConfigEntity] = {}
    results: dict[str, DescribeUserScramCredentialsResult] = {}
    async for user, count in in_slices((users or await _all_users(active)).items()):
        try:
            if count > 1:
                twice = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
                raise ApiError(ErrorCode.DUPLICATE_RESOURCE, twice, field="users")
            entities[user] = user_entity(user)
        except ApiError as error:
            results[user] = DescribeUserScramCredentialsResult(user, error.code, error.message)
    stored = await active.configs.read(list(entities.values()))
    async for user, entity in in_slices(entities.items()):
        config = stored[entity]
        if not isinstance(config, StoredConfig):
            broken = unreadable(entity)
            results[user] = DescribeUserScramCredentialsResult(user, broken.code, broken.message)
        elif infos := described_credentials(config.overrides):
            results[user] = DescribeUserScramCredentialsResult(user, ErrorCode.NONE, None, infos)
        elif users:
            results[user] = DescribeUserScramCredentialsResult(user, ErrorCode.RESOURCE_NOT_FOUND, _NONE)
    return DescribeUserScramCredentialsResponse(tuple(results[user] for user in users or sorted(results)))


async def _all_users(active: ActiveController) -> dict[str, int]:
    (names,) = await active.reads.children_many((CONFIG_USERS,))
    return {unquote(name): 1 for name in names or () if name != DEFAULT_ENTITY}


async def alter_user_scram_credentials(
    active: ActiveController, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Write the credentials of each valid user together with the change notification; one result for each user.

    Raises ControllerMovedError when the write is fenced; some users may have been changed by then.
    """
    errors, entities, changes = await off_loop(_planned, request)
    refused = await change_configs(active, changes, _log_written)
    errors |= {user: refused[entity] for user, entity in entities.items() if entity in refused}
    return AlterUserScramCredentialsResponse(
        tuple([_result(user, errors.get(user)) async for user in in_slices(request.by_user)])
    )


def _planned(
    request: AlterUserScramCredentialsRequest,
) -> tuple[dict[str, ApiError], dict[str, ConfigEntity], dict[ConfigEntity, ConfigChange]]:
    """Decide why users are refused, and the entity and the change of each other one."""
    errors, users = refused_users(request), request.by_user
    entities = {user: user_entity(user) for user in users if user not in errors}
    changes: dict[ConfigEntity, ConfigChange] = {
        entity: partial(with_credentials, alterations=users[user]) for user, entity in entities.items()
    }
    return errors, entities, changes


def _log_written(written: Mapping[ConfigEntity, WrittenConfig]) -> None:
    if written:
        _log.info("SCRAM credentials altered", entities=[entity.path for entity in written])


def _result(user: str, error: ApiError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user, ErrorCode.NONE)
    return AlterUserScramCredentialsResult(user, error.code, error.message)
