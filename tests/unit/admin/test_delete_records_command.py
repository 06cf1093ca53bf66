"""Command lines that `klamm topics delete-records` refuses before it connects."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from launcher.__main__ import app


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "pass partitions with --before-offset"),
        (["orders-0"], "pass partitions with --before-offset"),
        (["--before-offset", "1"], "pass partitions with --before-offset"),
        (["orders-0", "--before-offset", "-2"], "must be at least -1"),
        (["orders-0", "--offset-json-file", "f"], "cannot be combined with partitions"),
        (["--before-offset", "1", "--offset-json-file", "f"], "cannot be combined with partitions"),
    ],
)
def test_partitions_need_an_offset_or_a_file(arguments: list[str], why: str) -> None:
    answer = CliRunner().invoke(app, ["topics", "delete-records", *arguments], env={"COLUMNS": "200"})
    assert answer.exit_code == 2
    assert why in answer.stderr


def test_every_name_that_is_no_partition_is_reported() -> None:
    answer = CliRunner().invoke(
        app, ["topics", "delete-records", "orders", "a-0", "b-x", "--before-offset", "1"], env={"COLUMNS": "200"}
    )
    assert answer.exit_code == 2
    assert all(f"'{name}': must be TOPIC-PARTITION" in answer.stderr for name in ("orders", "b-x"))
    assert "a-0" not in answer.stderr


def test_a_file_that_says_nothing_sensible_is_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    file.write_text('{"partitions": []}')
    answer = CliRunner().invoke(app, ["topics", "delete-records", "--offset-json-file", str(file)])
    assert answer.exit_code != 0
    assert "partitions: must list at least one partition" in str(answer.exception)
