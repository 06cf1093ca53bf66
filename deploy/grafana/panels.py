"""Panels, and dashboards of them."""

from msgspec import Struct

STAT, GRAPH, TABLE = "stat", "graph", "table"


class Panel(Struct, frozen=True):
    """One panel. `queries`: PromQL and the legend of its series. `unit` is Grafana's. Red from `bad_from` on, or below
    `bad_below`.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = GRAPH
    help: str = ""
    bad_from: float | None = None
    bad_below: float | None = None


class Dashboard(Struct, frozen=True):
    """`rows`: titles and panels. `variables`: by name, the metric and the label whose values can be chosen."""

    uid: str
    title: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    variables: tuple[tuple[str, str, str], ...] = ()

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for _, panels in self.rows for panel in panels)


def columns(panels: tuple[Panel, ...], kind: str) -> int:
    """Panels beside one another: four where that fills the row, and no more than there are."""
    beside = sum((panel.kind == STAT) == (kind == STAT) for panel in panels)
    return 6 if kind == STAT else 4 if beside % 4 == 0 else min(beside, 3)


def stat(title: str, query: str, help_: str = "", *, unit: str = "short", bad_from: float | None = 1) -> Panel:
    return Panel(title, ((query, ""),), unit, STAT, help_, bad_from)


def graph(title: str, *queries: tuple[str, str], unit: str = "short", help_: str = "") -> Panel:
    return Panel(title, queries, unit, GRAPH, help_)


def rate(metric: str, labels: str) -> str:
    return f"rate({metric}{{{labels}}}[$__rate_interval])"
