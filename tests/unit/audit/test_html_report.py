"""The HTML report: sums over partitions, charts that draw, and a page that what logs say cannot break out of."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from audit.report.html.build import content
from audit.report.html.charts import CHARTS
from audit.report.html.content import POINTS_MAX, STATES_MAX, Curve, ReportContent
from audit.report.html.page import page
from audit.report.html.partitions import Timelines
from audit.storage.table_schemas import TABLES, TIMELINES_TABLE
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from state_log.record import Kind, Stamper, StateChange
from tests.audits.log_audits import audit_folder

END_MS = 1_000
TIME = 1_795_356_180_000


def timelines(*rows: dict[str, Any], gone_ms: dict[tuple[str, str | None], int] | None = None) -> Timelines:
    given = [{"topic": "orders", "topic_id": "id", "partition": 0, "replicas": [1, 2, 3], **row} for row in rows]
    return Timelines(pyarrow.Table.from_pylist(given, TABLES[TIMELINES_TABLE].schema), END_MS, gone_ms)


def state(epoch: int, from_ms: int, until_ms: int | None, leader: int = 1, isr: int = 3, **more: Any) -> dict[str, Any]:
    known = {"partition_epoch": epoch, "from_ms": from_ms, "until_ms": until_ms, "leader": leader}
    return {**known, "leader_epoch": epoch, "isr": [1, 2, 3][:isr], **more}


def test_the_curve_counts_partitions_without_a_leader_and_with_a_small_isr() -> None:
    found = timelines(
        state(0, 0, 100),
        state(1, 100, 200, leader=-1, isr=1),
        state(2, 200, None, isr=2),
        state(0, 0, 150, partition=1, isr=2),
        state(1, 150, None, partition=1),
    ).curve()
    assert found == Curve([0, 100, 150, 200, 1000], [0, 1, 1, 0, 0], [1, 2, 1, 1, 0])


def test_a_curve_without_rows_is_empty() -> None:
    assert timelines().curve() == Curve([], [], [])
    assert timelines().worst({}) == ([], 0)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 60), st.booleans()), min_size=1, max_size=60))
def test_the_curve_is_what_counting_state_by_state_gives(steps: list[tuple[int, int, bool]]) -> None:
    rows, ends = [], dict.fromkeys(range(6), 0)
    for epoch, (partition, lasts, leads) in enumerate(steps):
        start = ends[partition]
        ends[partition] = start + lasts
        rows.append(state(epoch, start, start + lasts, leader=1 if leads else -1, partition=partition))
    found = timelines(*rows).curve()
    for at, leaderless in zip(found.at_ms, found.leaderless, strict=True):
        assert leaderless == sum(r["leader"] < 0 and r["from_ms"] <= at < r["until_ms"] for r in rows)


def test_a_long_curve_keeps_the_highest_values() -> None:
    rows = [state(n, n, n + 1, leader=-1 if n == 2_345 else 1, isr=2 + n % 2) for n in range(5_000)]
    found = timelines(*rows).curve()
    assert len(found.at_ms) == POINTS_MAX
    assert max(found.leaderless) == 1


def test_the_worst_partitions_come_first() -> None:
    rows = [
        *[state(n, n, n + 1, partition=0) for n in range(9)],
        state(0, 0, 500, leader=-1, partition=1),
        state(0, 0, None, partition=2),
    ]
    found, total = timelines(*rows).worst({("orders", "id", 2): 1})
    assert total == 3
    assert [(p.name, p.findings, p.leaderless_ms, p.changes) for p in found] == [
        ("orders-2", 1, 0, 1),
        ("orders-1", 0, 500, 1),
        ("orders-0", 0, 0, 9),
    ]
    assert found[0].states == [(0, END_MS, 1, 0, [1, 2, 3], 3, False)]


def test_a_partition_ends_with_the_deletion_of_its_topic() -> None:
    """That the deletion takes leader and replicas is no fault, and a topic created anew is another one."""
    rows = [
        state(0, 0, 100, leader=-1),
        state(1, 100, 300),
        *(state(epoch, 300, None, leader=-1, isr=1) for epoch in (2, 3)),
        state(0, 400, None, topic_id="new", isr=2),
    ]
    found = timelines(*rows, gone_ms={("orders", "id"): 250, ("others", "new"): 500})
    assert found.curve() == Curve([0, 100, 300, 400, 1000], [1, 0, 0, 0, 0], [0, 0, 0, 1, 0])
    (old, new), total = found.worst({})
    assert total == 2
    assert (old.leaderless_ms, old.changes, [until for _, until, *_ in old.states]) == (100, 2, [100, 250])
    assert [until for _, until, *_ in new.states] == [END_MS]


def test_a_topic_created_anew_differs_by_its_id() -> None:
    found, _ = timelines(state(0, 0, 1), state(0, 2, 3, topic_id="other")).worst({})
    assert sorted(p.name for p in found) == ["orders-0 (id)", "orders-0 (other)"]


def test_of_a_long_timeline_the_last_states_are_shown() -> None:
    ((shown,), _) = timelines(*[state(n, n, n + 1) for n in range(STATES_MAX + 50)]).worst({})
    assert (shown.changes, len(shown.states), shown.states[-1][0]) == (STATES_MAX + 50, STATES_MAX, STATES_MAX + 49)


DATA: dict[str, dict[str, list[dict[str, Any]]]] = {
    "nodes": {
        "nodes": [{"node": "broker-1", "state": "registered", "from": TIME, "until": TIME + 9_000}],
        "findings": [{"at": TIME, "node": "broker-1", "rule": "r", "where": "w", "message": "m"}],
    },
    "availability": {"availability": [{"at": TIME, "what": "without a leader", "partitions": 3}]},
    "failovers": {"failovers": [{"what": "broker 2", "phase": "taking roles", "start": 0, "end": 9}]},
    "partitions": {
        "partitions": [
            {
                "partition": "orders-0",
                "from": TIME,
                "until": TIME + 9_000,
                "leader": leader,
                "small": True,
                "unclean": True,
            }
            for leader in ("none", "1")
        ]
    },
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_draws(name: str) -> None:
    drawn = vl_convert.vegalite_to_svg({**CHARTS[name](), "width": 600, "datasets": DATA[name]}, vl_version="5.20")
    assert drawn.startswith("<svg")
    assert drawn.count("<path") > 1


class Elements(HTMLParser):
    """Counts elements."""

    def __init__(self) -> None:
        super().__init__()
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1


def empty(**changes: Any) -> ReportContent:
    fields: dict[str, Any] = dict.fromkeys(ReportContent.__struct_fields__, 0)
    lists = ("incomplete", "notes", "open_conditions", "rules", "findings", "terms", "sessions", "failovers", "ledgers")
    fields |= {name: [] for name in (*lists, "partitions")}
    return ReportContent(**{**fields, "verdict": "clean", "output": "o", "curve": Curve([], [], []), **changes})


@pytest.fixture(scope="module")
def noted() -> str:
    """A page whose only note is @. To put a page together takes a second or more."""
    return page(empty(notes=["@"]))


def test_what_logs_say_cannot_leave_the_data_of_the_page(noted: str) -> None:
    plain, hostile = Elements(), Elements()
    plain.feed(noted)
    hostile.feed(page(empty(notes=["</script><script>alert(1)</script><!--<script>", "/*SCRIPT*/"])))
    assert hostile.count == plain.count


def test_what_logs_say_does_not_take_the_place_of_a_part_of_the_page(noted: str) -> None:
    note = " ".join(f"/*{mark}*/" for mark in ("STYLE", "CONTENT", "CHARTS", "LIBRARY", "SCRIPT"))
    assert page(empty(notes=[note])) == noted.replace('["@"]', f'["{note}"]')


def written(folder: Path, at_ms: int, count: int = 1) -> None:
    """A log of a controller that writes a leader outside of the ISR, so many times at that time."""
    state = StateChange(
        kind=Kind.PARTITION,
        controller_epoch=ControllerEpoch(7),
        topic="orders",
        topic_id=TopicId("AAAAAAAAAAAAAAAAAAAAAA"),
        partition=0,
        from_state="OnlinePartition",
        to_state="OnlinePartition",
        leader=BrokerId(3),
        leader_epoch=LeaderEpoch(0),
        isr=(BrokerId(1),),
        replicas=(BrokerId(1), BrokerId(3)),
    )
    changes = [replace(state, partition_epoch=PartitionEpoch(n)) for n in range(count)]
    lines = Stamper("controller-1001", "1700000000000.1").stamp(changes, at_ms)
    (folder / "logs").mkdir()
    (folder / "logs" / f"controller-1001-1700000000000.1-{0:020}.jsonl").write_bytes(b"\n".join([*lines, b""]))


@pytest.mark.parametrize("at_ms", [-(1 << 63) + 1, -62_135_596_800_001, 253_402_300_800_000, (1 << 63) - 1])
def test_a_record_of_a_time_that_no_calendar_has_is_shown(tmp_path: Path, at_ms: int) -> None:
    written(tmp_path, at_ms)
    audit_folder(tmp_path / "logs", tmp_path / "output")
    (story,) = [f["story"] for f in content(tmp_path / "output", 5).findings if f["rule"] == "leader-in-isr"]
    assert any(f"{at_ms} ms" in line for line in story)


def test_the_page_loads_nothing(noted: str) -> None:
    assert "default-src 'none'" in noted
    head = re.sub(r"<script>.*?</script>", "", noted, flags=re.DOTALL)
    assert not re.findall(r"(?:src|href)=|@import|url\(", head)


def test_an_output_without_a_batch_has_a_report_too(tmp_path: Path) -> None:
    found = content(tmp_path, 5)
    assert (found.verdict, found.partitions_total, found.until_ms) == ("incomplete", 0, 5)
    assert page(found)
