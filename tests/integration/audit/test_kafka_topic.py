"""A topic of Apache Kafka's as input of the audit: the same tables as from the files that were published to it."""

import asyncio
import itertools
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from audit.commands.topic_options import CONNECTOR_VERSION
from audit.job import run_audit
from audit.options import AuditOptions
from audit.report.report import AuditResult
from audit.spark.session import start_session
from audit.spark.settings import SparkSettings
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import TABLES
from audit.topic.brokers import topic_ends
from audit.topic.connector import with_connector
from audit.topic.topics import Topic
from cluster.model.errors import StartupError
from tests.audits.log_audits import audit_folder
from tests.audits.state_change_histories import Cluster, draw, write_logs
from tests.integration.audit.test_audit_command import COMMAND, run
from tests.kafka.broker import create_topic, kafka_broker
from tests.timeouts import TIMEOUT_S
from tests.unit.state_log.test_invariants import leader_epoch_leap, second_leader_by_an_agent

pytestmark = [pytest.mark.real, pytest.mark.deep]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka") / "broker") as address:
        yield address


@pytest.fixture(scope="module")
def spark(java_for_spark: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    try:
        settings = with_connector(SparkSettings(cores=2), CONNECTOR_VERSION)
    except StartupError as error:
        pytest.skip(str(error))
    session = start_session(tmp_path_factory.mktemp("spark"), settings)
    yield session
    session.stop()


@pytest.fixture
def topic(broker: str) -> Topic:
    found = Topic(broker, f"state-changes-{next(_numbers)}", CONNECTOR_VERSION)
    asyncio.run(create_topic(broker, found.name, 3))
    return found


def publish(topic: Topic, logs: Path) -> None:
    done = run("publish", "--kafka", topic.bootstrap, "--topic", topic.name, "--log-dir", str(logs))
    assert done.returncode == 0, done.stderr


def audit(topic: Topic, output: Path, spark: SparkSession, batch_bytes: int = 1 << 20) -> AuditResult:
    return run_audit(topic, output, AuditOptions(once=True, batch_bytes=batch_bytes), session=spark)


def rows(output: Path, table: str) -> list[dict[str, Any]]:
    folder = OutputFolder(output)
    return sorted(folder.current_rows(table) if TABLES[table].is_revised else folder.rows(table), key=str)


def assert_as_from_the_folder(output: Path, result: AuditResult, logs: Path, tmp_path: Path) -> None:
    wanted = audit_folder(logs, tmp_path / "of the folder")
    assert (result.verdict, result.findings, result.records) == (wanted.verdict, wanted.findings, wanted.records)
    for table in TABLES:
        assert rows(output, table) == rows(tmp_path / "of the folder", table), table


def published(cluster: Cluster, topic: Topic, logs: Path) -> dict[tuple[str, str], Path]:
    paths = write_logs(cluster.logs, logs)
    publish(topic, logs)
    return paths


def test_the_tables_are_those_of_the_folder_in_several_batches(
    topic: Topic, spark: SparkSession, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    published(draw(21, steps=300, partitions=4), topic, logs)
    assert len([end for end in topic_ends(topic).values() if end]) > 1, "several partitions are read side by side"
    result = audit(topic, tmp_path / "output", spark, batch_bytes=40_000)
    assert result.findings.keys() == {"unclean-election"}, "there are some in the history"
    commit = OutputFolder(tmp_path / "output").last_commit()
    assert commit is not None
    assert commit.batch > 1, "several batches"
    assert_as_from_the_folder(tmp_path / "output", result, logs, tmp_path)


def test_contradictions_and_altered_lines_are_found(topic: Topic, spark: SparkSession, tmp_path: Path) -> None:
    cluster, logs = draw(3, steps=60), tmp_path / "logs"
    second_leader_by_an_agent(cluster)
    leader_epoch_leap(cluster)
    path = write_logs(cluster.logs, logs)[cluster.controller]
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"at_ms":17', b'"at_ms":18')
    path.write_bytes(b"".join([*lines, b"not a record\n"]))
    publish(topic, logs)
    result = audit(topic, tmp_path / "output", spark)
    assert {"one-leader-per-epoch", "leader-epoch-by-one", "chain-break"} <= result.findings.keys()
    (malformed,) = rows(tmp_path / "output", "quarantine")
    node, incarnation = cluster.controller
    assert malformed["file"].endswith(f"/{node}/{incarnation}")
    assert malformed["line"] == "not a record"
    wanted = audit_folder(logs, tmp_path / "of the folder")
    assert (result.findings, result.quarantined) == (wanted.findings, wanted.quarantined)


def test_lines_that_a_publisher_repeats_count_once(topic: Topic, spark: SparkSession, tmp_path: Path) -> None:
    """In one batch, and in one after the batch that read them first."""
    logs, output, cluster = tmp_path / "logs", tmp_path / "output", draw(5, steps=60, partitions=2)
    path = published(cluster, topic, logs)[cluster.controller]
    state = logs / f"published-{topic.name}.json"
    state.unlink()
    publish(topic, logs)
    first = audit(topic, output, spark)
    for _ in range(100):
        cluster.step()
    state.unlink()
    published(cluster, topic, logs)
    result = audit(topic, output, spark)
    assert result.records > first.records
    assert_as_from_the_folder(output, result, logs, tmp_path)
    # Another line under a number that was read is no repetition.
    path.write_bytes(path.read_bytes().replace(b'"at_ms":17', b'"at_ms":18'))
    state.unlink()
    publish(topic, logs)
    assert "duplicate-sequence" in audit(topic, output, spark).findings


def test_a_publisher_that_follows_is_killed_and_goes_on(topic: Topic, spark: SparkSession, tmp_path: Path) -> None:
    cluster, logs = draw(8, steps=40), tmp_path / "logs"
    write_logs(cluster.logs, logs)
    for end in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        before = sum(topic_ends(topic).values())
        for _ in range(40):
            cluster.step()
        write_logs(cluster.logs, logs)
        arguments = ["publish", "--kafka", topic.bootstrap, "--topic", topic.name, "--log-dir", str(logs), "--follow"]
        with subprocess.Popen([*COMMAND, *arguments]) as process:
            deadline = time.monotonic() + TIMEOUT_S
            while sum(topic_ends(topic).values()) == before:
                assert time.monotonic() < deadline, "nothing is published"
            process.send_signal(end)
        assert process.returncode == (0 if end is signal.SIGTERM else -end)
    publish(topic, logs)
    result = audit(topic, tmp_path / "output", spark)
    assert_as_from_the_folder(tmp_path / "output", result, logs, tmp_path)


def test_a_topic_that_was_made_anew_gets_all_lines(topic: Topic, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    published(draw(5, steps=30), topic, logs)
    state, wanted = logs / f"published-{topic.name}.json", sum(topic_ends(topic).values())
    of_another = json.loads(state.read_bytes())
    of_another["ends"] = {partition: end + 1 for partition, end in of_another["ends"].items()}
    state.write_text(json.dumps(of_another))
    publish(topic, logs)
    assert sum(topic_ends(topic).values()) == 2 * wanted


def test_the_command_audits_a_topic_and_names_what_is_missing(topic: Topic, tmp_path: Path) -> None:
    logs, output = tmp_path / "logs", str(tmp_path / "output")
    published(draw(5, steps=30), topic, logs)
    of_topic = ["run", "--once", "--kafka", topic.bootstrap, "--output", output, "-o", "json"]
    done = run(*of_topic, "--topic", topic.name)
    result = json.loads(done.stdout)
    assert (done.returncode, result["findings"]) == (3, {"unclean-election": 1}), done.stderr
    done = run(*of_topic, "--topic", "no-such-topic")
    assert done.returncode == 1
    assert f"topic no-such-topic at {topic.bootstrap}: there is no such topic" in done.stderr
    done = run(*of_topic, "--topic", topic.name, "--kafka-connector", "1.2.3")
    assert done.returncode == 1
    assert "set --kafka-connector to a version that there is" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
