"""Rules about one run of one process: what its records show in their order.

The controller epoch whose requests an agent carries out never falls, and neither does its clock, beyond what keeping it
right takes. Two runs of one node do not overlap.
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final

import numpy
import pyarrow
from msgspec import Struct
from msgspec.structs import replace

from audit.records.findings import AuditFinding
from audit.records.vectors import ABSENT, Longs, group_starts, is_one_of, longs, ranked
from state_log.causes import ISR_GRANTED
from state_log.record import Kind

STALE_CONTROLLER_EPOCH: Final = "stale-controller-epoch"
CLOCK_WENT_BACK: Final = "clock-went-back"
TWO_NODES_ONE_ID: Final = "two-nodes-one-id"
CLOCK_STEP_MS: Final = 5_000
"""The most that a clock may be set back which is kept right."""
OVERLAP_MS: Final = 10_000
"""How long a process may continue after another of its node has started: until it finds its session expired."""
_KEPT: Final = 100
_first_seq: Final = attrgetter("first_seq")
_last_seq: Final = attrgetter("last_seq")


class Span(Struct, frozen=True):
    """Records of one incarnation in their order: first and last time and controller epoch (ABSENT: none), and where one
    of them fell. A fall: number of the record, value before, value. `boot_id`: the first that a record has.
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


def spans_of(rows: pyarrow.RecordBatch) -> list[Span]:
    """The spans of consecutive records, in their order."""
    table = pyarrow.Table.from_batches([rows])
    (node, nodes), (incarnation, incarnations) = ranked(table["node"]), ranked(table["incarnation"])
    at_ms, seq = longs(table["at_ms"]), longs(table["seq"])
    carries_out = is_one_of(table["kind"], [Kind.ROLE.value])
    # A granted ISR carries out no request: the answer of a controller may come after requests of its successor.
    carries_out &= ~is_one_of(table["cause_event"], [ISR_GRANTED])
    epoch = numpy.where(carries_out, longs(table["cause_controller_epoch"]), ABSENT)
    starts = group_starts(node, incarnation).tolist()
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
            )
        )
    return found


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
    )


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
    )


def findings_of_span(span: Span) -> list[AuditFinding]:
    """The findings about a time or controller epoch that fell."""
    name = f"{span.node}/{span.incarnation}"
    found = []
    for seq, before, now in span.epoch_falls:
        message = f"{span.node} carried out a request of controller epoch {now} after one of {before}"
        found.append(_finding(STALE_CONTROLLER_EPOCH, f"{name}/{seq}", message))
    for seq, before, now in span.clock_falls:
        message = f"the clock of {span.node} went back by {(before - now) / 1000:.1f} s"
        found.append(_finding(CLOCK_WENT_BACK, f"{name}/{seq}", message))
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


def _first_text(column: pyarrow.ChunkedArray, first: int, end: int) -> str:
    part = column.slice(first, end - first)
    return "" if part.null_count == len(part) else str(part.drop_null()[0].as_py())


def _falls(seq: Longs, values: Longs, tolerance: int) -> tuple[tuple[int, int, int], ...]:
    fallen = numpy.flatnonzero((values[1:] < values[:-1] - tolerance) & (seq[1:] > seq[:-1]))[:_KEPT]
    rows = zip(seq[fallen + 1].tolist(), values[fallen].tolist(), values[fallen + 1].tolist(), strict=True)
    return tuple(rows)


def _finding(rule: str, record: str, message: str) -> AuditFinding:
    return AuditFinding(rule, f"record {record}", message, (record,))
