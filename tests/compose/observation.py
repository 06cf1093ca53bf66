"""What a Prometheus knows of the stack: its targets, the health of its rules, the alerts that fire, and sums."""

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.compose.stack import get_json, until

_ROUNDS: Final = 2
"""The first round of rules meets what was scraped; the second meets what the first has recorded, too."""
_MINUTE_OF_MORE: Final = "min_over_time(sum(rate({counter}[30s]))[1m:15s]) > 0"
"""Whether a counter has grown all the time for a minute."""
_INACCURACY: Final = 0.2
"""Of a rate, from scrapes every 15 s."""


class Observation:
    """Asks the server at `url`. Its checks poll, as a server knows a change after a scrape and a round of its rules."""

    def __init__(self, url: str) -> None:
        self._url = url

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        found: list[dict[str, Any]] = self._get(f"query?query={quote(query)}")["result"]
        return found

    def value(self, query: str) -> float:
        """Of a query that has one series. Raises ValueError when it has none, or more."""
        (series,) = self.ask(query)
        return float(series["value"][1])

    def check_targets(self, wanted: Mapping[str, int], *, down: Collection[str] = ()) -> None:
        """So many processes of each job are scraped, and no other target is down than those of the jobs `down`."""

        def differing() -> Any:
            targets = [(target["labels"]["job"], target["health"]) for target in self._get("targets")["activeTargets"]]
            up = {job: targets.count((job, "up")) for job, health in targets if health == "up"}
            others = {job for job, health in targets if health != "up"}
            return (up, others) if (up, others) != (dict(wanted), set(down)) else None

        _until_none(differing, f"Prometheus scrapes {dict(wanted)}, and none but {list(down)} is down")

    def check_rules(self, folder: Path) -> int:
        """Each rule of the folder's files is healthy after two rounds, and has never failed; returns their number."""
        finished = f"min(prometheus_rule_group_iterations_total) > {_ROUNDS}"
        until(lambda: bool(self.ask(finished)), f"every rule is evaluated {_ROUNDS} times")
        rules = [rule for group in self._get("rules")["groups"] for rule in group["rules"]]
        texts = [path.read_text() for path in folder.glob("*.rules.yaml")]
        written = [name for text in texts for name in re.findall(r"^ *- (?:record|alert): (\S+)$", text, re.MULTILINE)]
        missing = set(written) - {rule["name"] for rule in rules}
        assert len(rules) == len(written), f"{len(rules)} rules are loaded of {len(written)}, without {missing}"
        unhealthy = {rule["name"]: rule.get("lastError", "") for rule in rules if rule["health"] != "ok"}
        assert unhealthy == {}, f"rules that are not healthy: {unhealthy}"
        failed = self.ask("prometheus_rule_evaluation_failures_total > 0")
        assert failed == [], f"rules have failed: {failed}"
        return len(rules)

    def check_no_alert_has_fired(self) -> None:
        fired = [series["metric"] for series in self.ask('max_over_time(ALERTS{alertstate="firing"}[1d])')]
        assert fired == [], f"alerts have fired on a healthy cluster: {fired}"

    def until_no_alert_fires(self, *, except_for: Collection[str]) -> None:
        """`except_for`: alerts that look back at what was minutes ago."""

        def firing() -> set[str]:
            return {alert["metric"]["alertname"] for alert in self.ask('ALERTS{alertstate="firing"}')} - {*except_for}

        _until_none(firing, f"no alert fires but {sorted(except_for)}")

    def check_sums(self, truths: Mapping[str, float]) -> None:
        def false() -> dict[str, list[float]]:
            found = {query: [float(series["value"][1]) for series in self.ask(query)] for query in truths}
            return {query: values for query, values in found.items() if values != [truths[query]]}

        _until_none(false, "every sum is true")

    def has_grown_for_a_minute(self, counter: str) -> bool:
        return bool(self.ask(_MINUTE_OF_MORE.format(counter=counter)))

    def is_rate(self, counter: str, truth: float) -> bool:
        """Whether the sum of the rates of the last minute is about so much."""
        return abs(self.value(f"sum(rate({counter}[1m]))") - truth) <= _INACCURACY * truth

    def _get(self, what: str) -> Any:
        return get_json(f"{self._url}/api/v1/{what}")["data"]


def _until_none(find: Callable[[], Any], what: str) -> None:
    """Poll until nothing is found; what was found last is in the error."""

    def is_none() -> bool:
        found = find()
        if found:
            raise ValueError(found)
        return True

    until(is_none, what)
