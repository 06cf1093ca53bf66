"""The table of a run: one line of JSON per round, kept by seed and fault."""

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
    """An acknowledged record is not where it was, or twice; see `admin.consuming.record_history.HistoryRule`."""
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
    """One round. Durations in seconds; `named`: what `klamm cluster health` said while it was not healthy.

    `violations`: how many records broke which rule of `admin.consuming.record_history`.
    """

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
    violations: dict[str, int] = {}
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
        self.rows = {(row.seed, row.fault): row for row in _decode(whole)}

    def has(self, seed: int, fault: str) -> bool:
        """Whether a round was carried out; skipped ones are tried again."""
        row = self.rows.get((seed, fault))
        return row is not None and row.verdict is not Verdict.SKIPPED

    def add(self, row: Row) -> None:
        self.rows[row.seed, row.fault] = row
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(row) + b"\n")


def read_rows(file: Path) -> list[Row]:
    """All complete lines of a file, those of rounds that were carried out again, too."""
    content = file.read_bytes()
    return _decode(content[: content.rfind(b"\n") + 1])


def _decode(lines: bytes) -> list[Row]:
    return [msgspec.json.decode(line, type=Row) for line in lines.splitlines()]
