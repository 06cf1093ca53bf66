"""Records that no rule can check: of a state that their kind does not have, or without what they are about.

They are well-formed and chained, so they are no malformed lines; but what they say must not stay unsaid.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy
import pyarrow
from msgspec import Struct

from audit.records.vectors import ABSENT, BrokerLists, Flags, is_one_of, keys, longs, ranked
from state_log.record import Kind

_STATES: Final[Mapping[str, frozenset[str]]] = {
    Kind.CONTROLLER: frozenset({"active", "resigned"}),
    Kind.BROKER: frozenset({"live", "changed", "shutting_down", "dead", "bounced"}),
    Kind.TOPIC: frozenset({"created", "queued for deletion", "deleted", "removed"}),
    Kind.ROLE: frozenset({"leader", "follower", "stopped", "deleted", "offline"}),
    Kind.DIRECTORY_MOVE: frozenset({"started", "completed", "abandoned"}),
    Kind.REGISTRATION: frozenset({"registered", "expired"}),
    Kind.ACCESS_RULE: frozenset({"added", "removed"}),
    Kind.DELETION: frozenset({"started", "completed"}),
}
"""States by kind. For other kinds the state is absent, or a rule checks it."""
_OF_PARTITIONS: Final = [
    kind.value for kind in (Kind.PARTITION, Kind.REPLICA, Kind.ISR, Kind.ROLE, Kind.TRUNCATION, Kind.DIRECTORY_MOVE)
]
_OF_CONTROLLERS: Final = [kind.value for kind in (Kind.CONTROLLER, Kind.PARTITION, Kind.REPLICA, Kind.ISR)]
_LEADERSHIP: Final = ("leader", "leader_epoch", "partition_epoch", "isr")
_SHOWN: Final = 60


class Unclear(Struct, frozen=True):
    """The number of such records, and what one of them is."""

    count: int
    example: str


def unclear_records(rows: pyarrow.RecordBatch) -> dict[str, Unclear]:
    """The records among these that no rule can check, by node/incarnation."""
    table = pyarrow.Table.from_batches([rows])
    found = numpy.flatnonzero(_is_unclear(table))
    if not len(found):
        return {}
    unclear: dict[str, Unclear] = {}
    for row in rows.take(pyarrow.array(found)).to_pylist():
        name = f"{row['node']}/{row['incarnation']}"
        known = unclear.get(name)
        unclear[name] = Unclear(1, _describe(row)) if known is None else Unclear(known.count + 1, known.example)
    return unclear


def joined_unclear(parts: Iterable[Mapping[str, Unclear]]) -> dict[str, Unclear]:
    """The sum of several counts, in whatever order they come."""
    found: dict[str, Unclear] = {}
    for part in parts:
        for name, each in part.items():
            known = found.get(name)
            found[name] = (
                each
                if known is None
                else Unclear(known.count + each.count, min(known.example, each.example, key=_by_number))
            )
    return found


def _is_unclear(table: pyarrow.Table) -> Flags:
    (kind, kinds), (state, states) = ranked(table["kind"]), ranked(table["to_state"])
    # The last row and column are for records without.
    strange = numpy.array([[k in _STATES and s not in _STATES[k] for s in [*states, ""]] for k in [*kinds, ""]], bool)
    found = strange[kind, state] | (is_one_of(table["kind"], _OF_PARTITIONS) & (keys(table["key"]) == 0))
    found |= is_one_of(table["kind"], _OF_CONTROLLERS) & (longs(table["controller_epoch"]) == ABSENT)
    present = numpy.stack(
        [*(longs(table[name]) != ABSENT for name in _LEADERSHIP[:-1]), BrokerLists(table["isr"]).present]
    )
    has_role = is_one_of(table["kind"], [Kind.ROLE.value]) & is_one_of(table["to_state"], ["leader", "follower"])
    writes = is_one_of(table["kind"], [Kind.PARTITION.value]) & present.any(axis=0)
    needs = has_role | writes | is_one_of(table["kind"], [Kind.ISR.value])
    return numpy.asarray(found | (needs & ~present.all(axis=0)), bool)


def _describe(row: Mapping[str, Any]) -> str:
    fields = ("to_state", "topic", "partition", "controller_epoch", *_LEADERSHIP)
    said = ", ".join(f"{name} {row[name]!r}"[:_SHOWN] for name in fields if row[name] is not None)
    return f"record {row['seq']}, of kind {row['kind']} with {said or 'nothing else'}"


def _by_number(example: str) -> tuple[int, str]:
    return len(example.partition(",")[0]), example
