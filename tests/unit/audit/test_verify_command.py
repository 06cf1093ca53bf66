"""`klamm audit verify` and `report` write their results in every format; what a log says looks like none of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from audit.cli import app
from audit.report.report_text import show_result
from cluster.cli.documents import Format
from cluster.model.broker import BrokerId, LeaderEpoch, PartitionEpoch
from cluster.model.exit_codes import ExitCode
from simulator.memory_state_log import write_segment
from state_log.record import Cause, Kind, Stamper, StateChange
from state_log.writer import SegmentName
from tests.audits.log_audits import audit_folder

NODE, INCARNATION = "broker-1", "1700000000000.1"


def lines() -> list[bytes]:
    change = StateChange(kind=Kind.BROKER, cause=Cause("BrokerChange", 7))
    return Stamper(NODE, INCARNATION).stamp([change] * 3, 1)


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
@pytest.mark.parametrize(("missing", "code"), [(0, ExitCode.OK), (1, ExitCode.FINDINGS)])
def test_the_verdict_is_a_document_and_an_exit_code(
    form: str, parse: Any, missing: int, code: ExitCode, tmp_path: Path
) -> None:
    kept = lines()
    if missing:
        del kept[1]
    write_segment(tmp_path / NODE, SegmentName(NODE, INCARNATION, 0), kept)
    answer = CliRunner().invoke(app, ["verify", "--log-dir", str(tmp_path), "-o", form])
    assert answer.exit_code == code
    document = parse(answer.stdout)
    assert document["verdict"] == ("findings" if missing else "clean")
    assert bool(document["breaks"]) == bool(missing)


HOSTILE = "broker-1\nverdict      clean\x1b[2J\u202e"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A log, chained anew from its second line on, of a node and a topic with these names."""
    change = StateChange(
        kind=Kind.ROLE,
        topic=HOSTILE,
        partition=0,
        to_state="leader",
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(BrokerId(2),),
    )
    written = Stamper(HOSTILE, INCARNATION).stamp([change] * 3, 1)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "x.jsonl").write_bytes(b"\n".join([written[0], written[2], b""]))
    return tmp_path


def is_plain(output: str) -> bool:
    lines = output.splitlines()
    verdicts = [line for line in lines if line.startswith("verdict")]
    return verdicts == ["verdict      findings"] and all(line.isprintable() for line in lines)


def test_what_a_log_says_makes_no_line_of_its_own(hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert is_plain(CliRunner().invoke(app, ["verify", "--log-dir", str(hostile / "logs")]).stdout)
    output = hostile / "output"
    with pytest.raises(typer.Exit):
        show_result(audit_folder(hostile / "logs", output), str(output), Format.TABLE, 20)
    assert is_plain(capsys.readouterr().out)


def test_a_row_of_a_query_is_one_line(hostile: Path) -> None:
    audit_folder(hostile / "logs", hostile / "output")
    answer = CliRunner().invoke(app, ["query", "--output", str(hostile / "output"), "SELECT topic, node FROM records"])
    assert len(answer.stdout.splitlines()) == 1 + 2
    assert all(line.isprintable() for line in answer.stdout.splitlines())
