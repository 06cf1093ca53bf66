"""The report of the benchmark of a cluster: medians, and another system's rows beside them."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.cluster_cases import Measurement, Plan
from benchmarks.cluster_load import LoadMeasures
from benchmarks.cluster_report import ClusterReport, peer_median, print_report, read_peer
from cluster.model.errors import ConfigError

ROWS = [
    {"mode": "kraft", "m": "M1", "all_brokers": 31.0, "answered": 1.0},
    {"mode": "kraft", "m": "M1", "all_brokers": 91.0, "answered": 2.0},
    {"mode": "kraft", "m": "M3", "moved_from_log": 0.5, "led": 3333},
]


def test_figures_stand_beside_the_median_of_the_peer() -> None:
    load = LoadMeasures(100, 5.0, 20.0, 30.0, 1)
    measured = [
        Measurement(run, "create", {"answered": answered}, load) for run, answered in enumerate((3.0, 4.5, 9.0))
    ]
    shown = io.StringIO()
    print_report(ClusterReport("a machine", Plan(1000, 10), measured), ROWS, Console(file=shown, width=120))
    [row] = [line.split() for line in shown.getvalue().splitlines() if line.split()[:2] == ["create", "answered"]]
    assert row == ["create", "answered", "4.50", "3.00", "9.00", "1.50", "3.00"]
    assert "create: p50 5, p99 20, longest 30 ms (100 records, 1 failed)" in shown.getvalue()


def test_the_first_measure_that_the_peer_has_counts() -> None:
    assert peer_median(ROWS, "create", "all agents know") == 61.0
    assert peer_median(ROWS, "kill", "all moved since detection") == 0.5
    assert peer_median(ROWS, "idle", "MiB of agent") is None
    assert peer_median(ROWS, "shutdown", "process gone") is None


def test_rows_of_a_peer_are_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "peer.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)) + "\n\n")
    assert read_peer(file) == ROWS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"m": "M1"}\nnonsense', "line 2: is not JSON"),
        ("[1]", "line 1: is not a row"),
        ('{"mode": "kraft"}', "line 1: is not a row"),
    ],
)
def test_a_malformed_row_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "peer.jsonl"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_peer(file)
    with pytest.raises(ConfigError, match=r"--peer .*missing"):
        read_peer(tmp_path / "missing")
