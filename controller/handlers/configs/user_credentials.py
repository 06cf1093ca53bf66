"""Alters the SCRAM credentials of users in the znodes that brokers of Apache Kafka read.

Source: Kafka ZkAdminManager.alterUserScramCredentials; KIP-554.
"""

from collections.abc import Mapping
from functools import partial

import structlog

from cluster.aio.off_loop import off_loop
from cluster.aio.slices import in_slices
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from cluster.znodes.configs import ConfigEntity
from controller.active_controller import ActiveController
from controller.decisions.configs.user_credentials import refused_users, user_entity, with_credentials
from controller.handlers.configs.writes import ConfigChange, WrittenConfig, change_configs

_log = structlog.stdlib.get_logger()


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
