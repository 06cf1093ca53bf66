"""The keys of JSON output are an interface: more may be added, none renamed."""

from pathlib import Path

import pytest
import typer

from admin.cli.broker_documents import broker_document, load_of_brokers
from admin.cli.lines import read_lines
from admin.cli.output import write
from admin.cli.parsing import parse_assignment, parse_configs
from admin.cli.plans import join_plans, plan_document, write_plan
from admin.cli.topics import _document
from admin.cli.watch import event_document, event_line
from cluster.cli.documents import Format, write_table
from cluster.model.broker import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    LeaderEpoch,
    PartitionEpoch,
)
from cluster.model.errors import ConfigError, ErrorCode
from cluster.requests.cluster import ClusterEvent, DescribedBroker
from cluster.requests.plans import DescribedPartition, Plan, PlannedChange, PlannedRequest, PlannedSetting
from cluster.requests.topics import DescribedTopic


def test_a_topic_has_the_keys_that_programs_read() -> None:
    partition = DescribedPartition(
        0, BrokerId(-1), LeaderEpoch(3), PartitionEpoch(4), (BrokerId(2),), (BrokerId(2), BrokerId(1))
    )
    assert _document(DescribedTopic("t", ErrorCode.NONE, configs={"a": "b"}, partitions=(partition,))) == {
        "name": "t",
        "topic_id": None,
        "configs": {"a": "b"},
        "queued_for_deletion": False,
        "min_insync_replicas": -1,
        "partitions": [
            {
                "partition": 0,
                "leader": -1,
                "leader_epoch": 3,
                "partition_epoch": 4,
                "isr": [2],
                "replicas": [2, 1],
                "adding_replicas": [],
                "removing_replicas": [],
                "offline_replicas": [],
            }
        ],
    }


def test_a_broker_has_the_keys_that_programs_read() -> None:
    broker = DescribedBroker(BrokerId(1), Endpoint("h", 9001), BrokerEpoch(71), rack="r")
    assert broker_document(broker) == {"id": 1, "address": "h:9001", "rack": "r", "epoch": 71, "state": "running"}


def test_tables_are_aligned_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(("name", "isr"), [("x" * 300, (1, 2)), ("y", ())])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{'NAME':300}  ISR", f"{'x' * 300}  1,2", f"{'y':300}  -"]


@pytest.mark.parametrize(
    ("form", "start"), [(Format.JSON, '{"a": [1]}'), (Format.YAML, "a:\n- 1"), (Format.TABLE, "A")]
)
def test_a_result_is_written_in_the_form_that_is_asked_for(
    form: Format, start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write({"a": [1]}, form, ("a",), [(1,)])
    assert capsys.readouterr().out.startswith(start)


def test_configs_and_assignments_are_parsed() -> None:
    assert parse_configs(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    assert parse_assignment("1:2,2:3") == {0: (1, 2), 1: (2, 3)}
    assert parse_assignment(None) == {}


def test_configs_without_a_value_and_those_given_twice_are_all_named() -> None:
    with pytest.raises(typer.BadParameter) as refused:
        parse_configs(["a=1", "b", "=2", "a=3", "c=4"])
    assert refused.value.message == "'b': must be KEY=VALUE; '=2': must be KEY=VALUE; 'a': given more than once"


async def test_lines_of_a_file_come_whole_and_the_last_needs_no_newline(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    long = b"x" * 300_000
    file.write_bytes(b"a\n\n" + long + b"\nlast")
    assert [line async for part in read_lines(file) for line in part] == [b"a", b"", long, b"last"]


async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no-such-file"):
        [line async for line in read_lines(tmp_path / "no-such-file")]


LED = ClusterEvent(
    "leader_changed",
    1_729_800_000_123,
    ControllerEpoch(3),
    ControllerId(1001),
    "t",
    0,
    leader=BrokerId(-1),
    leader_epoch=LeaderEpoch(4),
    isr=(BrokerId(2), BrokerId(1)),
    adding_replicas=(BrokerId(5),),
)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (LED, "20:00:00.123  leader changed  t-0: leader none, epoch 4, isr 2,1  adding 5"),
        (ClusterEvent("broker_left", 1, ControllerEpoch(3), broker=BrokerId(7)), "00:00:00.001  broker left  7"),
        (ClusterEvent("topic_deleted", 1, ControllerEpoch(3), topic="t"), "00:00:00.001  topic deleted  t"),
        (
            ClusterEvent("controller_changed", 1, ControllerEpoch(3), ControllerId(1002)),
            "00:00:00.001  controller changed  1002, epoch 3",
        ),
    ],
)
def test_an_event_is_one_line_for_a_person(event: ClusterEvent, line: str) -> None:
    assert event_line(event) == line


def test_an_event_has_only_the_keys_that_mean_something() -> None:
    gone = ClusterEvent("broker_left", 1, ControllerEpoch(3), broker=BrokerId(7))
    assert event_document(gone, "3-9") == {
        "kind": "broker_left",
        "at_ms": 1,
        "controller_epoch": 3,
        "broker": 7,
        "cursor": "3-9",
    }
    assert event_document(LED, "3-9") == {
        "kind": "leader_changed",
        "at_ms": 1_729_800_000_123,
        "controller_epoch": 3,
        "controller": 1001,
        "topic": "t",
        "partition": 0,
        "leader": -1,
        "leader_epoch": 4,
        "isr": [2, 1],
        "replicas": [],
        "adding_replicas": [5],
        "removing_replicas": [],
        "cursor": "3-9",
    }


def described(number: int, leader: int, epoch: int, *isr: int) -> DescribedPartition:
    brokers = tuple(BrokerId(b) for b in isr)
    return DescribedPartition(number, BrokerId(leader), LeaderEpoch(epoch), PartitionEpoch(epoch), brokers, brokers)


def test_a_plan_shows_what_changes_and_who_gets_requests(capsys: pytest.CaptureFixture[str]) -> None:
    change = PlannedChange("t", described(0, 1, 4, 1, 2), described(0, -1, 5, 1, 2))
    requests = (
        PlannedRequest(BrokerId(2), "LeaderAndIsr", 1),
        PlannedRequest(BrokerId(3), "StopReplica", 1, delete=True),
    )
    plan = Plan((change,), requests)
    write_plan(plan)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split("  ")[0] == "t"
    assert "1 -> none" in lines[1]
    assert "4 -> 5" in lines[1]
    assert lines[-2].split() == ["2", "LeaderAndIsr", "1"]
    assert lines[-1].split() == ["3", "StopReplica,", "delete", "1"]
    document = plan_document(plan)
    assert document["requests"] == [
        {"broker": 2, "request": "LeaderAndIsr", "partitions": 1, "delete": False},
        {"broker": 3, "request": "StopReplica", "partitions": 1, "delete": True},
    ]
    assert (document["changes"][0]["before"]["leader"], document["changes"][0]["after"]["leader"]) == (1, -1)


def test_a_plan_shows_settings_that_are_made_changed_and_removed(capsys: pytest.CaptureFixture[str]) -> None:
    made = Plan(settings=(PlannedSetting(2, "t", "retention.ms", None, "5"),))
    removed = Plan(settings=(PlannedSetting(4, "", "a.b", "x", None),))
    plan = join_plans([made, None, removed])
    write_plan(plan)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "topic t         retention.ms  not set -> 5",
        "broker default  a.b           x -> not set",
    ]
    assert plan_document(plan)["settings"] == [
        {"resource": "topic", "name": "t", "config": "retention.ms", "before": None, "after": "5"},
        {"resource": "broker", "name": "default", "config": "a.b", "before": "x", "after": None},
    ]


def test_a_plan_without_changes_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    write_plan(Plan())
    assert capsys.readouterr().out == "no changes\n"


def test_the_load_of_brokers_counts_what_they_lead_and_host() -> None:
    topic = DescribedTopic(
        "t", ErrorCode.NONE, partitions=(described(0, 1, 0, 1, 2), described(1, 1, 0, 2, 1), described(2, -1, 0, 2))
    )
    load = load_of_brokers([topic])
    assert load[1] == {"leaders": 2, "preferred_leaders": 1, "replicas": 2, "out_of_sync": 0}
    assert load[2] == {"leaders": 0, "preferred_leaders": 2, "replicas": 3, "out_of_sync": 0}
    assert load[3] == {"leaders": 0, "preferred_leaders": 0, "replicas": 0, "out_of_sync": 0}
