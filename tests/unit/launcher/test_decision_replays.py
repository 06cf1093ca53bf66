"""`klamm audit replay`: what it says, as a table and as JSON, and its exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.model.exit_codes import ExitCode
from launcher.audits import app
from tests.controllers.decision_logs import DecisionLog
from tests.unit.controller.replay.test_decision_replay import failed, loaded


def replay(folder: Path, *options: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["replay", "--log-dir", str(folder), *options])
    return ran.exit_code, ran.stdout


def undecided() -> DecisionLog:
    return loaded().event("BrokerChange").broker(2, "dead").isr("replica offline", (1, 5, 9, (1,)), 2)


def test_sound_decisions_are_clean(tmp_path: Path) -> None:
    failed().write(tmp_path)
    code, text = replay(tmp_path)
    assert code == ExitCode.OK
    assert text.splitlines()[0] == "verdict      clean"


def test_a_wrong_decision_is_shown_beside_the_one_of_the_code(tmp_path: Path) -> None:
    failed().changed(4, leader=3).write(tmp_path)
    code, text = replay(tmp_path)
    assert code == ExitCode.FINDINGS
    assert text.splitlines()[-3:] == [
        "differs leader  orders-0 election Offline [controller-1001/1700000000000.1/4]",
        "    decided  leader 3, ISR [2,3], leader epoch 5, partition epoch 8",
        "    instead  leader 2, ISR [2,3], leader epoch 5, partition epoch 8",
    ]


def test_what_no_log_says_is_named(tmp_path: Path) -> None:
    undecided().write(tmp_path)
    code, text = replay(tmp_path, "-o", "json")
    assert code == ExitCode.INCOMPLETE
    document = json.loads(text)
    assert document["verdict"] == "incomplete"
    assert document["incomplete"] == [
        {
            "missing": "the state before it, of partition epoch 8",
            "decisions": 1,
            "first": "controller-1001/1700000000000.1/3",
        }
    ]


def test_a_folder_without_logs_is_no_clean_one(tmp_path: Path) -> None:
    code, text = replay(tmp_path)
    assert code == ExitCode.INCOMPLETE
    assert "no controller's log was read" in text


@pytest.mark.parametrize("arguments", [["--log-dir", "/nowhere"], ["--timezone", "Mars/Olympus"], []])
def test_wrong_usage_is_refused(arguments: list[str], tmp_path: Path) -> None:
    given = arguments if not arguments or arguments[0] == "--log-dir" else ["--log-dir", str(tmp_path), *arguments]
    assert CliRunner().invoke(app, ["replay", *given]).exit_code == ExitCode.USAGE


def test_a_malformed_line_is_counted(tmp_path: Path) -> None:
    path = failed().write(tmp_path)
    path.write_bytes(path.read_bytes() + b"{}\n")
    code, text = replay(tmp_path, "-o", "json")
    assert code == ExitCode.INCOMPLETE
    # Once for its states, once for its decisions would be twice.
    assert [gap["decisions"] for gap in json.loads(text)["incomplete"]] == [1]
