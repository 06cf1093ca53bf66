"""The shipped rules in a live Prometheus over the recorded metrics of a real cluster.

What promtool cannot see: a rule that fails only when it has recorded, and sums that count a copy too.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from deploy.grafana.description import DASHBOARDS
from tests.observability.expositions import BROKERS, PARTITIONS, RECORDS_PER_SECOND, REPLICAS, exporters, names_recorded
from tests.observability.prometheus_server import BINARY, COPIES, RULES, Prometheus, prometheus
from tests.observability.rendering import promql
from tests.observability.sums import ABNORMAL, MESSAGES_IN, sums
from tests.processes.local_clusters import eventually
from tests.unit.deploy.test_prometheus_rules import exposed_names, metrics_of, rules
from tests.unit.deploy.test_runbooks import runbook_queries

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(BINARY is None, reason="prometheus is not installed: apt-get install prometheus"),
]
FILES: Final = {"as shipped": RULES, "with copies": (*RULES, *COPIES)}
_ROUNDS: Final = 3
"""The first records from the metrics alone; from the second on what was recorded is there too."""
SUMS: Final = {
    **sums(topics=1, partitions=PARTITIONS, replicas=REPLICAS, brokers=len(BROKERS)),
    "count(process_cpu_seconds_total)": 3 + len(BROKERS) + 2,  # Controllers, brokers, ZooKeeper, Prometheus.
    "count(jvm_memory_bytes_used)": 2,  # Heap and the rest, of one ZooKeeper.
    f'sum(rate({MESSAGES_IN}{{topic=""}}[5s]))': RECORDS_PER_SECOND * len(BROKERS),
    f'sum(rate({MESSAGES_IN}{{topic="orders"}}[5s]))': RECORDS_PER_SECOND * len(BROKERS),
}
"""What people write who know Kafka's names, and the truth."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Prometheus]]:
    """Beside one another: one with the rules that every Prometheus of klamm has, one with the copies, too."""
    with ExitStack() as stack:
        jobs = stack.enter_context(exporters())
        started = {
            name: stack.enter_context(prometheus(tmp_path_factory.mktemp(name), jobs, files, as_shipped=True))
            for name, files in FILES.items()
        }
        for server in started.values():
            eventually(lambda s=server: len(s.query("up == 1")) == len(jobs) + 1, "everything is scraped")  # type: ignore[misc]
        before = {name: server.evaluations() for name, server in started.items()}
        for name, server in started.items():
            rounds = before[name] + _ROUNDS
            eventually(lambda s=server, n=rounds: s.evaluations() > n, "rules are evaluated again and again")  # type: ignore[misc]
        yield started


@pytest.fixture
def as_shipped(servers: dict[str, Prometheus]) -> Prometheus:
    return servers["as shipped"]


@pytest.fixture
def with_copies(servers: dict[str, Prometheus]) -> Prometheus:
    return servers["with copies"]


def failing(server: Prometheus) -> list[tuple[str, str]]:
    """Rules that fail now, or have failed once."""
    unhealthy = [(rule["name"], rule.get("lastError", "")) for rule in server.rules() if rule["health"] != "ok"]
    counted = server.query("prometheus_rule_evaluation_failures_total > 0")
    return unhealthy + [(series["metric"]["rule_group"], "has failed") for series in counted]


@pytest.mark.parametrize("name", FILES)
def test_every_rule_is_evaluated_without_an_error_again_and_again(name: str, servers: dict[str, Prometheus]) -> None:
    assert len(servers[name].rules()) == sum(len(rules(path)) for path in FILES[name])
    assert failing(servers[name]) == []


@pytest.mark.parametrize(("query", "truth"), SUMS.items(), ids=SUMS)
def test_a_sum_that_a_person_writes_is_true(as_shipped: Prometheus, query: str, truth: float) -> None:
    def value() -> float:
        return float(as_shipped.query(query)[0]["value"][1])

    eventually(lambda: value() == pytest.approx(truth, rel=0.2), f"{query} is {truth}")


def own_selectors() -> list[str]:
    """What klamm's own rules, alerts and dashboards select."""
    expressions = [rule["expr"] for path in RULES for rule in rules(path)]
    expressions += [
        promql(query) for dashboard in DASHBOARDS for panel in dashboard.panels for query, _ in panel.queries
    ]
    return sorted({found for expression in expressions for found in selectors(expression)})


def selectors(expression: str) -> Iterator[str]:
    for name in metrics_of(expression):
        yield from (match[0] for match in re.finditer(rf"\b{name}\b(\{{[^}}]*\}})?", expression))


def test_klamms_own_alerts_and_dashboards_do_not_see_copies(with_copies: Prometheus) -> None:
    seen = {
        selector: [series["metric"] for series in with_copies.query(selector) if "klamm_copy" in series["metric"]]
        for selector in own_selectors()
    }
    assert {selector: copies[0] for selector, copies in seen.items() if copies} == {}


def test_a_label_leaves_copies_out(with_copies: Prometheus) -> None:
    query = "sum(kafka_controller_kafkacontroller_activecontrollercount{})"
    assert [s["value"][1] for s in with_copies.query(query)] == ["3"]
    assert [s["value"][1] for s in with_copies.query(query.replace("{}", '{klamm_copy=""}'))] == ["1"]


def test_strimzis_copies_alone_leave_its_alerts_quiet(with_copies: Prometheus) -> None:
    query = ABNORMAL.replace("count)", 'count{klamm_copy!="confluent"})')
    assert len(with_copies.query(query.replace("!= 1", "== 1"))) == 2
    assert with_copies.query(query) == []


@pytest.mark.parametrize("name", FILES)
def test_no_alert_is_about_to_fire_on_a_healthy_cluster(name: str, servers: dict[str, Prometheus]) -> None:
    assert servers[name].query("ALERTS") == []


@pytest.mark.parametrize("query", runbook_queries())
def test_a_query_of_a_runbook_is_answered(as_shipped: Prometheus, query: str) -> None:
    """What Prometheus does not understand it refuses."""
    as_shipped.query(query)


def test_what_was_recorded_is_exposed_today() -> None:
    """Else `python -m tests.observability.expositions` records it anew."""
    assert sorted(names_recorded() - exposed_names()) == []
