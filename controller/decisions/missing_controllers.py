"""Whether controllers are missing: while one is left, no other can take over from it."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from cluster.model.broker import BrokerId
from cluster.requests.cluster import Finding

SINGLE_CONTROLLER: Final = "single_controller"
MISSING_CONTROLLER: Final = "missing_controller"
_ENOUGH: Final = 2
_NAMED: Final = 5


def missing_controllers(
    registered: AbstractSet[BrokerId], known: AbstractSet[BrokerId], expected: int
) -> Iterator[Finding]:
    """A finding if fewer controllers stand for election than there should be.

    `registered`: those that do. `known`: all that ever did, also those that were given up long ago, so that of three
    two are enough, and one that was always alone is. `expected`: as somebody has said; 0 if nobody has.
    """
    wanted = expected or (_ENOUGH if len(known | registered) > 1 else 1)
    if len(registered) >= wanted:
        return
    kind = MISSING_CONTROLLER if len(registered) > 1 else SINGLE_CONTROLLER
    found = f"{len(registered)} of {wanted} controllers stand for election"
    if len(registered) == 1:
        found = f"controller {min(registered)} is alone: no other takes over when it fails"
    former = sorted(known - registered)
    gone = f"{_named(former)} ran before and {'takes' if len(former) == 1 else 'take'} no part now; " if former else ""
    enough = max(1, len(registered))
    remedy = f"start another, or set klamm.controllers.expected={enough} if {enough} is meant to be enough"
    yield Finding(kind, f"{found}; {gone}{remedy}")


def _named(controllers: Sequence[BrokerId]) -> str:
    named = ", ".join(map(str, controllers[:_NAMED]))
    rest = f" and {len(controllers) - _NAMED} more" if len(controllers) > _NAMED else ""
    return f"controller{'s' if len(controllers) > 1 else ''} {named}{rest}"
