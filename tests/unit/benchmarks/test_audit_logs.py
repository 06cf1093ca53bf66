"""The logs of the audit's benchmark have no fault, so that a benchmark measures an audit that finds nothing."""

from pathlib import Path

import pytest

from audit.storage.output_folder import OutputFolder
from benchmarks.audit_logs import INCIDENT, STEADY, write_logs
from tests.audits.log_audits import audit_folder


@pytest.mark.parametrize("case", [STEADY, INCIDENT])
def test_an_audit_of_them_is_clean(case: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    size = write_logs(logs, 6_000, 300, case)
    assert size == sum(path.stat().st_size for path in logs.iterdir())
    result = audit_folder(logs, tmp_path / "output")
    assert (result.verdict, result.findings, result.incomplete) == ("clean", {}, ())
    assert result.records >= 6_000


def test_all_partitions_of_a_broker_change_in_an_incident(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    write_logs(logs, 6_000, 300, INCIDENT)
    audit_folder(logs, tmp_path / "output")
    failovers = OutputFolder(tmp_path / "output").current_rows("failovers")
    # Each of five brokers leads a fifth of the partitions at first.
    assert failovers[0]["partitions"] == 60
    assert {row["leaderless_max_ms"] for row in failovers if row["partitions"]} == {1000}
