"""Rules and alerts agree with the metrics, with their documents, and with promtool."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.metrics.catalogue import COUNTER, SUMMARY, catalogue
from cluster.metrics.registry import exposition_name
from cluster.process.local_cluster import BROKER, CONTROLLER, ZOOKEEPER, LocalClusterState, Member
from deploy.local.cluster_folder import TARGETS_FILE, ClusterFolder
from deploy.prometheus.dashboard_rules import rendered
from tests.observability.coverage import reason_of
from tests.observability.selectors import STRIMZI, Dashboard, dashboards

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "prometheus"
COPIES = FOLDER / "copies"
RULE_FILES = sorted([*FOLDER.glob("*.rules.yaml"), *COPIES.glob("*.rules.yaml")])
RUNBOOKS = ROOT / "docs" / "alerts.md"
OF_OTHERS = re.compile(
    r"up$|process_|jvm_|prometheus_|klamm:|(quorum_size|num_alive_connections|outstanding_requests|znode_count|watch_count|(min|avg|max)_latency)$"
)
"""Prometheus's own, the process collector's, our recording rules, ZooKeeper's Prometheus provider's."""
NO_METRIC = {
    *("and", "or", "unless", "on", "offset", "sum", "max", "min", "count", "topk", "bottomk"),
    *("rate", "increase", "changes", "clamp_min", "predict_linear", "max_over_time", "min_over_time"),
    *("label_replace", "vector", "round", "time"),
}
"""Operators and functions of PromQL."""


def document(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


def rules(path: Path) -> list[dict[str, Any]]:
    return [rule for group in document(str(path.relative_to(FOLDER)))["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return rules(FOLDER / "alerts.rules.yaml")


def exposed_names() -> set[str]:
    names = set()
    for metric in catalogue():
        domain, _, type_ = metric.bean.partition(":type=")
        name = exposition_name(domain, type_, metric.name)
        names |= {COUNTER: {f"{name}_total"}, SUMMARY: {name, f"{name}_count", f"{name}_sum"}}.get(metric.type, {name})
    return names


def metrics_of(expression: str) -> set[str]:
    """The names of metrics in a PromQL expression."""
    bare = re.sub(r"\b(by|without|on)\s*\([^)]*\)", " ", re.sub(r"\{[^}]*\}|\"[^\"]*\"|\[[^\]]*\]", " ", expression))
    names = re.findall(r"[a-z_:][a-z0-9_:]*", re.sub(r"\b\d[\d.e]*[smhd]?\b", " ", bare))
    return {name for name in names if name not in NO_METRIC}


@pytest.mark.parametrize("name", ["strimzi", "confluent"])
def test_rules_for_other_dashboards_are_made_by_the_tool(name: str) -> None:
    made = (COPIES / f"{name}.rules.yaml").read_text("utf-8")
    assert made == rendered(name), "run .venv/bin/python -m deploy.prometheus.dashboard_rules"


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda dashboard: dashboard.path.rpartition("/")[2])
def test_what_a_dashboard_of_others_asks_for_is_copied_or_has_no_meaning_here(dashboard: Dashboard) -> None:
    name = "strimzi" if dashboard.repository == STRIMZI else "confluent"
    copied = {rule["record"] for rule in rules(COPIES / f"{name}.rules.yaml")}
    missing = [
        query.panel
        for query in dashboard.queries
        if not {selector.partition("{")[0] for selector in query.selectors} <= copied
        and ("zookeeper" in dashboard.path or not any(map(reason_of, query.selectors)))
    ]
    assert missing == []


@pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.name)
def test_every_metric_that_a_rule_asks_for_is_exposed(path: Path) -> None:
    known = exposed_names()
    asked = {name for rule in rules(path) for name in metrics_of(rule["expr"])}
    assert sorted(name for name in asked if name not in known and not OF_OTHERS.match(name)) == []


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    text = RUNBOOKS.read_text("utf-8")
    names = [alert["alert"] for alert in alerts()]
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == names
    for alert in alerts():
        name, severity = alert["alert"], alert["labels"]["severity"]
        assert alert["annotations"]["runbook_url"] == f"docs/alerts.md#{name.lower()}"
        expression = alert["expr"]
        assert "|" not in expression, "it would end a cell of the table"
        assert f"| [{name}](#{name.lower()}) | {severity} | {alert.get('for', 'at once')} | `{expression}` |" in text
        assert severity in {"critical", "warning"}


def test_every_alert_has_a_case_that_is_quiet_and_one_that_fires() -> None:
    """Others of the same kind, named after a comma, may follow."""
    cases = [(case["name"], case["alert_rule_test"][0]) for case in document("alerts_test.yaml")["tests"]]
    kinds = ((name.partition(", ")[0], test["alertname"], bool(test["exp_alerts"])) for name, test in cases)
    expected = [(f"{a['alert']}: {what}", a["alert"], what == "fires") for a in alerts() for what in ("quiet", "fires")]
    assert list(dict.fromkeys(kinds)) == expected


def test_both_scrape_configurations_have_the_same_rules_and_jobs() -> None:
    compose, local = document("prometheus.yml"), document("prometheus-local.yml")
    assert local["rule_files"] == ["*.rules.yaml"]
    assert compose["rule_files"] == [*local["rule_files"], "/etc/klamm/copies/*.rules.yaml"]
    assert [job["job_name"] for job in compose["scrape_configs"]] == [
        "klamm-controller",
        "klamm-broker",
        "klamm-audit",
        "zookeeper",
        "prometheus",
    ]
    hosts = [t.split(":")[0] for job in compose["scrape_configs"] for t in job["static_configs"][0]["targets"]]
    assert hosts == [f"{r}-{n}" for r in ("controller", "broker") for n in (1, 2, 3)] + ["audit"] + [
        f"zookeeper-{n}" for n in (1, 2, 3)
    ] + ["localhost"]
    assert local["scrape_configs"][-1]["job_name"] == "prometheus"
    assert local["scrape_configs"][0]["file_sd_configs"][0]["files"] == [f"../../.klamm/{TARGETS_FILE}"]


def test_a_local_cluster_names_its_targets_with_the_jobs_of_the_rules(tmp_path: Path) -> None:
    members = [Member(ZOOKEEPER, 0, 2181, 0), Member(CONTROLLER, 1001, 9001, 9101), Member(BROKER, 1, 9002, 9102)]
    ClusterFolder(tmp_path).write(LocalClusterState(1, "127.0.0.1:2181", members, {}))
    assert yaml.safe_load((tmp_path / TARGETS_FILE).read_text()) == [
        {"targets": ["127.0.0.1:9101"], "labels": {"job": "klamm-controller", "node": "controller-1001"}},
        {"targets": ["127.0.0.1:9102"], "labels": {"job": "klamm-broker", "node": "broker-1"}},
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "rules", *(str(path.relative_to(FOLDER)) for path in RULE_FILES)],
        ["check", "config", "prometheus.yml"],
        ["test", "rules", "alerts_test.yaml"],
    ],
    ids=" ".join,
)
def test_promtool_accepts_them(arguments: list[str]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    done = subprocess.run([promtool, *arguments], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
