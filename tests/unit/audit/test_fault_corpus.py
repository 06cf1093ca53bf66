"""Faults put into the logs of a simulated cluster: each is found by exactly its rules, or named as incomplete."""

from pathlib import Path

import pytest

from audit.records.findings import CLEAN
from tests.audit_corpus.clean_logs import simulated_logs
from tests.audit_corpus.fault import differences
from tests.audit_corpus.faults import FAULTS
from tests.audit_corpus.in_process import audit_fault
from tests.audit_corpus.logs import SOUND_LOGS
from tests.audits.log_audits import audit_folder


@pytest.mark.parametrize("name", FAULTS)
def test_exactly_the_fault_is_found(name: str, tmp_path: Path) -> None:
    assert differences(FAULTS[name], audit_fault(FAULTS[name], SOUND_LOGS, tmp_path / "audit")) == []


def test_an_order_that_earlier_rules_did_not_keep_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an output that a klamm without the rule has begun."""
    fault = FAULTS["a replica deleted by its broker, which nobody had told to"]
    monkeypatch.setattr("audit.batches.batch.RULES_VERSION", 8)
    result = audit_fault(fault, SOUND_LOGS, tmp_path / "audit")
    assert result.rules.startswith("judged by version 8 of the rules")
    assert result.findings == {}


def test_the_logs_of_a_longer_run_are_clean_in_many_batches(tmp_path: Path) -> None:
    result = audit_folder(simulated_logs(tmp_path, 2), tmp_path / "audit", 1 << 20)
    assert (result.verdict, result.findings, result.incomplete) == (CLEAN, {}, ())
