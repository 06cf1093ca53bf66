"""Pictures of dashboards: results of their queries on a live cluster, drawn by Vega-Lite and not by Grafana."""

from collections.abc import Mapping
from typing import Any, Final

import vl_convert

from deploy.grafana.panels import GRAPH, STAT, Dashboard, Panel, columns
from tests.observability.prometheus_server import Prometheus

_RATE_INTERVAL: Final = "15s"
SECONDS: Final = 180
_POINTS: Final = 60
_STAT_SIZE: Final = (150, 46)
_WIDTH: Final = 960
"""Of all panels beside one another."""
_HEIGHT: Final = 110
_LINE_HEIGHT: Final = 12
_APART: Final = {"scale": {"color": "independent"}, "legend": {"color": "independent"}}
_UNITS: Final = {"short": None, "percentunit": None, "ops": "1/s", "reqps": "1/s", "Bps": "B/s"}
_FORMATS: Final = {"bytes": "~s", "Bps": "~s", "percentunit": ".0%"}


def promql(query: str) -> str:
    """A query of the description as Grafana would send it, with all values of its variables."""
    return query.replace("$__rate_interval", _RATE_INTERVAL).replace("$node", ".*").replace("$topic", ".*")


def series_without_data(dashboard: Dashboard, server: Prometheus) -> list[str]:
    """Queries that return nothing, with their panel."""
    return [
        f"{dashboard.title}: {panel.title}: {query}"
        for panel in dashboard.panels
        for query, _ in panel.queries
        if not server.query(promql(query))
    ]


def drawing(dashboard: Dashboard, server: Prometheus) -> str:
    """The SVG of a dashboard."""
    return str(vl_convert.vegalite_to_svg(_specification(dashboard, server)))


def _specification(dashboard: Dashboard, server: Prometheus) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for title, panels in dashboard.rows:
        for kind in (STAT, "other"):
            charts = [_chart(panel, server) for panel in panels if (panel.kind == STAT) == (kind == STAT)]
            beside = columns(panels, kind)
            for chart in charts:
                chart["width"] = chart["width"] if kind == STAT else _WIDTH // beside
            for first in range(0, len(charts), beside):
                heading = {} if rows and rows[-1].get("of") == title else {"title": title}
                row = {"hconcat": charts[first : first + beside], "resolve": _APART, "of": title}
                rows.append({**row, **heading})
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": dashboard.title, "fontSize": 17, "anchor": "start"},
        "background": "white",
        "vconcat": [{key: value for key, value in row.items() if key != "of"} for row in rows],
        "config": {"view": {"stroke": "#ddd"}, "axis": {"labelFontSize": 9}, "legend": {"labelFontSize": 9}},
        "resolve": _APART,
    }


def _chart(panel: Panel, server: Prometheus) -> dict[str, Any]:
    title = {"text": panel.title, "fontSize": 11}
    if panel.kind != GRAPH:
        return _texts(title, _readings(panel, server), is_stat=panel.kind == STAT)
    values = [
        {"t": float(at) * 1000, "v": float(value), "s": _legend(legend, series["metric"])}
        for query, legend in panel.queries
        for series in server.query_range(promql(query), SECONDS, SECONDS / _POINTS)
        for at, value in series["values"]
    ]
    if not values:
        return _texts(title, ["No data"], is_stat=False) | {"height": _HEIGHT}
    axis = {"title": _UNITS.get(panel.unit, panel.unit), "format": _FORMATS.get(panel.unit, "~s"), "tickCount": 4}
    return {
        "title": title,
        "width": _WIDTH,
        "height": _HEIGHT,
        "data": {"values": values},
        "mark": {"type": "line", "strokeWidth": 1.3},
        "encoding": {
            "x": {"field": "t", "type": "temporal", "title": None, "axis": {"format": "%H:%M:%S", "tickCount": 3}},
            "y": {"field": "v", "type": "quantitative", "axis": axis, "scale": {"domainMax": _top(values)}},
            "color": {"field": "s", "type": "nominal", "title": None, "legend": {"orient": "bottom", "columns": 3}},
        },
    }


def _readings(panel: Panel, server: Prometheus) -> list[str]:
    return sorted(
        f"{_legend(legend, series['metric'])}  {float(series['value'][1]):.4g}".strip()
        for query, legend in panel.queries
        for series in server.query(promql(query))
    )


def _texts(title: dict[str, Any], lines: list[str], *, is_stat: bool) -> dict[str, Any]:
    shown = [{"text": line, "row": row} for row, line in enumerate(lines[:9])]
    width, height = _STAT_SIZE if is_stat else (_WIDTH, _LINE_HEIGHT * (len(shown) + 1))
    return {
        "title": title,
        "width": width,
        "height": height,
        "data": {"values": shown},
        "mark": {"type": "text", "fontSize": 24 if is_stat else 10, "align": "center" if is_stat else "left"},
        "encoding": {
            "text": {"field": "text"},
            "x": {"value": width / 2 if is_stat else 6},
            "y": {"field": "row", "type": "ordinal", "axis": None} if not is_stat else {"value": height / 2},
        },
    }


def _top(values: list[dict[str, Any]]) -> float:
    """The upper end of the axis: 1 for a line at 0."""
    return max(1.0 if all(v["v"] <= 0 for v in values) else 0.0, *(v["v"] for v in values))


def _legend(template: str, labels: Mapping[str, str]) -> str:
    for name, value in labels.items():
        template = template.replace(f"{{{{{name}}}}}", value)
    return template
