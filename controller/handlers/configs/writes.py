"""Changes config znodes that others may change at the same time: each from what it is read as."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from cluster.aio.slices import in_slices
from cluster.model.errors import ApiError, ErrorCode
from cluster.znodes.configs import ConfigEntity
from cluster.zookeeper.configs import StoredConfig
from controller.active_controller import ActiveController
from controller.fenced_writes import Conflict, Outcome, Written

_ATTEMPTS: Final = 5
"""Attempts to write a config znode that others change at the same time."""

ConfigChange = Callable[[Mapping[str, str]], dict[str, str]]
"""The overrides after a change; raises ApiError if they cannot be changed so."""


class WrittenConfig(Struct, frozen=True):
    """The overrides of an entity before and after the change that was written."""

    before: Mapping[str, str]
    now: Mapping[str, str]


async def change_configs(
    active: ActiveController,
    changes: Mapping[ConfigEntity, ConfigChange],
    written: Callable[[Mapping[ConfigEntity, WrittenConfig]], None],
) -> dict[ConfigEntity, ApiError]:
    """Write each change with its notification, and return the error of each entity that is not changed.

    `written` is called with what was changed, after each write. Raises ControllerMovedError when one is fenced.
    """
    errors: dict[ConfigEntity, ApiError] = {}
    left = list(changes)
    for _ in range(_ATTEMPTS):
        wanted: dict[ConfigEntity, tuple[StoredConfig, StoredConfig]] = {}
        async for entity, found in in_slices((await active.configs.read(left)).items()):
            if not isinstance(found, StoredConfig):
                errors[entity] = unreadable(entity)
                continue
            try:
                wanted[entity] = (found, StoredConfig(changes[entity](found.overrides), found.version))
            except ApiError as error:
                errors[entity] = error
        outcomes = await active.configs.write({entity: now for entity, (_, now) in wanted.items()})
        written(
            {
                entity: WrittenConfig(*(config.overrides for config in wanted[entity]))
                for entity, outcome in outcomes.items()
                if isinstance(outcome, Written)
            }
        )
        errors |= {e: _refusal(o) for e, o in outcomes.items() if not isinstance(o, Written | Conflict)}
        left = [entity for entity, outcome in outcomes.items() if isinstance(outcome, Conflict)]
        if not left:
            return errors
    return errors | {e: ApiError(ErrorCode.OPERATION_NOT_ATTEMPTED, f"{e.path} keeps changing") for e in left}


def _refusal(outcome: Outcome) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper refused: {outcome}")


def unreadable(entity: ConfigEntity) -> ApiError:
    """The error for an entity whose config znode is malformed."""
    return ApiError(ErrorCode.INVALID_CONFIG, f"{entity.path} cannot be read")
