"""Types of settings: bounds, spellings, and values that are accepted only where they have the effect that they name."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from cluster.model.protocol_version import ProtocolVersion

INT64_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1
BACKGROUND_THREADS: Final = 10


def _refuse_bool(value: object) -> object:
    # TOML and JSON tell booleans from numbers, Python does not: without this, `true` would read as 1.
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _refuse_true(value: bool) -> bool:
    if value:
        raise ValueError("must be false: topics are created on request only")
    return value


def _upper_case(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _refuse_another_size(value: int) -> int:
    if value != BACKGROUND_THREADS:
        raise ValueError(f"must be {BACKGROUND_THREADS}: work in the background has no threads of its own")
    return value


def _check_policies(value: str) -> str:
    policies = [part.strip() for part in value.split(",")]
    if not set(policies) <= {"delete", "compact"}:
        raise ValueError("must be delete, compact, or compact,delete")
    return ",".join(dict.fromkeys(policies))


def _parse_version(value: object) -> object:
    return ProtocolVersion.parse(value) if isinstance(value, str) else value


Number = Annotated[int, BeforeValidator(_refuse_bool)]
Positive = Annotated[Number, Field(ge=1, le=INT64_MAX)]
NotNegative = Annotated[Number, Field(ge=0, le=INT64_MAX)]
SizeInt32 = Annotated[Number, Field(ge=1, le=INT32_MAX)]
OrUnlimited = Annotated[Number, Field(ge=-1, le=INT64_MAX)]
"""-1 stands for "no limit"."""
ListenerName = Annotated[str, BeforeValidator(_upper_case), Field(pattern="^[A-Z0-9][A-Z0-9_.-]*$")]
Level = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower_case)]
Version = Annotated[ProtocolVersion, BeforeValidator(_parse_version)]
CleanupPolicy = Annotated[str, AfterValidator(_check_policies)]
AutomaticTopics = Annotated[bool, AfterValidator(_refuse_true)]
BackgroundThreads = Annotated[Positive, AfterValidator(_refuse_another_size)]
