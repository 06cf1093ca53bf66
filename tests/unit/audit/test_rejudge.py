"""`klamm audit rejudge`: what today's rules find otherwise in the records of an audit, which stays as it is."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from audit import cli
from audit.records.findings import FINDINGS
from audit.report.rejudge import rejudge
from audit.report.rejudge_text import show_rejudged
from audit.rules import state_sequences
from audit.storage.committed_state import OutputError
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import RULES_VERSION
from cluster.cli.documents import Format
from cluster.model.exit_codes import ExitCode
from tests.audits.log_audits import FolderAudit
from tests.audits.outputs import leave_checkpoint
from tests.audits.state_change_histories import draw, write_logs
from tests.unit.audit.test_rebuild import leave_out
from tests.unit.state_log.test_invariants import leader_epoch_leap, second_leader_by_an_agent

LEAP = "leader-epoch-by-one"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("rejudged")
    cluster = draw(21, steps=60, partitions=3)
    leader_epoch_leap(cluster)
    second_leader_by_an_agent(cluster)
    write_logs(cluster.logs, top / "logs")
    FolderAudit(top / "logs", top / "output").read()
    leave_checkpoint(top / "output")
    return top / "output"


def files_of(output: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(output.rglob("*")) if path.is_file()}


def test_the_same_rules_find_the_same(output: Path) -> None:
    before = files_of(output)
    compared = rejudge(OutputFolder(output))
    assert compared.is_same
    assert (compared.verdict, compared.verdict_before) == (FINDINGS, FINDINGS)
    assert compared.rules == RULES_VERSION
    assert files_of(output) == before


def test_what_other_rules_do_not_find_any_more_goes_and_the_output_stays(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, check = files_of(output), state_sequences.RULE.check
    leave_out(monkeypatch, lambda batch: [f for f in check(batch) if f.rule != LEAP])
    compared = rejudge(OutputFolder(output))
    assert not compared.is_same
    assert set(compared.counts()["gone"]) == {LEAP}
    assert compared.appeared == ()
    assert files_of(output) == before


def test_what_the_rules_before_did_not_find_appears(
    output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check = state_sequences.RULE.check
    with monkeypatch.context() as patched:
        leave_out(patched, lambda batch: [f for f in check(batch) if f.rule != LEAP])
        FolderAudit(output.parent / "logs", tmp_path / "output").read()
    leave_checkpoint(tmp_path / "output")
    compared = rejudge(OutputFolder(tmp_path / "output"))
    assert set(compared.counts()["appeared"]) == {LEAP}
    assert show_rejudged(compared, Format.TABLE, 1) is ExitCode.FINDINGS
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"verdict      findings, by the rules of version {RULES_VERSION}"
    assert any(line.startswith("appears ") and line.endswith(LEAP) for line in lines)
    assert sum(line.startswith(f"appears {LEAP}") for line in lines) == 1


def test_the_command_says_it_as_json_with_the_code_of_the_verdict(output: Path) -> None:
    ran = CliRunner().invoke(cli.app, ["rejudge", "--output", str(output), "-o", "json"])
    assert ran.exit_code == ExitCode.FINDINGS, ran.output
    document = json.loads(ran.stdout)
    assert document["same"] is True
    assert document["verdict"] == document["verdict_before"] == FINDINGS


def test_an_output_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="nothing was audited yet"):
        rejudge(OutputFolder(tmp_path))
