"""Records of a topic as rows of the source, the publisher's file, and what the options refuse; without a broker."""

from pathlib import Path

import msgspec
import pyarrow
import pytest
from typer.testing import CliRunner

from audit.batches.batch import check_rows, commit_batch
from audit.cli import app
from audit.reading.lines_read import ReadRange
from audit.reading.source import LINES_ROW
from audit.spark.settings import SparkSettings
from audit.storage.commits import BUCKETS, Commit
from audit.storage.output_folder import OutputFolder
from audit.storage.state_versions import VERSION
from audit.topic.brokers import topic_ends
from audit.topic.connector import with_connector
from audit.topic.publisher import Published, PublishedFile, Publisher, is_of_another_topic
from audit.topic.reading import ReadBefore, read_records
from audit.topic.topics import Topic, TopicError
from tests.unit.audit.test_changed_files import OLD, write_run

KEY = f"broker-1/{OLD}".encode()
FIRST_OFFSET = 100


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    (path,) = write_run(tmp_path / "logs", "broker-1", OLD, segments=1)
    return path.read_bytes().splitlines()


def records(values: list[bytes | None], key: bytes | None = KEY) -> pyarrow.Table:
    columns = {
        "key": pyarrow.array([key] * len(values), pyarrow.binary()),
        "value": pyarrow.array(values, pyarrow.binary()),
        "partition": pyarrow.array([3] * len(values), pyarrow.int32()),
        "offset": pyarrow.array(range(FIRST_OFFSET, FIRST_OFFSET + len(values)), pyarrow.int64()),
    }
    return pyarrow.table(columns)


def read(output: OutputFolder, values: list[bytes | None], key: bytes | None = KEY) -> ReadRange:
    """Audit these records as the next batch."""
    batches = read_records("t", records(values, key), ReadBefore(output), BUCKETS)
    rows = [row for batch in batches for row in batch.to_pylist()]
    before = output.last_commit() or Commit(VERSION, -1, "", {})
    commit_batch(output, before, list(check_rows(output, before, rows)))
    (found,) = (msgspec.json.decode(row["data"], type=ReadRange) for row in rows if row["what"] == LINES_ROW)
    return found


def chains(found: ReadRange) -> list[tuple[int, int]]:
    return [(segment.first_seq, segment.last_seq) for segment in found.segments]


def test_repeated_lines_of_a_batch_and_of_earlier_ones_do_not_count(lines: list[bytes], tmp_path: Path) -> None:
    output, last = OutputFolder(tmp_path / "output"), len(lines) - 1
    first = read(output, [*lines[:2], *lines[:3]])
    assert (first.records, chains(first), first.size) == (3, [(0, 2)], sum(len(line) + 1 for line in lines[:3]))
    second = read(output, [*lines[1:]])
    assert (second.records, chains(second), second.end) == (last - 2, [(3, last)], FIRST_OFFSET + last)
    assert read(output, [*lines]).records == 0
    altered = lines[1].replace(b'"at_ms":', b'"at_ms":1')
    assert read(output, [altered, lines[2]]).records == 1


def test_malformed_records_are_named_by_their_offsets(lines: list[bytes], tmp_path: Path) -> None:
    found = read(OutputFolder(tmp_path), [lines[0], None, b"no record", *lines[:2], b"\xff", lines[2]])
    assert found.records == 3
    assert [(line.offset - FIRST_OFFSET, line.file) for line in found.lines] == [
        (2, f"kafka:t/3/broker-1/{OLD}"),
        (5, f"kafka:t/3/broker-1/{OLD}"),
    ]


@pytest.mark.parametrize("key", [None, b"", b"\xff/"])
def test_records_with_another_key_are_read_all_the_same(key: bytes | None, lines: list[bytes], tmp_path: Path) -> None:
    found = read(OutputFolder(tmp_path), [*lines], key)
    assert (found.records, [s.node for s in found.segments]) == (len(lines), ["broker-1"])


def test_the_publisher_s_file_is_of_one_topic(tmp_path: Path) -> None:
    file = PublishedFile(tmp_path / "published.json")
    assert file.read("t") == Published("t")
    published = Published("t", {"broker-1-x": (0, 17)}, {2: 5})
    file.write(published)
    assert file.read("t") == published
    with pytest.raises(TopicError, match="is of the topic t, not u; pass another --state"):
        file.read("u")
    file.path.write_bytes(b"{")
    with pytest.raises(TopicError, match="delete it to publish everything again"):
        file.read("t")
    assert not is_of_another_topic(published, {0: 0, 2: 5})
    assert is_of_another_topic(published, {0: 9, 2: 4})
    assert is_of_another_topic(published, {0: 9})


def test_what_is_not_published_is_named_with_the_reason(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (path,) = write_run(logs, "broker-1", OLD, segments=1)
    state = PublishedFile(tmp_path / "published.json")
    publisher = Publisher([logs], Topic("127.0.0.1:9", "t"), state, Published("t"))
    assert publisher.left_out() == []
    (logs / f"{path.name}.gz").write_bytes(b"\x1f\x8b")
    (logs / "copied.jsonl").write_bytes(path.read_bytes())
    (logs / path.name.replace("broker-1", "broker-2")).mkdir()
    (logs / path.name.replace("broker-1", "broker-3")).touch()
    (logs / "link").symlink_to(tmp_path, target_is_directory=True)
    reasons = [line.partition(": was not published: it ")[2].split(":")[0] for line in publisher.left_out()]
    assert sorted(reasons) == [
        "is a link to a folder, and such links are not followed",
        "is compressed",
        "is empty",
        "is no file, though it has the name of a log",
        "is not named like a klamm segment",
    ]


def test_brokers_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(TopicError, match=r"topic t at 127\.0\.0\.1:9: .*Unable to bootstrap"):
        topic_ends(Topic("127.0.0.1:9", "t"))
    arguments = ["publish", "--kafka", "127.0.0.1:9", "--topic", "t", "--log-dir", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, len(result.output.strip().splitlines())) == (1, 1)
    assert "not published: topic t at 127.0.0.1:9: " in result.output


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("java.lang.NoSuchMethodError: 'void org.apache.spark.X.y()'", "4.2.0 does not fit this Spark (java.lang"),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: "
            "'void org.apache.spark.sql.execution.streaming.SerializedOffset.<init>(java.lang.String)' SQLSTATE: XXKST",
            "4.2.0 does not fit this Spark ([STREAM_FAILED]",
        ),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka.", "set --kafka-connector to the version"),
        ("Some data may have been lost because they are not available", "audit it again into a new --output"),
        ("TimeoutException", "topic t at h:1: TimeoutException"),
    ],
)
def test_what_spark_says_is_explained(why: str, said: str) -> None:
    assert said in Topic("h:1", "t", "4.2.0").explain(why)


def test_a_connector_that_the_settings_name_is_not_fetched() -> None:
    for name in ("spark.jars", "spark.jars.packages"):
        settings = SparkSettings(conf={name: "x/spark-sql-kafka-0-10_2.13-9.9.9.jar"})
        assert with_connector(settings, "no version") == settings


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give --log-dir, or --kafka and --topic"),
        (["--kafka", "h:1"], "--kafka and --topic go together"),
        (["--topic", "t"], "--kafka and --topic go together"),
        (["--kafka", "h:1", "--topic", "t", "--log-dir", "/tmp"], "give --log-dir, or --kafka and --topic"),
        (["--kafka", "h:1", "--topic", "t", "--until-clean"], "local folders only"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["run", "--output", str(tmp_path / "output"), *arguments])
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())
