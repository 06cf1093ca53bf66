"""What the dashboards of others ask for: names of metrics and their labels, in `dashboard_selectors.json`.

Facts only: no query, no layout. Read anew from clones of the two projects by

    .venv/bin/python -m tests.observability.selectors STRIMZI_CLONE JMX_MONITORING_STACKS_CLONE
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

FILE: Final = Path(__file__).with_name("dashboard_selectors.json")
STRIMZI: Final = "strimzi/strimzi-kafka-operator"
CONFLUENT: Final = "confluentinc/jmx-monitoring-stacks"
_PROVISIONING: Final = "jmxexporter-prometheus-grafana/assets/grafana/provisioning"
_STRIMZI_COMMIT: Final = "8541da1e336bdcda9647aeacfbc2048e57580a52"
_BEFORE_ZOOKEEPER_WENT: Final = "c15370dcc263db59911d73c6b7a1d8e737b38520"
_CONFLUENT_COMMIT: Final = "9707c1ab69e54770afef0b8d605c77a1e1208b52"
SOURCES: Final = (
    (STRIMZI, _STRIMZI_COMMIT, "examples/metrics/grafana-dashboards/strimzi-kafka.json"),
    (STRIMZI, _STRIMZI_COMMIT, "examples/metrics/strimzi-metrics-reporter/grafana-dashboards/strimzi-kafka.json"),
    (STRIMZI, _BEFORE_ZOOKEEPER_WENT, "examples/metrics/grafana-dashboards/strimzi-zookeeper.json"),
    (CONFLUENT, _CONFLUENT_COMMIT, f"{_PROVISIONING}/dashboards/kafka-cluster.json"),
    (CONFLUENT, _CONFLUENT_COMMIT, f"{_PROVISIONING}/dashboards/kafka-topics.json"),
    (CONFLUENT, _CONFLUENT_COMMIT, f"{_PROVISIONING}/dashboards-old-exporter/zookeeper-cluster.json"),
)
_SELECTOR: Final = re.compile(r"([a-z_:][a-z0-9_:]*)\s*\{([^}]*)\}")
_MATCHER: Final = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


class Query(Struct, frozen=True):
    """One query of a panel. `selectors`: PromQL; a matcher on a variable of the dashboard became `label!=""`."""

    panel: str
    selectors: tuple[str, ...]


class Dashboard(Struct, frozen=True):
    repository: str
    commit: str
    path: str
    queries: tuple[Query, ...]


def dashboards() -> list[Dashboard]:
    import msgspec

    return msgspec.json.decode(FILE.read_bytes(), type=list[Dashboard])


def selectors_of(expression: str) -> tuple[str, ...]:
    found = []
    for name, matchers in _SELECTOR.findall(expression):
        parts = [
            f'{label}!=""' if "$" in value else f'{label}{operator}"{value}"'
            for label, operator, value in _MATCHER.findall(matchers)
        ]
        found.append(f"{name}{{{','.join(dict.fromkeys(parts))}}}")
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(by|without)\s*\([^)]*\)", "", expression)
    found += [name for name in re.findall(r"\b(?:kafka|jvm|process)_[a-z0-9_]+", bare) if f"{name}{{" not in expression]
    return tuple(dict.fromkeys(found))


def _queries(panels: list[dict[str, Any]]) -> Iterator[Query]:
    for panel in panels:
        for target in panel.get("targets") or ():
            if "expr" in target:
                yield Query(panel.get("title") or "", selectors_of(target["expr"]))
        yield from _queries(panel.get("panels") or [])


def _read(clone: str, source: tuple[str, str, str]) -> Dashboard:
    repository, commit, path = source
    shown = subprocess.run(["git", "-C", clone, "show", f"{commit}:{path}"], capture_output=True, check=True)
    return Dashboard(repository, commit, path, tuple(_queries(json.loads(shown.stdout)["panels"])))


if __name__ == "__main__":
    import msgspec

    clones = dict(zip((STRIMZI, CONFLUENT), sys.argv[1:], strict=True))
    read = [_read(clones[source[0]], source) for source in SOURCES]
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(read), indent=1) + b"\n")
