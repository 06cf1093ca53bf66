"""The table of the chaos suite: rounds are kept by seed and fault, and what failed shows."""

from pathlib import Path

import pytest

from tests.chaos.__main__ import FAULTS, choose, plan
from tests.chaos.table import Row, Table, Verdict, summary


def row(seed: int, fault: str, verdict: Verdict = Verdict.OK, *problems: str) -> Row:
    return Row(seed=seed, fault=fault, verdict=verdict, acknowledged=10, problems=list(problems))


def test_a_table_is_continued_by_seed_and_fault(tmp_path: Path) -> None:
    first = Table(tmp_path / "rounds.jsonl")
    first.add(row(1, "loss"))
    first.add(row(2, "loss", Verdict.STUCK, "why"))
    again = Table(tmp_path / "rounds.jsonl")
    assert again.rows == first.rows
    assert [again.has(seed, fault) for seed, fault in ((1, "loss"), (2, "loss"), (1, "mix"))] == [True, True, False]


def test_a_later_row_of_the_same_round_counts(tmp_path: Path) -> None:
    table = Table(tmp_path / "rounds.jsonl")
    table.add(row(1, "loss", Verdict.STUCK))
    table.add(row(1, "loss"))
    assert [r.verdict for r in Table(tmp_path / "rounds.jsonl").rows.values()] == [Verdict.OK]


def test_skipped_rounds_are_tried_again(tmp_path: Path) -> None:
    table = Table(tmp_path / "rounds.jsonl")
    table.add(row(1, "loss", Verdict.SKIPPED, "no network"))
    assert not table.has(1, "loss")


def test_a_line_that_was_not_finished_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "rounds.jsonl"
    Table(file).add(row(1, "loss"))
    file.write_bytes(file.read_bytes() + b'{"seed":2,"fau')
    table = Table(file)
    assert list(table.rows) == [(1, "loss")]
    table.add(row(3, "loss"))
    assert list(Table(file).rows) == [(1, "loss"), (3, "loss")]


def test_a_summary_shows_what_failed_and_why_rounds_were_skipped() -> None:
    shown = summary(
        [
            row(1, "loss"),
            row(2, "loss", Verdict.RECORDS, "plain:3 is gone"),
            row(1, "disk-full", Verdict.SKIPPED, "no mounts"),
        ]
    )
    assert "records: --seed 2 --faults loss: plain:3 is gone" in shown
    assert "skipped: disk-full: no mounts" in shown
    assert shown.splitlines()[-1] == "2 rounds, 30 records acknowledged, 1 failed, 1 skipped"


def test_each_pass_over_the_faults_has_its_own_seed() -> None:
    faults = choose("loss,mix")
    assert [(f.name, seed) for f, seed in plan(faults, 7, 5)] == [
        ("loss", 7),
        ("mix", 7),
        ("loss", 8),
        ("mix", 8),
        ("loss", 9),
    ]


def test_patterns_choose_faults() -> None:
    assert [f.name for f in choose("")] == list(FAULTS)
    chosen = [f.name for f in choose("loss,pause-*")]
    assert chosen[0] == "loss"
    assert {"pause-leader-long", "pause-controller-short"} <= set(chosen)
    with pytest.raises(SystemExit, match="no fault 'unknown'"):
        choose("unknown")
