"""Every alert fires, and every query that has a meaning returns data, on a live cluster under Debian's Prometheus."""

import sys
from pathlib import Path

import pytest

from tests.observability.prometheus_server import BINARY
from tests.observability.run import run_all
from tests.unit.deploy.test_prometheus_rules import alerts

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(3600)]


@pytest.mark.skipif(BINARY is None, reason="prometheus is not installed: apt-get install prometheus")
def test_every_alert_fires_and_every_query_has_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        result = run_all(tmp_path, say=lambda line: sys.stdout.write(f"{line}\n"))
    assert result.failures == []
    assert {alert for alert, _ in result.fired} == {alert["alert"] for alert in alerts()}
