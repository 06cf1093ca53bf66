"""Checks of config values.

Source: Kafka ConfigDef, its types and validators.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from math import inf
from typing import Final

from cluster.model.errors import ApiError, ErrorCode, all_refusals

Check = Callable[[str], str | None]
"""Returns the error of a value, None if it is valid."""

INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1
_COMPARED_LENGTH: Final = 100


def whole_number(least: int, most: int = _INT64_MAX) -> Check:
    """A Check: an integer between the bounds, both inclusive."""

    def check(value: str) -> str | None:
        try:
            number = int(_plain(value))
        except ValueError:
            return "must be a whole number"
        return None if least <= number <= most else f"must be between {least} and {most}"

    return check


def _plain(value: str) -> str:
    """Reject `1_000`, which only Python parses as a number; other programs read these configs. Raises ValueError."""
    if "_" in value:
        raise ValueError(f"{value} is no number")
    return value


def fraction(value: str) -> str | None:
    """A Check: a number from 0 to 1, both inclusive."""
    try:
        number = float(_plain(value))
    except ValueError:
        return "must be a number"
    return None if 0 <= number <= 1 else "must be between 0 and 1"


def positive_number(value: str) -> str | None:
    """A Check: a number above 0."""
    try:
        number = float(_plain(value))
    except ValueError:
        return "must be a number"
    return None if 0 < number < inf else "must be above 0"


def one_of(*allowed: str) -> Check:
    """A Check: one of these values, case-sensitive."""
    return lambda value: None if value in allowed else f"must be one of {', '.join(allowed)}"


def boolean(value: str) -> str | None:
    """A Check: true or false, case-insensitive."""
    return None if value.lower() in {"true", "false"} else "must be true or false"


def check_values(configs: Mapping[str, str], checks: Mapping[str, Check], *, of: str) -> None:
    """Raise ApiError(INVALID_CONFIG) that names every unknown key and invalid value, sorted by key.

    `of`: whose configs these are, for the message.
    """
    errors: list[ApiError] = []
    for key in sorted(configs):
        check = checks.get(key)
        why = _unknown(key, checks, of) if check is None else check(configs[key])
        if why is not None:
            message = why if check is None else f"{key}={configs[key]!r}: {why}"
            errors.append(ApiError(ErrorCode.INVALID_CONFIG, message, field=key, value=configs[key]))
    if errors:
        raise all_refusals(errors)


def _unknown(key: str, known: Iterable[str], of: str) -> str:
    # Long names are no slip of the finger, and comparing them takes long.
    near = get_close_matches(key, known, n=1) if len(key) <= _COMPARED_LENGTH else []
    return f"unknown {of} config {key}" + (f": did you mean {near[0]}?" if near else "")
