"""What the table of `klamm audit report` says of failovers."""

from typing import Any

import pytest

from audit.report.report_text import _show_summary
from audit.tables.summaries import Summary, since_last_record_ms

FAILOVER: dict[str, Any] = {
    "detected_time": "2026-11-23 02:47:09.518",
    "brokers": [3, 4],
    "controller": None,
    "previous_controller": None,
    "since_last_record_ms": None,
    "since_last_answer_ms": None,
    "waited_max_ms": None,
    "partitions": 2,
    "until_last_written_ms": 4,
    **{f"leaderless_{name}_ms": 1_011 for name in ("p50", "p95", "p99", "max")},
}
TERM: dict[str, Any] = {
    "from_time": "2026-11-23 02:46:19.523",
    "controller": 1001,
    "controller_epoch": 12,
    "previous_controller": 1003,
    "since_previous_ms": 1_680,
    "since_vacant_ms": None,
    "until_loaded_ms": 3,
    "until_first_write_ms": None,
}


def shown(capsys: pytest.CaptureFixture[str], *, failovers: tuple[Any, ...] = (), terms: tuple[Any, ...] = ()) -> str:
    _show_summary(Summary(list(failovers), list(terms), [], [], []))
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "02:47:09.518 of brokers 3, 4: 2 partitions, leaders written after 4 ms, leaderless for p50 1,011 ms"),
        (
            {"since_last_record_ms": 6_203, "brokers": [3]},
            "of broker 3, gone for 6,203 ms at most: the time since its last record, and an idle broker writes none: 2",
        ),
        (
            {"since_last_record_ms": 9_000, "since_last_answer_ms": 6_102},
            "of brokers 3, 4, detected 6,102 ms after its last answer to a follower (session time-out): 2 partitions",
        ),
        ({"waited_max_ms": 6_212}, "max 1,011 ms; clients waited up to 6,212 ms"),
        ({"brokers": [], "partitions": 1}, "02:47:09.518 found by a new controller: 1 partition, leaders"),
        ({"brokers": [], "controller": 1002}, "518 found by controller-1002 when it became active: 2 partitions"),
        (
            {"brokers": [], "controller": 1002, "previous_controller": 1001},
            "found by controller-1002 when it became active, after controller-1001: 2 partitions",
        ),
        ({"brokers": [3], "partitions": 0}, "518 of broker 3: no partition lost its leader, as after a clean stop\n"),
        ({"until_last_written_ms": None}, "2 partitions, leaders written after -, leaderless for"),
    ],
)
def test_a_failover_says_who_failed_or_that_a_new_controller_found_it(
    changes: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in shown(capsys, failovers=({**FAILOVER, **changes},))


def run(node: str, first_ms: int | None, last_ms: int | None) -> dict[str, Any]:
    return {"node": node, "first_ms": first_ms, "last_ms": last_ms}


@pytest.mark.parametrize(
    ("runs", "since_ms"),
    [
        ([run("broker-1", 100, 900)], None),
        ([run("broker-1", 100, 900), run("broker-2", 100, 700)], 300),
        ([run("broker-1", 100, 200), run("broker-1", 300, 900), run("broker-2", 100, 950)], 100),
        ([run("broker-1", 100, 900), run("broker-2", 100, 950), run("broker-2", 1_200, 1_300)], 100),
        ([run("broker-1", 100, 1_001), run("broker-2", 100, 950)], None),
        ([run("broker-1", None, None), run("broker-2", 100, 950)], None),
    ],
)
def test_a_failed_broker_died_after_the_last_record_of_its_run(runs: list[Any], since_ms: int | None) -> None:
    assert since_last_record_ms({"detected_ms": 1_000, "brokers": [1, 2]}, runs) == since_ms
    assert since_last_record_ms({"detected_ms": None, "brokers": [1, 2]}, runs) is None
    assert since_last_record_ms({"detected_ms": 1_000, "brokers": []}, runs) is None


@pytest.mark.parametrize(
    ("since_ms", "says"),
    [
        (1_680, "1,680 ms after the last record of controller-1003"),
        # It hung, and records when it goes on that it resigned.
        (-1_680, "1,680 ms before the last record of controller-1003"),
        (None, "after controller-1003"),
    ],
)
def test_a_controller_may_follow_one_that_still_records_its_resignation(
    since_ms: int | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = shown(capsys, terms=({**TERM, "since_previous_ms": since_ms},))
    assert f"1001 in epoch 12: {says}, loaded after 3 ms, first write after -" in said


def test_a_controller_says_when_it_saw_that_the_one_before_was_gone(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(capsys, terms=({**TERM, "since_vacant_ms": 12},))
    assert "1,680 ms after the last record of controller-1003, 12 ms after it saw that one gone, loaded after" in said


def test_the_first_controller_that_is_known_follows_none(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(capsys, terms=({**TERM, "since_previous_ms": None, "previous_controller": None},))
    assert "1001 in epoch 12: the first that is known, loaded after" in said
