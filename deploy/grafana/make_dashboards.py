"""Writes `dashboards/*.json` for Grafana from `description`. Needs grafana-foundation-sdk (extra `dev`).

.venv/bin/python -m deploy.grafana.make_dashboards
"""

from pathlib import Path
from typing import Any, Final

from grafana_foundation_sdk.builders import common, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as grafana
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueGraphMode, LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from deploy.grafana.description import DASHBOARDS, STAT, TABLE, Dashboard, Panel, columns

FOLDER: Final = Path(__file__).resolve().parent / "dashboards"
_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="prometheus")
"""The uid is that of `provisioning/datasources/prometheus.yaml`."""
_COLUMNS: Final = 24
_HEIGHTS: Final = {STAT: 4, TABLE: 7}


def made(description: Dashboard) -> str:
    """The JSON of one dashboard."""
    builder = (
        grafana.Dashboard(description.title)
        .uid(description.uid)
        .tags(["klamm"])
        .timezone("browser")
        .refresh("10s")
        .time("now-30m", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
    )
    for name, metric, label in description.variables:
        builder = builder.with_variable(_variable(name, metric, label))
    for title, panels in description.rows:
        builder = builder.with_row(grafana.Row(title))
        for panel in panels:
            builder = builder.with_panel(_panel(panel, columns(panels, panel.kind)))
    return JSONEncoder(sort_keys=True, indent=1).encode(builder.build()) + "\n"


def _variable(name: str, metric: str, label: str) -> Any:
    query: dict[str, object] = {"query": f"label_values({metric}, {label})", "refId": f"Variable-{name}"}
    return (
        grafana.QueryVariable(name)
        .datasource(_SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _panel(panel: Panel, beside: int) -> Any:
    builder: Any
    if panel.kind == STAT:
        newest = common.ReduceDataOptions().calcs(["lastNotNull"])
        builder = stat.Panel().thresholds(_thresholds(panel)).graph_mode(BigValueGraphMode.NONE).reduce_options(newest)
    elif panel.kind == TABLE:
        # One line for each series, with its value; the time of the query says nothing.
        builder = table.Panel().override_by_name("Time", [DynamicConfigValue("custom.hidden", True)])
    else:
        legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        builder = timeseries.Panel().fill_opacity(10).legend(legend.show_legend(True))
    builder = builder.title(panel.title).description(panel.help).unit(panel.unit).datasource(_SOURCE)
    builder = builder.height(_HEIGHTS.get(panel.kind, 8)).span(_COLUMNS // beside)
    for number, (expression, legend_format) in enumerate(panel.queries):
        query = prometheus.Dataquery().expr(expression).legend_format(legend_format).ref_id(chr(ord("A") + number))
        if panel.kind in (STAT, TABLE):
            query = query.instant().format(
                PromQueryFormat.TABLE if panel.kind == TABLE else PromQueryFormat.TIME_SERIES
            )
        builder = builder.with_target(query)
    return builder


def _thresholds(panel: Panel) -> Any:
    """Green, and red from `bad_from` on or below `bad_below`."""
    steps = [Threshold(None, "green")]
    if panel.bad_below is not None:
        steps = [Threshold(None, "red"), Threshold(panel.bad_below, "green")]
    if panel.bad_from is not None:
        steps.append(Threshold(panel.bad_from, "red"))
    return grafana.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.uid}.json").write_text(made(dashboard))
