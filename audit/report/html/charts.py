"""The charts of the report, as Vega-Lite: swimlanes of nodes, partitions and failovers, curves over time.

Data comes in by name, from the page, so that its filters can change what a chart shows. Source: Satyanarayan et al.,
Vega-Lite: A Grammar of Interactive Graphics; version 5 of the schema.
"""

from typing import Any, Final

_CLOCK: Final = {
    **dict.fromkeys(("hours", "minutes"), "%H:%M"),
    **dict.fromkeys(("date", "week", "day"), "%b %d"),
    "seconds": "%H:%M:%S",
    "milliseconds": "%S.%L s",
    "month": "%b",
    "quarter": "%b",
    "year": "%Y",
}
_TIME: Final = {
    "type": "temporal",
    "scale": {"type": "utc"},
    "axis": {"title": None, "labelOverlap": True, "format": _CLOCK},
}
_NAMES: Final = {
    "title": None,
    "labelLimit": 260,
    "labelExpr": "containerSize()[0] < 600 && length(datum.label) > 22"
    " ? slice(datum.label, 0, 10) + '…' + slice(datum.label, -11) : datum.label",
}
"""Labels of names: on a narrow page the beginning of a long one and its end, which has the number of the partition."""
_WIDTH: Final = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
_RED, _ORANGE, _BLUE, _GREEN, _GREY, _VIOLET = "#d64545", "#e8923a", "#3f7fc4", "#3f9e6b", "#8a8f98", "#8a63c9"

_LEADERS: Final = [
    *("#4c78a8", "#54a24b", "#b279a2", "#72b7b2", "#9d755d", "#6b6ecf", "#9ecae9", "#bdb23a", "#83c98f", "#c9a6dd"),
    *("#2f5c8f", "#357a38", "#80508a", "#3f8f8a", "#6f5342", "#4a4da8"),
]
"""Colours of leaders: neither red nor orange, which mean something."""


def _bars(name: str, row: str, color: dict[str, Any], tooltip: list[str], height: float) -> dict[str, Any]:
    return {
        "data": {"name": name},
        "mark": {"type": "bar", "height": height, "cornerRadius": 1},
        "encoding": {
            "x": {"field": "from", **_TIME},
            "x2": {"field": "until"},
            "y": {"field": row, "type": "nominal", "sort": None, "axis": _NAMES},
            "color": color,
            "tooltip": [{"field": field, "type": "nominal"} for field in tooltip],
        },
    }


def nodes() -> dict[str, Any]:
    """Show who was the active controller, which brokers were registered, and where the findings are."""
    states = {
        "field": "state",
        "type": "nominal",
        "scale": {
            "domain": ["active", "nothing recorded", "registered", "shutting down"],
            "range": [_VIOLET, _GREY, _GREEN, _ORANGE],
        },
        "legend": {"title": None, "orient": "top"},
    }
    findings = {
        "data": {"name": "findings"},
        "mark": {"type": "point", "shape": "diamond", "filled": True, "size": 90, "color": _RED, "opacity": 0.9},
        "encoding": {
            "x": {"field": "at", **_TIME},
            "y": {"field": "node", "type": "nominal", "sort": None},
            "tooltip": [{"field": field, "type": "nominal"} for field in ("rule", "where", "message")],
        },
    }
    lanes = _bars("nodes", "node", states, ["node", "state", "details", "duration"], 12)
    return {**_WIDTH, "height": {"step": 24}, "layer": [lanes, findings]}


def partitions() -> dict[str, Any]:
    """The leader of each partition over time, and below it where its ISR was small."""
    leader = {
        "field": "leader",
        "type": "nominal",
        "legend": {"title": "leader", "orient": "top", "columns": 12, "symbolLimit": 24},
        "scale": {"range": _LEADERS},
    }
    tooltip = ["partition", "leader", "epoch", "isr", "duration", "election"]
    leaders = _bars("partitions", "partition", leader, tooltip, 10)
    leaders["transform"] = [{"filter": "datum.leader !== 'none'"}]
    without = _bars("partitions", "partition", {"value": _RED}, tooltip, 10)
    without["transform"] = [{"filter": "datum.leader === 'none'"}]
    small = _bars("partitions", "partition", {"value": _ORANGE}, tooltip, 3)
    small["transform"] = [{"filter": "datum.small"}]
    small["mark"] = {"type": "bar", "height": 3, "yOffset": 8}
    unclean = {
        "data": {"name": "partitions"},
        "transform": [{"filter": "datum.unclean"}],
        "mark": {"type": "point", "shape": "triangle-up", "filled": True, "size": 70, "color": _RED},
        "encoding": {"x": {"field": "from", **_TIME}, "y": {"field": "partition", "type": "nominal", "sort": None}},
    }
    return {**_WIDTH, "height": {"step": 26}, "layer": [leaders, without, small, unclean]}


def failovers() -> dict[str, Any]:
    """Show each failover as a bar: from the last answer to its detection, to the writes, to the roles, in ms."""
    phases = ["not answering, not detected (session time-out)", "deciding and writing", "taking roles"]
    return {
        **_WIDTH,
        "height": {"step": 22},
        "data": {"name": "failovers"},
        "mark": {"type": "bar", "height": 12},
        "encoding": {
            "x": {"field": "start", "type": "quantitative", "axis": {"title": "ms after it was detected"}},
            "x2": {"field": "end"},
            "y": {"field": "what", "type": "nominal", "sort": None, "axis": {"title": None, "labelLimit": 320}},
            "color": {
                "field": "phase",
                "type": "nominal",
                "scale": {"domain": phases, "range": [_RED, _BLUE, _GREEN]},
                "legend": {"title": None, "orient": "top", "labelLimit": 320},
            },
            "tooltip": [
                {"field": name, "type": "nominal"}
                for name in ("what", "at", "partitions", "phase", "took", "leaderless")
            ],
        },
    }


def availability() -> dict[str, Any]:
    """Show how many partitions had no leader, and how many a small ISR."""
    return {
        **_WIDTH,
        "height": 160,
        "data": {"name": "availability"},
        "mark": {"type": "area", "interpolate": "step-after", "line": True, "opacity": 0.35},
        "encoding": {
            "x": {"field": "at", **_TIME},
            "y": {"field": "partitions", "type": "quantitative", "stack": None, "axis": {"tickMinStep": 1}},
            "color": {
                "field": "what",
                "type": "nominal",
                "scale": {"domain": ["without a leader", "under-replicated"], "range": [_RED, _ORANGE]},
                "legend": {"title": None, "orient": "top"},
            },
            "tooltip": [{"field": "what", "type": "nominal"}, {"field": "partitions", "type": "quantitative"}],
        },
    }


CHARTS: Final = {
    "nodes": nodes,
    "availability": availability,
    "failovers": failovers,
    "partitions": partitions,
}
"""By the id of the element that shows it."""
