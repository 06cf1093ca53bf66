"""All that a controller has: memory, ZooKeeper, watches, metrics, what brokers were sent and the state-change log.

Two of these are compared with `==`. Memory is read by its attributes, whatever they are, so that what is added later is
compared, too.
"""

from asyncio import Future
from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from tests.controllers.worlds import RunningController, World

_OURS: Final = ("controller.", "cluster.", "state_log.")
_NOT_MEMORY: Final = frozenset(
    {
        # What acts, not what is known.
        *("_zookeeper", "reads", "react", "config", "settings", "channels", "metrics", "clock", "timings"),
        *("random", "enqueue", "_run_aside", "_aside", "_sink", "feed", "_fenced", "_on_refusal"),
        # The event that is handled, and who asked for it.
        *("cause", "asked_by"),
        # When what ZooKeeper has stopped is looked at again; what has not begun is then left alone.
        *("_resumption", "_resumption_pause_s", "reassignments_to_resume", "_balance", "_delayed"),
    }
)
_OF_TIME: Final = ("eventqueue", "rateandtimems", "eventmanager", "channelmanager", "klamm_zookeeper", "agems")
"""Metrics that count requests and events, whatever becomes of them, or say how old something is."""


class Everything(NamedTuple):
    """`sent`: the number of requests to brokers; `records`: that of the state-change log."""

    memory: object
    znodes: dict[str, object]
    watches: tuple[frozenset[str], frozenset[str]]
    metrics: dict[str, float]
    sent: int
    records: int


def everything(world: World, c: RunningController) -> Everything:
    active = c.controller.active
    session = c.zookeeper._session
    assert session is not None
    return Everything(
        frozen((active, c.controller.election.epoch.known, c.controller.fitness.why)),
        {path: (znode.data, znode.stat()) for path, znode in world.server.tree.znodes.items()},
        (frozenset(session.watches.data), frozenset(session.watches.children)),
        metrics(c),
        len(c.brokers.received),
        len(c.sink.changes),
    )


def changes(before: object, after: object, place: str = "") -> list[str]:
    """The places where two of these differ, with both values."""
    if before == after:
        return []
    match before, after:
        case Everything(), Everything():
            before, after = before._asdict(), after._asdict()
    match before, after:
        case dict(), dict():
            names = [*before, *(name for name in after if name not in before)]
            return [c for n in names for c in changes(before.get(n, "-"), after.get(n, "-"), f"{place}/{n}")]
        case list(), list() if len(before) == len(after):
            return [c for n, pair in enumerate(zip(before, after, strict=True)) for c in changes(*pair, f"{place}/{n}")]
    return [f"{place}: {before!r:.200} became {after!r:.200}"]


def metrics(c: RunningController) -> dict[str, float]:
    samples = (sample for family in c.metrics.collect() for sample in family.samples)
    return {f"{s.name}{s.labels}": s.value for s in samples if not any(word in s.name for word in _OF_TIME)}


def frozen(value: Any, above: tuple[int, ...] = ()) -> object:
    """A value that can be compared later, of anything; what acts, and is not known, is left out."""
    if id(value) in above:
        return "above"
    above = (*above, id(value))
    match value:
        case None | bool() | int() | float() | str() | bytes() | Enum():
            found: object = value
        case Mapping():
            found = {repr(frozen(key)): frozen(item, above) for key, item in value.items()}
        case AbstractSet():
            found = sorted(repr(frozen(item)) for item in value)
        case tuple() | list() | deque():
            found = [frozen(item, above) for item in value]
        case Future():
            found = ("future", value.done())
        case _ if callable(value) or not type(value).__module__.startswith(_OURS):
            found = type(value).__name__
        case _:
            found = {name: frozen(item, above) for name, item in _attributes(value) if name not in _NOT_MEMORY}
    return found


def _attributes(value: object) -> list[tuple[str, Any]]:
    if isinstance(value, Struct):
        names: Any = value.__struct_fields__
    elif is_dataclass(value):
        names = [field.name for field in fields(value)]
    else:
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        names = [*slots, *getattr(value, "__dict__", ())]
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]
