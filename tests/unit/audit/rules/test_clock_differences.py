"""Clocks that differ: one finding for each node whose clock is wrong."""

import pytest

from audit.rules.clock_differences import CLOCK_DIFFERS, ClockDifference, clock_findings, is_measured_by, node_of
from audit.rules.durations import LEADERLESS


def difference(behind: str, ahead: str, seconds: int) -> ClockDifference:
    return ClockDifference(f"{behind}/1", f"{ahead}/1", seconds * 1000, (f"{ahead}/1/1", f"{behind}/1/2"))


@pytest.mark.parametrize(
    ("differences", "nodes"),
    [
        ([], []),
        ([difference("broker-1", "controller-1", 60)], ["node broker-1"]),
        ([difference(f"broker-{n}", "controller-1", 60) for n in (1, 2, 3)], ["node controller-1"]),
        (
            [difference("broker-1", "controller-1", 60), difference("broker-1", "controller-2", 60)],
            ["node broker-1"],
        ),
        (
            [difference("broker-1", "controller-1", 60), difference("controller-2", "broker-2", 90)],
            ["node broker-1", "node broker-2"],
        ),
        ([difference("broker-1", "broker-1", 60)], []),
    ],
)
def test_one_finding_for_each_clock_that_is_wrong(differences: list[ClockDifference], nodes: list[str]) -> None:
    found = list(clock_findings(differences, set()))
    assert [(finding.rule, finding.subject) for finding in found] == [(CLOCK_DIFFERS, node) for node in nodes]
    assert [f"node {node_of(finding)}" for finding in found] == nodes


def test_a_clock_that_was_set_back_is_found_by_that_alone() -> None:
    assert list(clock_findings([difference("broker-1", "controller-1", 60)], {"broker-1/1"})) == []


def test_durations_by_a_wrong_clock_do_not_count() -> None:
    ended = {"rule": LEADERLESS, "records": ["controller-1/1/1", "controller-2/1/9"]}
    assert is_measured_by(ended, {"controller-2"})
    assert not is_measured_by(ended, {"controller-3"})
    assert not is_measured_by({**ended, "rule": "leader-in-isr"}, {"controller-2"})
    assert is_measured_by({"rule": LEADERLESS, "records": ["controller-1/1/1"]}, {"controller-3"})
