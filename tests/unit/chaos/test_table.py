"""The table of the chaos suite: rounds are kept by seed and fault, and what failed shows."""

from pathlib import Path

import pytest

from tests.chaos import summary as program
from tests.chaos.__main__ import FAULTS, choose, plan
from tests.chaos.summary import summary
from tests.chaos.table import Row, Table, Verdict


def row(seed: int, fault: str, verdict: Verdict = Verdict.OK, *problems: str, commit: str = "c1") -> Row:
    made = Row(seed=seed, fault=fault, verdict=verdict, commit=commit, began=f"of {commit}", acknowledged=10)
    made.problems = list(problems)
    return made


def columns(shown: str, line: str) -> dict[str, str]:
    """The numbers of the first line that begins so."""
    lines = shown.splitlines()
    names = lines[0].replace(" s ", "_s ").split()
    found = next(text for text in lines if text.startswith(f"{line} "))
    return dict(zip(names, found.split(), strict=False))


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
    assert "records: c1: --seed 2 --faults loss: plain:3 is gone" in shown
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


def test_a_summary_counts_by_fault_what_became_of_records_and_rounds() -> None:
    lossy = row(1, "loss", Verdict.RECORDS, "gone")
    lossy.violations = {"lost": 3, "duplicated": 2}
    shown = summary([lossy, row(2, "loss", Verdict.STUCK, "why"), row(3, "loss"), row(1, "mix", Verdict.SILENT, "why")])
    expected = {"rounds": "3", "ok": "1", "lost": "3", "duplicated": "2", "moved": "0", "silent": "0", "stuck": "1"}
    assert columns(shown, "loss").items() >= {**expected, "other": "1", "acked": "30"}.items()
    assert columns(shown, "mix")["silent"] == "1"
    assert columns(shown, "all")["rounds"] == "4"


def test_one_table_of_several_files_names_the_commits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    Table(first).add(row(1, "loss", Verdict.STUCK, "why", commit="c1"))
    Table(second).add(row(1, "mix", commit="c2"))
    assert program.main(["--each", str(first), str(second)]) == 1
    shown = capsys.readouterr().out
    assert columns(shown[shown.index("fault ") :], "c2")["rounds"] == "1"
    assert "stuck: c1: --seed 1 --faults loss: why" in shown.splitlines()
    assert any(line.startswith("c2 ") and "mix --seed 1" in line for line in shown.splitlines())


def test_a_failure_that_later_went_well_is_shown_and_does_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl"
    Table(file).add(row(1, "loss", Verdict.STUCK, "why", commit="c1"))
    Table(file).add(row(1, "loss", commit="c2"))
    assert program.main([str(file)]) == 0
    assert "stuck: c1: --seed 1 --faults loss: why (ok at c2)" in capsys.readouterr().out.splitlines()
