"""Limits of the rules about time: kept with an audit, so that its report goes by the same ones."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from cluster.model.errors import ClusterError


class LimitError(ClusterError):
    """A limit that there is not, or not such a value."""


class Limits(Struct, frozen=True):
    """Says how long or how often something may be so before it is a finding. Times in ms."""

    leaderless_ms: int = 300_000
    under_min_isr_ms: int = 1_800_000
    deletion_ms: int = 3_600_000
    reassignment_ms: int = 86_400_000
    leader_changes: int = 30
    isr_shrinks: int = 60
    calm_ms: int = 60_000
    """A partition without a change for so long is calm: changes before and after are not counted together."""
    clock_ms: int = 5_000
    controllerless_ms: int = 300_000


SECONDS: Final = {
    "leaderless": "leaderless_ms",
    "under-min-isr": "under_min_isr_ms",
    "deletion": "deletion_ms",
    "reassignment": "reassignment_ms",
    "calm": "calm_ms",
    "clock": "clock_ms",
    "controllerless": "controllerless_ms",
}
"""Limits that are given in seconds, by name."""
COUNTS: Final = {"leader-changes": "leader_changes", "isr-shrinks": "isr_shrinks"}
_SECONDS_MAX: Final = 10 * 366 * 86_400


def parse_limits(given: Sequence[str]) -> Limits:
    """Limits from NAME=VALUE, the others as they are by default. Raises LimitError."""
    changed: dict[str, int] = {}
    for item in given:
        name, _, value = item.partition("=")
        if name not in {**SECONDS, **COUNTS}:
            raise LimitError(f"{name}: no such limit; there are {', '.join(sorted({**SECONDS, **COUNTS}))}")
        number = value.removesuffix("s") if name in SECONDS else value
        if not (number.isascii() and number.isdigit() and 0 < int(number[:20]) <= _SECONDS_MAX):
            what = "a number of seconds" if name in SECONDS else "a number"
            raise LimitError(f"{name}={value}: pass {what} from 1 to {_SECONDS_MAX}, as in {name}=60")
        if name in SECONDS:
            changed[SECONDS[name]] = int(number) * 1000
        else:
            changed[COUNTS[name]] = int(number)
    return msgspec.structs.replace(Limits(), **changed)
