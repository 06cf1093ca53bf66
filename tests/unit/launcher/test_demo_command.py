"""What the demonstration shows at its end, also where the audit could not run."""

from pathlib import Path

import pytest

from admin.consuming.record_history import HistoryRule
from deploy.local.cluster import LocalCluster
from launcher.demo.audit import AuditOutcome
from launcher.demo.klamm import KlammResult
from launcher.demo.load import LoadOutcome
from launcher.demo.summary import exit_code, klamm_document, print_summary
from state_log.histories import ONE_LEADER_PER_EPOCH

SLOW = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back."


def outcome(**anomalies: int) -> KlammResult:
    return KlammResult(
        "demo",
        LoadOutcome(60_000, {HistoryRule(rule): count for rule, count in anomalies.items()}),
        acknowledged_by_stage={"before the kills": 20_000, "after both kills": 40_000},
        leader_failover_ms=[2_100],
        controller_failover_ms=[900],
    )


def audited(**changes: object) -> AuditOutcome:
    found = {"verdict": "clean", "records": 200, "injected": "broker 2 beside 1", "found": {ONE_LEADER_PER_EPOCH: 1}}
    return AuditOutcome(**{**found, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("anomalies", "audit", "code"),
    [
        ({}, audited(), 0),
        ({"lost": 1}, audited(), 1),
        ({"moved": 1}, audited(), 1),
        ({"reordered": 1}, audited(), 1),
        ({}, audited(verdict="findings"), 1),
        ({}, audited(found={}), 1),
        ({}, audited(verdict="incomplete", gaps=["broker-2: there is no log of this node"]), 4),
        ({}, audited(verdict="incomplete", found={}), 1),
        ({}, AuditOutcome(failure=SLOW), 4),
        ({}, audited(found={}, failure=SLOW), 4),
        ({}, audited(verdict="findings", found={}, failure=SLOW), 1),
        ({"lost": 1}, AuditOutcome(failure=SLOW), 1),
    ],
)
def test_the_exit_code_tells_what_was_proven(
    anomalies: dict[str, int], audit: AuditOutcome, code: int, tmp_path: Path
) -> None:
    document = klamm_document(outcome(**anomalies), audit, LocalCluster.create_or_open(tmp_path), tmp_path / "report")
    assert exit_code(document) == code
    assert document["passed"] is (code == 0)


def test_what_the_audit_missed_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gaps = audited(verdict="incomplete", gaps=["broker-2: there is no log of this node"])
    document = klamm_document(outcome(), gaps, LocalCluster.create_or_open(tmp_path), tmp_path / "report")
    print_summary({**document, "seconds": 90.0})
    shown = capsys.readouterr().out
    assert "not everything was audited" in shown
    assert "incomplete, 200 records; broker-2: there is no log of this node" in shown


def test_a_failed_audit_leaves_what_was_proven_and_says_how_to_repeat_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = LocalCluster.create_or_open(tmp_path)
    document = klamm_document(outcome(), AuditOutcome(failure=SLOW), cluster, tmp_path / "report")
    print_summary({**document, "seconds": 90.0})
    shown = capsys.readouterr().out
    assert "INCOMPLETE" in shown
    assert "60,000" in shown
    assert f"could not run: {SLOW}" in shown
    assert str(tmp_path / "report" / "spark.log") in shown
    assert f"klamm audit run --once --log-dir {tmp_path / 'state-changes'}" in shown


def test_each_anomaly_of_the_records_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = LocalCluster.create_or_open(tmp_path)
    document = klamm_document(outcome(lost=2, moved=1, reordered=3), audited(), cluster, tmp_path / "report")
    assert (document["lost"], document["out_of_order"], document["read_back"]) == (2, 3, 59_998)
    print_summary({**document, "seconds": 90.0})
    shown = capsys.readouterr().out
    assert "FAILED" in shown
    assert "moved (1), reordered (3)" in shown
