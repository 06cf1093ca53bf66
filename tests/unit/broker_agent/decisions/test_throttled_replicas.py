"""The lists of throttled replicas in the configs of topics."""

import pytest

from broker_agent.decisions.throttled_replicas import is_listed
from cluster.config.topic_configs import CHECKS
from cluster.model.broker import BrokerId


@pytest.mark.rule("R18.1")
@pytest.mark.parametrize(
    ("text", "replicas"),
    [
        ("*", {(0, 1), (0, 2), (1, 1), (1, 2)}),
        (" * ", {(0, 1), (0, 2), (1, 1), (1, 2)}),
        ("0:1", {(0, 1)}),
        ("0:1, 1:2,", {(0, 1), (1, 2)}),
        ("", set()),
        ("7:1,0:9", set()),
    ],
)
def test_a_list_names_replicas_or_all(text: str, replicas: set[tuple[int, int]]) -> None:
    assert CHECKS["leader.replication.throttled.replicas"](text) is None
    found = {(p, b) for p in (0, 1) for b in (1, 2) if is_listed(text, p, BrokerId(b))}
    assert found == replicas


@pytest.mark.rule("R18.1")
@pytest.mark.parametrize("text", ["1", "a:b", "1:2:3", "*:1", "0:1,*", "-1:2", "\u0661:1"])
def test_anything_else_is_no_list(text: str) -> None:
    assert CHECKS["leader.replication.throttled.replicas"](text) is not None
