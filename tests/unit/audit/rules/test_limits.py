"""Limits of the rules about time, as they are given to a command."""

import pytest

from audit.rules.limits import LimitError, Limits, parse_limits


@pytest.mark.parametrize(
    ("given_limits", "limits"),
    [
        ([], Limits()),
        (["leaderless=60"], Limits(leaderless_ms=60_000)),
        (["leaderless=60s", "leader-changes=9"], Limits(leaderless_ms=60_000, leader_changes=9)),
    ],
)
def test_limits_are_given_by_name(given_limits: list[str], limits: Limits) -> None:
    assert parse_limits(given_limits) == limits


@pytest.mark.parametrize(
    "wrong", ["", "leaderless", "leaderless=", "leaderless=-1", "leader-changes=9s", "other=1", "calm=0"]
)
def test_a_wrong_limit_is_named(wrong: str) -> None:
    with pytest.raises(LimitError):
        parse_limits([wrong])
