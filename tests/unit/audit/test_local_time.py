"""Local times of Kafka's logs: hours that come twice, and those that a zone skips."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset
import pytest

from state_log.kafka.local_time import LocalTimes
from tests.audits.log_audits import audit_folder
from tests.kafka.logs import RECORDED, write_log


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_a_local_time_is_that_of_its_zone() -> None:
    moment = LocalTimes("Europe/Berlin").moment("2026-07-01 12:00:00")
    assert (moment.first_ms, moment.exists, moment.is_ambiguous) == (ms("2026-07-01 10:00:00"), True, False)


def test_an_hour_that_comes_twice_has_two_times() -> None:
    moment = LocalTimes("Europe/Berlin").moment("2026-10-25 02:30:00")
    assert (moment.first_ms, moment.second_ms) == (ms("2026-10-25 00:30:00"), ms("2026-10-25 01:30:00"))


def test_an_hour_that_is_skipped_does_not_exist() -> None:
    assert not LocalTimes("Europe/Berlin").moment("2026-03-29 02:30:00").exists


def test_a_day_that_no_calendar_has_is_refused() -> None:
    with pytest.raises(ValueError, match="day"):
        LocalTimes("UTC").moment("2026-02-30 02:30:00")


@pytest.mark.parametrize("batch_bytes", [None, 1])
def test_a_log_over_the_hour_that_comes_twice_has_no_clock_that_goes_back(
    batch_bytes: int | None, tmp_path: Path
) -> None:
    """Also where each line is read by itself: the lines before it tell which of the two hours it is."""
    lines = (RECORDED / "3.9.1-info" / "broker-2.state-change.log").read_bytes().splitlines(keepends=True)
    line = next(line for line in lines if b"] Leader " in line)
    times = [f"2026-10-25 02:{minute:02}:00,000" for minute in (*range(0, 60, 5), *range(0, 60, 5))]
    (tmp_path / "logs").mkdir()
    write_log(tmp_path / "logs" / "state-change.log", b"".join(b"[" + at.encode() + line[24:] for at in times))
    result = audit_folder(tmp_path / "logs", tmp_path / "output", batch_bytes, "Europe/Berlin")
    assert (result.findings, result.records) == ({}, 24)
    rows = pyarrow.dataset.dataset(tmp_path / "output" / "tables" / "records").to_table().sort_by("seq")
    assert rows["at_ms"].to_pylist() == list(range(ms("2026-10-25 00:00:00"), ms("2026-10-25 02:00:00"), 300_000))
