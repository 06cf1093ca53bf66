"""`klamm audit verify` writes its result in every format that the other commands have."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from audit.cli import app
from cluster.process.exit_codes import ExitCode
from simulator.segments import write_segment
from state_log.record import Cause, Kind, Stamper, StateChange
from state_log.writer import SegmentName

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
