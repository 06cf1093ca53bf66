"""The keys of JSON output are an interface: more may be added, none renamed."""

from pathlib import Path

import pytest

from admin.cli.broker_documents import broker_document
from admin.cli.lines import read_lines
from admin.cli.options import Format
from admin.cli.output import write, write_table
from admin.cli.parsing import parse_assignment, parse_configs
from admin.cli.topics import _document
from cluster.broker import BrokerEpoch, BrokerId, Endpoint, LeaderEpoch, PartitionEpoch
from cluster.errors import ErrorCode, StartupError
from cluster.requests import DescribedBroker, DescribedPartition, DescribedTopic


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
    assert lines == [f"{'NAME':300}   ISR", f"{'x' * 300}   1,2", f"{'y':300}   -"]


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


async def test_lines_of_a_file_come_whole_and_the_last_needs_no_newline(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    long = b"x" * 300_000
    file.write_bytes(b"a\n\n" + long + b"\nlast")
    assert [line async for part in read_lines(file) for line in part] == [b"a", b"", long, b"last"]


async def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="no-such-file"):
        [line async for line in read_lines(tmp_path / "no-such-file")]
