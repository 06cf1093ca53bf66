"""The start of a Python worker takes longer than Spark waits for it. A session of its own: Spark allows one."""

import sys
from pathlib import Path

import pytest

from audit.job import run_audit
from audit.options import AuditOptions
from tests.audits.state_change_histories import draw, write_logs

pytestmark = pytest.mark.real


def test_a_machine_too_busy_to_start_a_worker_in_time_delays_the_audit_and_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = tmp_path / "python"
    started = tmp_path / "started"
    # Spark gives the process that reads the source ten seconds to connect; the others may take their time.
    interpreter.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *streaming*) [ -e {started} ] || {{ touch {started}; sleep 12; }};; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    cluster = draw(12, steps=40, partitions=2, unclean=False)
    write_logs(cluster.logs, tmp_path / "logs")
    result = run_audit([tmp_path / "logs"], tmp_path / "output", AuditOptions(once=True))
    assert started.exists()
    assert (result.verdict, result.records) == ("clean", sum(map(len, cluster.logs.values())))
