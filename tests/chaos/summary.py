"""What came of all rounds, as text: by fault, by commit, and each round that failed.

As a program: `python -m tests.chaos.summary FILE…` prints one table of several `rounds.jsonl`, of any commits.
Exit code 1 if a round failed and was not carried out again with success.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from admin.consuming.record_history import HistoryRule
from tests.chaos.table import Row, Verdict, read_rows

_OF_RECORDS: Final = (HistoryRule.LOST, HistoryRule.DUPLICATED, HistoryRule.MOVED)
_VERDICTS: Final = (Verdict.SILENT, Verdict.STUCK)
_SHOWN: Final = 3
_SHOWN_CHARACTERS: Final = 240
_COLUMNS: Final = ("rounds", "ok", *(str(rule) for rule in _OF_RECORDS), *(str(v) for v in _VERDICTS), "other")


def summary(rows: Iterable[Row]) -> str:
    """Tables by fault and, of several commits, by commit; the rounds that failed, the faults that were left out.

    Columns: rounds carried out, rounds that were ok; records lost, stored twice, moved; rounds that were silent,
    stuck, or failed otherwise; records acknowledged, longest gap and slowest recovery in seconds.
    """
    rows = sorted(rows, key=lambda row: (row.fault, row.seed, row.began))
    carried_out = [row for row in rows if row.verdict is not Verdict.SKIPPED]
    lines = _table("fault", carried_out, lambda row: row.fault)
    if len({row.commit for row in carried_out}) > 1:
        lines += ["", *_table("commit", sorted(carried_out, key=lambda row: row.began), lambda row: row.commit)]
    lines += ["", *_failures(carried_out)]
    lines += [f"skipped: {fault}: {why}" for fault, why in _skipped(rows)]
    failed = sum(not row.is_good for row in carried_out)
    lines.append(
        f"{len(carried_out)} rounds, {sum(r.acknowledged for r in rows)} records acknowledged,"
        f" {failed} failed, {len(rows) - len(carried_out)} skipped"
    )
    return "\n".join(lines)


def _table(name: str, rows: Sequence[Row], key: Callable[[Row], str]) -> list[str]:
    """A line for each key, in the order of the rows, and one for all."""
    head = "".join(f" {column:>{_width(column)}}" for column in _COLUMNS)
    lines = [f"{name:28}{head} {'acked':>8} {'gap s':>6} {'health s':>8}"]
    lines += [_line(value, [row for row in rows if key(row) == value]) for value in dict.fromkeys(map(key, rows))]
    return [*lines, _line("all", rows)]


def _line(value: str, rows: Sequence[Row]) -> str:
    verdicts = Counter(row.verdict for row in rows)
    shown = (Verdict.OK, *_VERDICTS)
    counts = [
        len(rows),
        verdicts[Verdict.OK],
        *(sum(row.violations.get(rule, 0) for row in rows) for rule in _OF_RECORDS),
        *(verdicts[verdict] for verdict in _VERDICTS),
        len(rows) - sum(verdicts[verdict] for verdict in shown),
    ]
    numbers = "".join(f" {count:>{_width(name)}}" for name, count in zip(_COLUMNS, counts, strict=True))
    gap, health = (max((getattr(r, name) for r in rows), default=0.0) for name in ("longest_gap", "healthy_after"))
    return f"{value:28}{numbers} {sum(r.acknowledged for r in rows):>8} {gap:>6.1f} {health:>8.1f}"


def _width(column: str) -> int:
    return max(len(column), 6)


def _failures(rows: Sequence[Row]) -> list[str]:
    """A line for each, in the order of fault and seed, with the commit where the same round went well later."""
    lines = []
    for row in rows:
        if row.is_good:
            continue
        why = "; ".join(row.problems[:_SHOWN])[:_SHOWN_CHARACTERS]
        again = succeeded_later(row, rows)
        cured = f" (ok at {again.commit})" if again else ""
        lines.append(f"{row.verdict}: {row.commit}: --seed {row.seed} --faults {row.fault}: {why}{cured}")
    return lines


def succeeded_later(failed: Row, rows: Iterable[Row]) -> Row | None:
    """The first round of the same fault and seed that began later and was ok."""
    later = [r for r in rows if (r.fault, r.seed) == (failed.fault, failed.seed) and r.began > failed.began]
    return next((row for row in sorted(later, key=lambda row: row.began) if row.verdict is Verdict.OK), None)


def _skipped(rows: Iterable[Row]) -> list[tuple[str, str]]:
    return sorted({(row.fault, row.problems[0]) for row in rows if row.verdict is Verdict.SKIPPED})


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.summary", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="rounds.jsonl of a run")
    parser.add_argument("--each", action="store_true", help="a line for each round, too, with its commit")
    options = parser.parse_args(arguments)
    rows = [row for file in options.files for row in read_rows(file)]
    if options.each:
        for row in sorted(rows, key=lambda row: row.began):
            print(f"{row.commit:18} {row.began:25} {row.verdict:8} {row.fault} --seed {row.seed}: {row.choices}")
        print()
    print(summary(rows))
    return int(any(not row.is_good and succeeded_later(row, rows) is None for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
