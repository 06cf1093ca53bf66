"""What each target did: one line of JSON per target and run of the deep suite, and their sum as a table.

`python -m tests.fuzz.table [FILE…]` prints the table of all runs, by default those in `build/fuzz/runs.jsonl`.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

RUNS_FILE: Final = Path(__file__).resolve().parents[2] / "build" / "fuzz" / "runs.jsonl"


class Run(Struct):
    """What one target has done in one run. `seconds` of CPU time of the test's process; `found`: "" if nothing."""

    target: str
    commit: str = ""
    cases: int = 0
    seconds: float = 0.0
    found: str = ""


def keep(runs: Iterable[Run], commit: str, file: Path = RUNS_FILE) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as lines:
        for run in runs:
            run.commit = commit
            lines.write(msgspec.json.encode(run) + b"\n")


def table(runs: Iterable[Run]) -> list[str]:
    """A line per target: how many runs and cases, their CPU time, and each thing that was found, with its commit."""
    by_target: dict[str, list[Run]] = {}
    for run in runs:
        by_target.setdefault(run.target, []).append(run)
    lines = [f"{'target':32} {'runs':>5} {'cases':>9} {'CPU s':>8}  found"]
    for target, done in by_target.items():
        found = "; ".join(dict.fromkeys(f"{run.commit}: {run.found}".removeprefix(": ") for run in done if run.found))
        lines.append(
            f"{target:32} {len(done):>5} {sum(run.cases for run in done):>9} {sum(run.seconds for run in done):>8.1f}"
            f"  {found or '-'}"
        )
    return lines


def main(arguments: Sequence[str]) -> None:
    files = [Path(argument) for argument in arguments] or [RUNS_FILE]
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    print("\n".join(table(msgspec.json.decode(line, type=Run) for line in lines)))


if __name__ == "__main__":
    main(sys.argv[1:])
