"""Who was the active controller in each controller epoch, from when until when, and what it took to take over."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import pyarrow
from msgspec import Struct
from msgspec.structs import replace

from audit.reading.node_work import Work
from audit.records.vectors import is_one_of
from audit.rules.subjects import reference
from state_log.record import Kind

RESIGNED, REPLACED = "resigned", "replaced"


class TermEvents(Struct, frozen=True):
    """Holds what a controller recorded of its own term: when it became active, and when it resigned; None: it did
    not. `silent_ms`: for how long it had seen before that no controller was active; None: no record says so.
    """

    controller_epoch: int
    controller: int
    active_ms: int | None = None
    resigned_ms: int | None = None
    record: str | None = None
    resigned_record: str | None = None
    silent_ms: int | None = None

    @property
    def name(self) -> str:
        return f"{self.controller_epoch}/{self.controller}"

    @property
    def vacant_ms(self) -> int | None:
        """Find when it first saw that no controller was active, in ms since 1970."""
        return None if self.active_ms is None or self.silent_ms is None else self.active_ms - self.silent_ms

    def joined(self, other: "TermEvents") -> "TermEvents":
        """Join two records of a term: the first of each."""
        firsts = {}
        for field in ("active_ms", "resigned_ms", "record", "resigned_record", "silent_ms"):
            known = [value for value in (getattr(self, field), getattr(other, field)) if value is not None]
            firsts[field] = min(known, default=None)
        return replace(self, **firsts)


def terms_of(rows: pyarrow.Table) -> Iterator[TermEvents]:
    """The terms that these records show."""
    part = rows.filter(pyarrow.array(is_one_of(rows["kind"], [Kind.CONTROLLER.value])))
    columns = ("node", "incarnation", "seq", "controller_epoch", "to_state", "broker", "at_ms", "silent_ms")
    for row in part.select(columns).to_pylist():
        if row["controller_epoch"] is None or row["broker"] is None:
            continue
        term = TermEvents(row["controller_epoch"], row["broker"])
        if row["to_state"] == "active":
            yield replace(term, active_ms=row["at_ms"], record=reference(row), silent_ms=row["silent_ms"])
        elif row["to_state"] == "resigned":
            yield replace(term, resigned_ms=row["at_ms"], resigned_record=reference(row))


def term_rows(events: Mapping[str, TermEvents], work: Mapping[str, Work]) -> list[dict[str, Any]]:
    """The rows of the table, in the order of controller epochs."""
    done = _work_by_term(work)
    terms = [events.get(name) or TermEvents(*_numbers(name)) for name in {*events, *done}]
    in_order = sorted(terms, key=lambda term: (term.controller_epoch, term.controller))
    return [
        _row(term, done.get(term.name), earlier, done, later) for term, earlier, later in _with_neighbours(in_order)
    ]


def _row(
    term: TermEvents, own: Work | None, earlier: TermEvents | None, done: Mapping[str, Work], later: TermEvents | None
) -> dict[str, Any]:
    before = None if earlier is None else done.get(earlier.name)
    until_ms, ended = (term.resigned_ms, RESIGNED) if term.resigned_ms is not None else (None, None)
    if ended is None and later is not None:
        begun = done.get(later.name)
        until_ms, ended = later.active_ms or (None if begun is None else begun.first_ms), REPLACED
    return {
        "controller_epoch": term.controller_epoch,
        "controller": term.controller,
        "from_ms": term.active_ms,
        "until_ms": until_ms,
        "ended": ended,
        "previous_controller": None if earlier is None else earlier.controller,
        "previous_last_ms": None if before is None else before.last_ms,
        "vacant_ms": term.vacant_ms,
        "loaded_ms": None if own is None else own.loaded_ms,
        "first_write_ms": None if own is None else own.first_write_ms,
        "last_ms": None if own is None else own.last_ms,
        "records": 0 if own is None else own.records,
        "record": term.record,
    }


def _work_by_term(work: Mapping[str, Work]) -> dict[str, Work]:
    """The work of each term. A controller epoch is of one incarnation, unless something is wrong; then it is the
    first's.
    """
    found: dict[str, Work] = {}
    for part in sorted(work.values(), key=lambda part: (part.node, part.incarnation)):
        kind, _, controller = part.node.partition("-")
        if part.controller_epoch >= 0 and kind == "controller" and controller.isdecimal():
            found.setdefault(f"{part.controller_epoch}/{int(controller)}", part)
    return found


def _numbers(name: str) -> tuple[int, int]:
    epoch, _, controller = name.partition("/")
    return int(epoch), int(controller)


def _with_neighbours(terms: list[TermEvents]) -> Iterator[tuple[TermEvents, TermEvents | None, TermEvents | None]]:
    """Yield each term, with one of the next lower and one of the next higher controller epoch. `terms`: sorted by
    these.
    """
    groups = [list(of_epoch) for _, of_epoch in groupby(terms, key=lambda term: term.controller_epoch)]
    for place, group in enumerate(groups):
        lower = groups[place - 1][-1] if place else None
        higher = groups[place + 1][0] if place + 1 < len(groups) else None
        yield from ((term, lower, higher) for term in group)
