"""Files as Spark hands them over: the same rows as of local files."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from audit.cli import app
from audit.reading.changed_files import FaultKind, FileFault
from audit.reading.hadoop_files import read_file
from audit.reading.log_files import Range
from audit.reading.source import FILES_ROW, ReadPlan, read_ranges
from tests.kafka.logs import RECORDED
from tests.unit.audit.test_changed_files import OLD, write_run

PLAN = ReadPlan(1 << 20, 2, 4)
KAFKA = RECORDED / "3.9.1-trace" / "broker-1.state-change.log"


def test_the_rows_of_a_segment_are_those_of_the_local_file(tmp_path: Path) -> None:
    (path,) = write_run(tmp_path, "broker-1", OLD, segments=1)
    url, content, modified_ns = path.as_uri(), path.read_bytes(), path.stat().st_mtime_ns
    found = [row for batch in read_file(url, content + b'{"torn', modified_ns, PLAN) for row in batch.to_pylist()]
    wanted = [Range(f"broker-1-{OLD}", path, 0, len(content))]
    local = [row for batch in read_ranges(wanted, PLAN.buckets) for row in batch.to_pylist()]
    replaced = [{**row, "data": row["data"].replace(str(path).encode(), url.encode())} for row in local]
    assert found == replaced


def test_a_log_of_kafka_s_is_known_by_its_first_line() -> None:
    rows = [r for b in read_file("s3a://b/x%20y/some.log", KAFKA.read_bytes(), 0, PLAN) for r in b.to_pylist()]
    assert sum(row["what"] == "records" for row in rows)
    assert not list(read_file("s3a://b/server.log", b"[2026-11-22 23:00:00,000] INFO started (kafka.Kafka)\n", 0, PLAN))


def test_a_file_without_lines_is_named() -> None:
    url = f"s3a://b/broker-1-{OLD}-{0:020}.jsonl"
    ((row,),) = [batch.to_pylist() for batch in read_file(url, b"", 0, PLAN)]
    assert row["what"] == FILES_ROW
    assert msgspec.json.decode(row["data"], type=list[FileFault]) == [
        FileFault(FaultKind.EMPTY, f"broker-1-{OLD}", url, 0, 0)
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--log-dir", "s3a://b/x", "--log-dir", "/tmp"], "do not go together"),
        (["--log-dir", "/does/not/exist"], "is not a directory"),
        (["--log-dir", "s3a://b/x", "--until-clean"], "local folders only"),
        (["--log-dir", "/tmp", "--timezone", "Mars/Olympus"], "no such time zone"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["run", "--output", str(tmp_path / "output"), *arguments])
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())
