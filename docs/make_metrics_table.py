"""Write the tables of metrics into docs/metrics.md from the catalogue.

Run it after a change of `cluster/metrics/metrics.toml`: .venv/bin/python docs/make_metrics_table.py
"""

from itertools import groupby
from pathlib import Path
from typing import Final

from cluster.metrics.catalogue import COUNTER, DescribedMetric, catalogue
from cluster.metrics.registry import exposition_name

PAGE = Path(__file__).resolve().parent / "metrics.md"
BEGIN, END = "<!-- metrics:begin -->", "<!-- metrics:end -->"
_TITLES: Final = {
    ("controller",): "Controllers",
    ("broker",): "Brokers",
    ("controller", "broker"): "Controllers and brokers",
    ("controller", "broker", "audit"): "Every program",
    ("audit",): "The audit",
}


def exposed_name(metric: DescribedMetric) -> str:
    """The name in Prometheus; a summary has `_count` and `_sum` beside its quantiles."""
    domain, _, type_ = metric.bean.partition(":type=")
    return exposition_name(domain, type_, metric.name) + ("_total" if metric.type == COUNTER else "")


def row(metric: DescribedMetric) -> str:
    labels = "; or ".join(", ".join(f"`{label}`" for label in names) or "none" for names in metric.labels)
    only = " Only with `klamm.metrics.partitions`." if metric.per_partition else ""
    only += " Only once the controller has been active." if metric.once_active else ""
    shown = "" if labels == "none" else labels
    cells = (f"`{exposed_name(metric)}`", metric.type, shown, metric.unit, metric.meaning + only, metric.action)
    return f"| {' | '.join(cells)} |"


def with_tables(text: str) -> str:
    """Replace the tables between the two marks in `text`. KeyError for a set of programs without a title."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    parts = []
    ordered = sorted(catalogue(), key=lambda metric: list(_TITLES).index(metric.programs))
    for programs, metrics in groupby(ordered, key=lambda metric: metric.programs):
        parts += [
            f"## {_TITLES[programs]}",
            "\n".join(
                [
                    "| name | type | labels | unit | meaning | what to do |",
                    "|---|---|---|---|---|---|",
                    *sorted(map(row, metrics)),
                ]
            ),
        ]
    return "\n\n".join([f"{head}{BEGIN}", *parts, f"{END}{tail}"])


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
