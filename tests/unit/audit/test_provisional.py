"""Findings about what was not read to its end are provisional, in the result and one by one."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from audit.batches.cluster_state import ClusterState
from audit.chains.incarnations import Span
from audit.chains.witnesses import LAG_MS, LOG_CUT
from audit.records.findings import CLEAN, FINDINGS
from audit.report.html.build import content
from audit.report.provisional import Horizon, horizon_of
from audit.report.report import read_findings, read_result
from audit.storage.commits import Commit
from audit.storage.given_heads import add_given
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import VERSION
from tests.audit_corpus.logs import CONTROLLER, SOUND_LOGS, Logs
from tests.audits.log_audits import FolderAudit


def found(rule: str, subject: str, at_ms: int | None) -> dict[str, Any]:
    return {"rule": rule, "subject": subject, "at_ms": at_ms}


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        (found("one-leader-per-epoch", "t-0 leader-epoch 4", 99), False),
        (found("one-leader-per-epoch", "t-0 leader-epoch 4", 100), False),
        (found("one-leader-per-epoch", "t-0 leader-epoch 4", 101), True),
        (found("chain-break", "log broker-1/1", None), False),
        (found(LOG_CUT, "log broker-1/1", None), True),
        (found(LOG_CUT, "log broker-2/1", None), False),
    ],
)
def test_a_finding_is_provisional_beyond_what_all_logs_were_read_to(finding: dict[str, Any], expected: bool) -> None:
    assert Horizon(100, frozenset({"broker-1/1"})).is_provisional(finding) is expected


def test_what_a_first_batch_finds_is_provisional_and_stands_at_the_end(tmp_path: Path) -> None:
    logs, output = Logs(Path(shutil.copytree(SOUND_LOGS, tmp_path / "logs"))), tmp_path / "output"
    logs.change_lines(CONTROLLER, lambda lines: lines[: len(lines) // 2])
    audit = FolderAudit(logs.folder, output, buckets=1)
    audit.read(1 << 13, 1)
    first = read_result(output)
    assert (first.verdict, set(first.findings)) == (FINDINGS, {LOG_CUT})
    assert first.provisional == sum(first.findings.values())
    assert all(each["provisional"] for each in read_findings(output, 10))
    assert content(output, 0).provisional == first.provisional
    audit.read()
    last = read_result(output)
    assert (last.findings, last.provisional) == ({LOG_CUT: 1}, 0)
    assert [each["provisional"] for each in read_findings(output, 10)] == [False]


def test_sound_logs_are_clean_once_all_was_read(tmp_path: Path) -> None:
    output = tmp_path / "output"
    FolderAudit(SOUND_LOGS, output, buckets=1).read()
    assert (read_result(output).verdict, read_result(output).provisional) == (CLEAN, 0)


def test_a_log_that_was_not_begun_may_have_lines_of_any_time(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "broker-1-1795356180123.1-00000000000000000000.jsonl"
    log.parent.mkdir()
    log.write_bytes(b"{}\n")
    commit = Commit(VERSION, 0, "", {}, taken={"broker-2-1795356180123.1": (str(log.parent / "gone.jsonl"), 7)})
    horizon = horizon_of(OutputFolder(tmp_path / "output"), commit, ClusterState())
    assert horizon == Horizon(float("-inf"), frozenset({"broker-1-1795356180123.1"}))


def test_the_last_minute_of_logs_that_are_followed_is_provisional(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path)
    spans = {f"broker-{n}/1": Span(f"broker-{n}", "1", 1_000 * n, 100_000 * n) for n in (1, 2)}
    commit, state = Commit(VERSION, 0, "", {}), ClusterState(spans=spans)
    assert horizon_of(folder, commit, state).at_ms == float("inf")
    assert horizon_of(folder, None, state).at_ms == float("inf")
    add_given(folder, [], lag_ms=LAG_MS)
    assert horizon_of(folder, commit, state) == Horizon(200_000 - LAG_MS, frozenset())
    assert horizon_of(folder, commit, ClusterState()).at_ms == float("inf")
