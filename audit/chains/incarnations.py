"""Rules about one run of one process: what its records show in their order.

The controller epoch whose requests an agent carries out never falls, and neither does its clock, beyond what keeping it
right takes. Two runs of one node do not overlap.
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final

import numpy
import pyarrow
from msgspec import Struct
from msgspec.structs import replace

from audit.records.findings import AuditFinding
from audit.records.vectors import ABSENT, Flags, Longs, group_starts, is_one_of, longs, ranked
from state_log.causes import ISR_GRANTED
from state_log.record import Kind

STALE_CONTROLLER_EPOCH: Final = "stale-controller-epoch"
CLOCK_WENT_BACK: Final = "clock-went-back"
CLOCK_FITS_BOOT: Final = "clock-fits-boot"
TWO_NODES_ONE_ID: Final = "two-nodes-one-id"
CLOCK_STEP_MS: Final = 5_000
"""The most that a clock may be set back which is kept right."""
ROLE_AFTER_EXPIRY: Final = "role-of-registered-broker"
UNDER_WAY_MS: Final = 60_000
"""How long a request may have been under way to a broker whose registration has expired."""
OVERLAP_MS: Final = 10_000
"""How long a process may continue after another of its node has started: until it finds its session expired."""
_KEPT: Final = 100
_first_seq: Final = attrgetter("first_seq")
_last_seq: Final = attrgetter("last_seq")


class Span(Struct, frozen=True):
    """Records of one incarnation in their order: first and last time and controller epoch (ABSENT: none), and where one
    of them fell. A fall: number of the record, value before, value. `boot_id`: the first that a record has.

    `mono_ms`: of the first record of the run, by the monotonic clock of that boot; ABSENT where it is not known.
    `open_expiry`: the record of an expired registration after which there is none of another, and its time.
    `first_registration`: the number of the first record about a registration, ABSENT for none, and `last_role` the last
    role before it that follows from a request, and its time. `late_roles`: by expired registration (number of the
    record), the last role before another registration if it came late: number of the record, time after the expiry.
    """

    node: str
    incarnation: str
    first_at_ms: int
    last_at_ms: int
    first_epoch: int = ABSENT
    last_epoch: int = ABSENT
    first_seq: int = 0
    first_epoch_seq: int = 0
    clock_falls: tuple[tuple[int, int, int], ...] = ()
    epoch_falls: tuple[tuple[int, int, int], ...] = ()
    boot_id: str = ""
    last_seq: int = -1
    mono_ms: int = ABSENT
    open_expiry: tuple[int, int] | None = None
    first_registration: int = ABSENT
    last_role: tuple[int, int] | None = None
    late_roles: dict[int, tuple[int, int]] = {}


def spans_of(rows: pyarrow.RecordBatch) -> list[Span]:
    """The spans of consecutive records, in their order."""
    table = pyarrow.Table.from_batches([rows])
    (node, nodes), (incarnation, incarnations) = ranked(table["node"]), ranked(table["incarnation"])
    at_ms, seq = longs(table["at_ms"]), longs(table["seq"])
    carries_out = is_one_of(table["kind"], [Kind.ROLE.value])
    # A granted ISR carries out no request: the answer of a controller may come after requests of its successor.
    carries_out &= ~is_one_of(table["cause_event"], [ISR_GRANTED])
    epoch = numpy.where(carries_out, longs(table["cause_controller_epoch"]), ABSENT)
    registers, expired = _registrations(table)
    starts, mono_ms = group_starts(node, incarnation).tolist(), longs(table["mono_ms"])
    found = []
    for first, end in pairwise([*starts, len(node)]):
        # By number: lines that stand elsewhere, or twice, are another rule's.
        order = first + numpy.argsort(seq[first:end], kind="stable")
        numbers, times, shown = seq[order], at_ms[order], epoch[order]
        has = shown != ABSENT
        found.append(
            Span(
                nodes[node[first]],
                incarnations[incarnation[first]],
                int(times[0]),
                int(times[-1]),
                *((int(shown[has][0]), int(shown[has][-1])) if has.any() else (ABSENT, ABSENT)),
                int(numbers[0]),
                int(numbers[has][0]) if has.any() else 0,
                _falls(numbers, times, CLOCK_STEP_MS),
                _falls(numbers[has], shown[has], 0),
                _first_text(table["boot_id"], first, end),
                int(numbers[-1]),
                int(mono_ms[order[0]]) if not numbers[0] else ABSENT,
                **_expiries(numbers, times, has, registers[order], expired[order]),
            )
        )
    return found


def _registrations(table: pyarrow.Table) -> tuple[Flags, Flags]:
    """Whether each record is about a registration, and whether it says that it expired; aligned with the rows."""
    registers = is_one_of(table["kind"], [Kind.REGISTRATION.value])
    return registers, registers & is_one_of(table["to_state"], ["expired"])


def _expiries(seq: Longs, at_ms: Longs, roles: Flags, registers: Flags, expired: Flags) -> dict[str, Any]:
    """The fields of a span about registrations and roles. All are of its records in their order, aligned."""
    places = numpy.flatnonzero(registers)
    carried_out = numpy.flatnonzero(roles)
    ends = [*places.tolist(), len(seq)]
    last = [int(carried_out[n - 1]) if (n := int(numpy.searchsorted(carried_out, end))) else -1 for end in ends]
    late = {}
    for place, role in zip(ends[:-1], last[1:], strict=True):
        if expired[place] and role > place and at_ms[role] - at_ms[place] > UNDER_WAY_MS:
            late[int(seq[place])] = int(seq[role]), int(at_ms[role] - at_ms[place])
    newest = int(places[-1]) if len(places) else -1
    return {
        "open_expiry": (int(seq[newest]), int(at_ms[newest])) if newest >= 0 and expired[newest] else None,
        "first_registration": int(seq[places[0]]) if len(places) else ABSENT,
        "last_role": (int(seq[last[0]]), int(at_ms[last[0]])) if last[0] >= 0 else None,
        "late_roles": late,
    }


def joined(before: Span | None, span: Span) -> Span:
    """Join two consecutive spans of one incarnation. What is behind a later number is not compared with it."""
    if before is None:
        return span
    if span.first_seq <= before.last_seq:
        return _joined_late(before, span)
    clock, epochs = span.clock_falls, span.epoch_falls
    if span.first_at_ms < before.last_at_ms - CLOCK_STEP_MS:
        clock = ((span.first_seq, before.last_at_ms, span.first_at_ms), *clock)
    if ABSENT not in {before.last_epoch, span.first_epoch} and span.first_epoch < before.last_epoch:
        epochs = ((span.first_epoch_seq, before.last_epoch, span.first_epoch), *epochs)
    return replace(
        before,
        last_at_ms=span.last_at_ms,
        last_seq=span.last_seq,
        first_epoch=span.first_epoch if before.first_epoch == ABSENT else before.first_epoch,
        first_epoch_seq=span.first_epoch_seq if before.first_epoch == ABSENT else before.first_epoch_seq,
        last_epoch=before.last_epoch if span.last_epoch == ABSENT else span.last_epoch,
        clock_falls=(*before.clock_falls, *clock)[:_KEPT],
        epoch_falls=(*before.epoch_falls, *epochs)[:_KEPT],
        boot_id=before.boot_id or span.boot_id,
        mono_ms=max(before.mono_ms, span.mono_ms),
        **_joined_expiries(before, span),
    )


def _joined_expiries(before: Span, span: Span) -> dict[str, Any]:
    late = before.late_roles | span.late_roles
    if before.open_expiry is not None and span.last_role is not None:
        (seq, expired_ms), (role, at_ms) = before.open_expiry, span.last_role
        if at_ms - expired_ms > UNDER_WAY_MS:
            late[seq] = role, at_ms - expired_ms
    has_registered = before.first_registration != ABSENT
    return {
        "open_expiry": before.open_expiry if span.first_registration == ABSENT else span.open_expiry,
        "first_registration": before.first_registration if has_registered else span.first_registration,
        "last_role": before.last_role if has_registered else span.last_role or before.last_role,
        "late_roles": dict(sorted(late.items())[:_KEPT]),
    }


def _joined_late(before: Span, span: Span) -> Span:
    first, last = min(before, span, key=_first_seq), max(before, span, key=_last_seq)
    return replace(
        before,
        first_at_ms=first.first_at_ms,
        first_seq=first.first_seq,
        last_at_ms=last.last_at_ms,
        last_seq=last.last_seq,
        last_epoch=before.last_epoch if last.last_epoch == ABSENT else last.last_epoch,
        clock_falls=tuple(dict.fromkeys((*before.clock_falls, *span.clock_falls)))[:_KEPT],
        epoch_falls=tuple(dict.fromkeys((*before.epoch_falls, *span.epoch_falls)))[:_KEPT],
        mono_ms=max(before.mono_ms, span.mono_ms),
    )


def findings_of_span(span: Span) -> list[AuditFinding]:
    """The findings about a time or controller epoch that fell, and roles that were taken without a registration."""
    name = f"{span.node}/{span.incarnation}"
    found = []
    for seq, before, now in span.epoch_falls:
        message = f"{span.node} carried out a request of controller epoch {now} after one of {before}"
        found.append(_finding(STALE_CONTROLLER_EPOCH, f"{name}/{seq}", message))
    for seq, before, now in span.clock_falls:
        message = f"the clock of {span.node} went back by {(before - now) / 1000:.1f} s"
        found.append(_finding(CLOCK_WENT_BACK, f"{name}/{seq}", message))
    for expired, (seq, late_ms) in span.late_roles.items():
        message = (
            f"{span.node} took a role {late_ms / 1000:.0f} s after its registration had expired, and before another "
            f"one: more than {UNDER_WAY_MS // 1000} s"
        )
        records = f"{name}/{expired}", f"{name}/{seq}"
        found.append(AuditFinding(ROLE_AFTER_EXPIRY, f"record {records[0]}", message, records))
    return found


def overlaps(spans: Sequence[Span]) -> list[AuditFinding]:
    """The findings about incarnations of one node that wrote at the same time."""
    found = []
    in_order = sorted(spans, key=lambda span: (span.node, span.first_at_ms, span.incarnation))
    for before, span in pairwise(in_order):
        overlap_ms = before.last_at_ms - span.first_at_ms
        if before.node == span.node and overlap_ms > OVERLAP_MS:
            message = f"two processes were {span.node} for {overlap_ms / 1000:.1f} s: {before.incarnation} and "
            name = f"{span.node}/{span.incarnation}/{span.first_seq}"
            found.append(_finding(TWO_NODES_ONE_ID, name, f"{message}{span.incarnation}"))
    return found


def boots(spans: Sequence[Span]) -> list[AuditFinding]:
    """The findings about clocks that ran less between two runs in one boot than the machine's monotonic clock."""
    found = []
    known = [span for span in spans if span.boot_id and span.mono_ms != ABSENT]
    for before, span in pairwise(sorted(known, key=lambda span: (span.node, span.boot_id, span.incarnation))):
        if (before.node, before.boot_id) != (span.node, span.boot_id):
            continue
        ran_ms, passed_ms = span.first_at_ms - before.first_at_ms, span.mono_ms - before.mono_ms
        if passed_ms < 0 or ran_ms < passed_ms - CLOCK_STEP_MS:
            message = (
                f"the clock of {span.node} ran {ran_ms / 1000:.1f} s between the starts of {before.incarnation} and "
                f"{span.incarnation}, and its monotonic clock {passed_ms / 1000:.1f} s"
            )
            found.append(_finding(CLOCK_FITS_BOOT, f"{span.node}/{span.incarnation}/0", message))
    return found


def _first_text(column: pyarrow.ChunkedArray, first: int, end: int) -> str:
    part = column.slice(first, end - first)
    return "" if part.null_count == len(part) else str(part.drop_null()[0].as_py())


def _falls(seq: Longs, values: Longs, tolerance: int) -> tuple[tuple[int, int, int], ...]:
    fallen = numpy.flatnonzero((values[1:] < values[:-1] - tolerance) & (seq[1:] > seq[:-1]))[:_KEPT]
    rows = zip(seq[fallen + 1].tolist(), values[fallen].tolist(), values[fallen + 1].tolist(), strict=True)
    return tuple(rows)


def _finding(rule: str, record: str, message: str) -> AuditFinding:
    return AuditFinding(rule, f"record {record}", message, (record,))
