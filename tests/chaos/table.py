"""The table of a run: one line of JSON per round, kept by seed and fault, and its summary."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct


class Verdict(StrEnum):
    """What became of a round. All but the first two make a run fail."""

    OK = "ok"
    SKIPPED = "skipped"
    """The machine lacks what the fault needs; `problems` say what."""
    RECORDS = "records"
    """An acknowledged record is not where it was, or one is there twice; see `history.Rule`."""
    REPLICAS = "replicas"
    """Replicas differ."""
    AUDIT = "audit"
    """The state-change logs break a rule or their hash chain."""
    STUCK = "stuck"
    """Not healthy, or not producing, by itself within the deadline."""
    SILENT = "silent"
    """Producers waited, and `klamm cluster health` knew of nothing."""
    SUITE = "suite"
    """The fault could not be made, or the suite failed."""


_GOOD: Final = (Verdict.OK, Verdict.SKIPPED)


class Row(Struct, kw_only=True):
    """One round. Durations in seconds; `named`: what `klamm cluster health` said while it was not healthy."""

    seed: int
    fault: str
    verdict: Verdict
    commit: str = ""
    began: str = ""
    choices: list[str] = []
    acknowledged: int = 0
    longest_gap: float = 0.0
    healthy_after: float = 0.0
    lasted: float = 0.0
    named: list[str] = []
    exits: list[str] = []
    tracebacks: int = 0
    problems: list[str] = []
    evidence: str = ""

    @property
    def is_good(self) -> bool:
        return self.verdict in _GOOD


class Table:
    """The rows of a file, which a later run continues. A row replaces an earlier one of the same seed and fault."""

    def __init__(self, file: Path) -> None:
        self._file = file
        content = file.read_bytes() if file.exists() else b""
        # A run may have been ended in the middle of a line, which the next one must not continue.
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            file.write_bytes(whole)
        rows = [msgspec.json.decode(line, type=Row) for line in whole.splitlines()]
        self.rows = {(row.seed, row.fault): row for row in rows}

    def has(self, seed: int, fault: str) -> bool:
        """Whether a round was carried out; skipped ones are tried again."""
        row = self.rows.get((seed, fault))
        return row is not None and row.verdict is not Verdict.SKIPPED

    def add(self, row: Row) -> None:
        self.rows[row.seed, row.fault] = row
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(row) + b"\n")


def summary(rows: Iterable[Row]) -> str:
    """A line per fault, one per round that failed, and the totals."""
    rows = sorted(rows, key=lambda row: (row.fault, row.seed))
    lines = [f"{'fault':32} {'rounds':>6} {'acked':>8} {'gap s':>6} {'health s':>8}  verdicts"]
    for fault in sorted({row.fault for row in rows}):
        of_fault = [row for row in rows if row.fault == fault]
        verdicts = Counter(str(row.verdict) for row in of_fault)
        lines.append(
            f"{fault:32} {len(of_fault):>6} {sum(r.acknowledged for r in of_fault):>8}"
            f" {max(r.longest_gap for r in of_fault):>6.1f} {max(r.healthy_after for r in of_fault):>8.1f}"
            f"  {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}"
        )
    bad = [row for row in rows if not row.is_good]
    lines += [f"{r.verdict}: --seed {r.seed} --faults {r.fault}: {'; '.join(r.problems[:3])}" for r in bad]
    skipped = sorted({(row.fault, row.problems[0]) for row in rows if row.verdict is Verdict.SKIPPED})
    lines += [f"skipped: {fault}: {why}" for fault, why in skipped]
    carried_out = [row for row in rows if row.verdict is not Verdict.SKIPPED]
    lines.append(
        f"{len(carried_out)} rounds, {sum(r.acknowledged for r in rows)} records acknowledged,"
        f" {len(bad)} failed, {len(rows) - len(carried_out)} skipped"
    )
    return "\n".join(lines)
