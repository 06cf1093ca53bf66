"""The whole run: provocations, then dashboards, while the audit follows the logs."""

import asyncio
import re
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from cluster.process.local_cluster import BROKER
from deploy.grafana.description import DASHBOARDS
from tests.observability.coverage import summary, without_data
from tests.observability.provocations import PROVOCATIONS, produce, send_refused_requests
from tests.observability.rendering import series_without_data
from tests.observability.stage import Stage, stage
from tests.timeouts import TIMEOUT_S
from tests.unit.deploy.test_prometheus_rules import exposed_names

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
_LAST: Final = "the_audit_is_killed"
"""After the dashboards, which show the audit."""
_MARKS: Final = r"(<!-- {0}:begin -->\n).*?(<!-- {0}:end -->)"


class Result(Struct):
    """What is written to docs. `failures`: alerts that did not fire, queries without data."""

    fired: list[tuple[str, str]]
    """Each alert with what made it fire."""
    table: list[str]
    failures: list[str]


def run_all(folder: Path, say: Callable[[str], object], only: Collection[str] = ()) -> Result:
    """`only`: the names of the provocations; all by default."""
    result = Result([], [], [])
    chosen = {name: provocation for name, provocation in PROVOCATIONS.items() if not only or name in only}
    with stage(folder) as live:
        live.klamm("topics", "create", "orders", "--partitions", "6", "--replication-factor", "3")
        for name, (alerts, provoke) in chosen.items():
            live.until_healthy()
            if name == _LAST:
                _ask_dashboards(live, result, say)
            produce(live, "orders")
            live.klamm("consume", "orders", "--from-beginning", "--until-end")
            try:
                provoke(live)
            except AssertionError as error:
                say(f"{name}: {error}")
            fired = live.server.fired()
            for alert in alerts:
                if alert in fired:
                    result.fired.append((alert, name.replace("_", " ")))
                    say(f"fired: {alert} ({name.replace('_', ' ')})")
                else:
                    result.failures.append(f"{alert} did not fire when {name.replace('_', ' ')}")
                    say(result.failures[-1])
    return result


def _ask_dashboards(live: Stage, result: Result, say: Callable[[str], object]) -> None:
    result.failures += _left_without_data(live)
    result.table = summary(live.server)
    scraped = live.server.query('count by (__name__) ({job=~"klamm-.*", __name__=~"(kafka|klamm)_.*"})')
    undescribed = {series["metric"]["__name__"] for series in scraped} - exposed_names()
    result.failures += [f"{name} is not in cluster/metrics/metrics.toml" for name in sorted(undescribed)]
    say("\n".join([*result.table, *result.failures]))


def _left_without_data(live: Stage) -> list[str]:
    """Queries that never return data at one moment: on a busy machine a scrape may fail, and its series are gone."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        produce(live, "orders")
        live.klamm("consume", "orders", "--from-beginning", "--until-end")
        asyncio.run(send_refused_requests(live.cluster.members(BROKER)[0].address))
        own = [query for dashboard in DASHBOARDS for query in series_without_data(dashboard, live.server)]
        missing = [*without_data(live.server), *own]
        if not missing or time.monotonic() > deadline:
            return missing


def write_documents(result: Result) -> None:
    page = DOCS / "dashboards.md"
    fired = ["| alert | fired when |", "|---|---|", *(f"| {alert} | {name} |" for alert, name in result.fired)]
    on = f"Run of {datetime.now(UTC):%Y-%m-%d}: `.venv/bin/python -m tests.observability --write`."
    text = page.read_text("utf-8")
    for mark, lines in (("coverage", result.table), ("fired", fired)):
        block = "\n".join([on, "", *lines])
        text = re.sub(_MARKS.format(mark), lambda m, b=block: f"{m[1]}\n{b}\n\n{m[2]}", text, flags=re.DOTALL)
    page.write_text(text)
