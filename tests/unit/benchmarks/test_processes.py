"""What a measurement reads from the processes that it starts."""

import asyncio
from pathlib import Path

import pytest

from benchmarks.processes import ControllerProcess
from cluster.metrics.registry import Metrics
from cluster.metrics.server import serve_metrics


def test_a_proxy_of_the_environment_is_not_asked_for_processes_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    metrics = Metrics()
    metrics.gauge("d", "t", "n").set(7)
    controller = ControllerProcess(1001, "127.0.0.1:1", tmp_path)
    _, close = serve_metrics(metrics, controller._metrics)
    try:
        assert asyncio.run(controller.metrics())["d_t_n"] == 7
    finally:
        close()
