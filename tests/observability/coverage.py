"""Which queries of the dashboards of others return data, and the reasons for those that cannot."""

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from tests.observability.prometheus_server import Prometheus
from tests.observability.selectors import Dashboard, Query, dashboards

NO_MEANING: Final = {
    r"jvm_.*strimzi_io_name|jvm_.*kafka-broker": "controllers and brokers run in Python, not in a JVM; see `process_*`",
    r"_tiersize|kafka_tier_": "there is no tiered storage",
    r"kafka_coordinator_group_|OffsetCommit": "there are no consumer groups",
    r"deprecatedrequestspersec": "APIs have no deprecated versions",
    r"messageconversionspersec": "there is one message format, nothing is converted",
    r"straypartitions": "replicas that are in no assignment are not counted",
    r"connection_(creation|close)_rate|_connections\{": "gRPC does not tell a server of its connections",
    r"acceptorblockedpercent": "gRPC accepts connections in its own threads",
}
"""By a pattern for selectors: why nothing can be returned."""


class Row(Struct, frozen=True):
    """`series` is None where the query has no meaning here, for `reason`."""

    panel: str
    selectors: tuple[str, ...]
    series: int | None
    reason: str = ""


def reason_of(selector: str) -> str:
    return next((reason for pattern, reason in NO_MEANING.items() if re.search(pattern, selector)), "")


def rows_of(dashboard: Dashboard, server: Prometheus) -> Iterator[Row]:
    for query in dashboard.queries:
        yield _row(query, server, is_zookeeper="zookeeper" in dashboard.path)


def _row(query: Query, server: Prometheus, *, is_zookeeper: bool) -> Row:
    for selector in query.selectors:
        reason = "" if is_zookeeper else reason_of(selector)
        if reason:
            return Row(query.panel, query.selectors, None, reason)
    # A query has data if all that it selects has.
    return Row(query.panel, query.selectors, min(len(server.query(selector)) for selector in query.selectors))


def without_data(server: Prometheus) -> list[str]:
    """Queries that have a meaning here and return nothing, with their dashboard."""
    return [
        f"{dashboard.path}: {row.panel}: {row.selectors}"
        for dashboard in dashboards()
        for row in rows_of(dashboard, server)
        if row.series == 0
    ]


def summary(server: Prometheus) -> list[str]:
    """A Markdown table: dashboards, their queries, how many return data, how many have no meaning here and why."""
    lines = ["| dashboard | queries | with data | without meaning here | without data |", "|---|---|---|---|---|"]
    reasons: dict[str, set[str]] = {}
    for dashboard in dashboards():
        rows = list(rows_of(dashboard, server))
        meaningless = [row for row in rows if row.series is None]
        empty = sum(row.series == 0 for row in rows)
        name = f"{dashboard.repository} `{dashboard.path}` at {dashboard.commit[:10]}"
        data = len(rows) - len(meaningless) - empty
        lines.append(f"| {name} | {len(rows)} | {data} | {len(meaningless)} | {empty} |")
        for row in meaningless:
            reasons.setdefault(row.reason, set()).add(row.panel)
    lines += ["", "| why not | panels |", "|---|---|"]
    lines += [f"| {reason} | {', '.join(sorted(panels))} |" for reason, panels in sorted(reasons.items())]
    return lines
