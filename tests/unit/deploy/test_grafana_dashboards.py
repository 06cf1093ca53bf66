"""Dashboards are those of their description, and ask for metrics that exist."""

import json
from pathlib import Path

import pytest
import yaml

from deploy.grafana.description import DASHBOARDS
from deploy.grafana.make_dashboards import FOLDER, made
from deploy.grafana.panels import Dashboard
from tests.unit.deploy.test_prometheus_rules import OF_OTHERS, exposed_names, metrics_of, rules

PROVISIONING = FOLDER.parent / "provisioning"
RECORDED = {rule["record"] for rule in rules(FOLDER.parents[1] / "prometheus" / "klamm.rules.yaml")}


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_the_json_is_made_from_the_description(dashboard: Dashboard) -> None:
    file = FOLDER / f"{dashboard.uid}.json"
    assert file.read_text("utf-8") == made(dashboard), "run .venv/bin/python -m deploy.grafana.make_dashboards"


def test_there_is_no_other_dashboard() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(dashboard.uid for dashboard in DASHBOARDS)


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_every_metric_of_a_panel_is_exposed(dashboard: Dashboard) -> None:
    known = exposed_names() | RECORDED
    asked = {name for panel in dashboard.panels for query, _ in panel.queries for name in metrics_of(query)}
    asked |= {metric for _, metric, _ in dashboard.variables}
    assert sorted(n for n in asked if n not in known and not (OF_OTHERS.match(n) and ":" not in n)) == []


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_panels_fill_the_grid_without_overlap_and_name_the_provisioned_source(dashboard: Dashboard) -> None:
    [source] = yaml.safe_load((PROVISIONING / "datasources" / "prometheus.yaml").read_text())["datasources"]
    cells = set()
    for panel in json.loads((FOLDER / f"{dashboard.uid}.json").read_text())["panels"]:
        at = panel["gridPos"]
        assert panel["type"] == "row" or panel["datasource"]["uid"] == source["uid"]
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert cell[0] < 24
            assert cell not in cells, panel["title"]
            cells.add(cell)


def test_the_provider_reads_the_folder_that_compose_mounts() -> None:
    [provider] = yaml.safe_load((PROVISIONING / "dashboards" / "klamm.yaml").read_text())["providers"]
    assert Path(provider["options"]["path"]) == Path("/var/lib/grafana/dashboards")
