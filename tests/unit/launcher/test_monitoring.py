"""What `klamm monitoring` writes is what Prometheus, Alertmanager and Grafana take."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from launcher.__main__ import app
from tests.processes.installations import ROOT


def written(folder: Path, *arguments: str) -> str:
    answer = CliRunner().invoke(app, ["monitoring", "--output", str(folder), *arguments])
    assert answer.exit_code == 0, (answer.output, answer.exception)
    return answer.stdout


def accepted(program: str, *arguments: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    answer = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_cluster_of_this_machine_is_scraped_by_its_file_of_targets(tmp_path: Path) -> None:
    written(tmp_path / "m", "--data", str(tmp_path / "cluster"))
    prometheus = yaml.safe_load((tmp_path / "m/prometheus/prometheus.yml").read_text())
    job, itself = prometheus["scrape_configs"]
    assert itself == {"job_name": "prometheus", "static_configs": [{"targets": ["127.0.0.1:9090"]}]}
    assert job["file_sd_configs"][0]["files"] == [str(tmp_path / "cluster/prometheus-targets.json")]


def test_processes_that_are_named_have_their_job_and_node(tmp_path: Path) -> None:
    others = ("--alertmanager", "a:9093", "--prometheus", "p:9091")
    written(tmp_path / "m", "--controller", "c1:9404", "--broker", "b1:9404,b2:9404", *others)
    prometheus = yaml.safe_load((tmp_path / "m/prometheus/prometheus.yml").read_text())
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in prometheus["scrape_configs"]}
    of_klamm = {"klamm-controller": ["c1:9404"], "klamm-broker": ["b1:9404", "b2:9404"]}
    assert targets == {**of_klamm, "prometheus": ["p:9091"]}
    assert all(job["relabel_configs"][0]["target_label"] == "node" for job in prometheus["scrape_configs"][:2])
    assert prometheus["alerting"]["alertmanagers"][0]["static_configs"] == [{"targets": ["a:9093"]}]


def test_rules_dashboards_and_runbooks_are_those_that_are_shipped(tmp_path: Path) -> None:
    files = json.loads(written(tmp_path / "m", "--runbooks", "https://wiki.example.org/klamm", "-o", "json"))["files"]
    for folder, pattern, to in (
        ("deploy/prometheus", "*.rules.yaml", "prometheus"),
        ("deploy/grafana/dashboards", "*.json", "grafana/dashboards"),
    ):
        assert {f"{to}/{path.name}" for path in (ROOT / folder).glob(pattern)} <= set(files)
    rules = (tmp_path / "m/prometheus/alerts.rules.yaml").read_text()
    assert "runbook_url: https://wiki.example.org/klamm#offlinepartitions" in rules
    assert "docs/alerts.md" not in rules


def test_copies_of_metrics_are_written_on_request_and_removed_when_nobody_asks_for_them(tmp_path: Path) -> None:
    def copies(*arguments: str) -> set[str]:
        files = set(json.loads(written(tmp_path / "m", *arguments, "-o", "json"))["files"])
        there = {f"prometheus/{path.name}" for path in (tmp_path / "m/prometheus").glob("*.rules.yaml")}
        assert there <= files
        return there - {"prometheus/alerts.rules.yaml", "prometheus/klamm.rules.yaml"}

    assert copies() == set()
    assert copies("--strimzi", "--force") == {"prometheus/strimzi.rules.yaml"}
    assert copies("--confluent", "--force") == {"prometheus/confluent.rules.yaml"}
    assert copies("--force") == set()


def test_prometheus_and_alertmanager_accept_it(tmp_path: Path) -> None:
    written(tmp_path / "m", "--controller", "c1:9404", "--strimzi", "--confluent")
    accepted("promtool", "check", "config", str(tmp_path / "m/prometheus/prometheus.yml"))
    accepted("amtool", "check-config", str(tmp_path / "m/alertmanager.yml"))


def test_files_that_are_there_are_replaced_on_demand_only(tmp_path: Path) -> None:
    written(tmp_path / "m")
    rules = tmp_path / "m/prometheus/alerts.rules.yaml"
    rules.write_text("mine")
    assert CliRunner().invoke(app, ["monitoring", "--output", str(tmp_path / "m")]).exit_code == 1
    assert rules.read_text() == "mine"
    written(tmp_path / "m", "--force")
    assert rules.read_text() != "mine"
