"""Outputs of other versions of klamm: gone on with, rebuilt, or refused by an error that says what to do."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from audit.batches.rebuild import rebuild
from audit.report.report import read_result
from audit.storage import state_versions
from audit.storage.commits import Commit
from audit.storage.committed_state import OutputError
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import RULES_VERSION, VERSION
from tests.audits.log_audits import FolderAudit
from tests.audits.older_outputs import BUCKETS_2, make_version, make_version_2
from tests.audits.outputs import leave_checkpoint, rows_that_hold
from tests.audits.state_change_histories import draw, write_logs


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("logs")
    write_logs(draw(21, steps=120, partitions=4).logs, folder)
    return folder


def commit_of(folder: OutputFolder) -> Commit:
    commit = folder.last_commit()
    assert commit is not None
    return commit


@pytest.fixture
def audit(logs: Path, tmp_path: Path) -> FolderAudit:
    """An audit that has read half of the logs."""
    audit = FolderAudit(logs, tmp_path, buckets=BUCKETS_2)
    audit.read(20_000, 1)
    leave_checkpoint(tmp_path)
    return audit


@pytest.fixture(scope="module")
def audited(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output with half of the logs."""
    output: Path = tmp_path_factory.mktemp("audited")
    FolderAudit(logs, output, buckets=2).read(20_000, 1)
    leave_checkpoint(output)
    return output


@pytest.fixture
def output(audited: Path, tmp_path: Path) -> Path:
    """One of it that may be changed."""
    return Path(shutil.copytree(audited, tmp_path / "output"))


def test_an_output_of_version_2_is_gone_on_with(audit: FolderAudit, tmp_path: Path, logs: Path) -> None:
    make_version_2(tmp_path)
    folder = OutputFolder(tmp_path)
    folder.check()
    commit = commit_of(folder)
    assert (commit.version, commit.bucket_count, commit.rebuilds, commit.rules) == (VERSION, BUCKETS_2, 0, (1,))
    audit.read(20_000)
    undisturbed = FolderAudit(logs, tmp_path / "undisturbed", buckets=BUCKETS_2)
    undisturbed.read(20_000)
    assert rows_that_hold(tmp_path) == rows_that_hold(tmp_path / "undisturbed")
    assert commit_of(folder).rules == (1, RULES_VERSION)
    assert replace(commit_of(folder), rules=(RULES_VERSION,)) == commit_of(OutputFolder(tmp_path / "undisturbed"))


def test_a_newer_version_names_the_file_and_the_newer_klamm(output: Path) -> None:
    make_version(output, VERSION + 1)
    with pytest.raises(OutputError, match=rf"commits/0.json: is of version {VERSION + 1}.*use the newer klamm") as said:
        OutputFolder(output).check()
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("version", [1, "2", None])
def test_a_version_that_cannot_be_upgraded_needs_a_new_output(version: Any, output: Path) -> None:
    make_version(output, version)
    with pytest.raises(OutputError, match=r"commits/0.json: .*version.*new --output"):
        OutputFolder(output).check()


def _without_state_of_partitions(commit: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**commit, "must_rebuild": True}


def test_state_that_has_become_another_is_rebuilt(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of the next version, whose state of partitions is not the one of today."""
    known = rows_that_hold(output)
    monkeypatch.setattr(state_versions, "VERSION", VERSION + 1)
    monkeypatch.setattr(
        state_versions, "_UPGRADES", {**state_versions._UPGRADES, VERSION: _without_state_of_partitions}
    )
    folder = OutputFolder(output)
    with pytest.raises(OutputError, match=f"run 'klamm audit rebuild --output {output}'"):
        folder.check()
    assert rebuild(folder).changed == {}
    folder.check()
    assert (commit_of(folder).version, commit_of(folder).must_rebuild) == (VERSION + 1, False)
    assert rows_that_hold(output) == known


def test_the_report_says_which_versions_of_the_rules_were_applied(
    audit: FolderAudit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_result(tmp_path).rules == ""
    for module in ("audit.batches.batch", "audit.report.report"):
        monkeypatch.setattr(f"{module}.RULES_VERSION", RULES_VERSION + 1)
    said = f"judged by version {RULES_VERSION} of the rules; 'klamm audit rebuild'"
    assert read_result(tmp_path).rules.startswith(said)
    audit.read(20_000)
    assert read_result(tmp_path).rules.startswith(
        f"judged by version {RULES_VERSION}, {RULES_VERSION + 1} of the rules"
    )
    leave_checkpoint(tmp_path)
    rebuild(OutputFolder(tmp_path))
    assert read_result(tmp_path).rules == ""
