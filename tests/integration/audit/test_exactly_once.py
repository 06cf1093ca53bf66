"""The audit is killed at every turn, and its tables are those of an undisturbed run."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from audit.report.report import read_result
from audit.storage.commits import Commit
from audit.storage.file_store import Location
from audit.storage.output_folder import OutputFolder
from audit.storage.table_schemas import FINDINGS_TABLE, QUARANTINE_TABLE, RECORDS_TABLE
from tests.audits.state_change_histories import draw, write_logs
from tests.timeouts import TIMEOUT_S
from tests.unit.state_log.test_invariants import leader_epoch_leap, second_leader_by_an_agent

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = "tests.integration.audit.crashing_audit"
TABLES = (RECORDS_TABLE, FINDINGS_TABLE, QUARANTINE_TABLE, "timelines")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of some batches, with contradictions and lines that are no records."""
    folder, cluster = tmp_path_factory.mktemp("logs"), draw(21, steps=450, partitions=6)
    second_leader_by_an_agent(cluster)
    leader_epoch_leap(cluster)
    for number, path in enumerate(write_logs(cluster.logs, folder, ms_between_epochs=10).values()):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([*lines[:number], b"not a record\n", *lines[number:]]))
    return folder


@pytest.fixture(scope="module")
def undisturbed(logs: Path, java_for_spark: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output: Path = tmp_path_factory.mktemp("undisturbed")
    with audit("never", logs, output) as process:
        assert process.wait(TIMEOUT_S) == 0
    assert last_batch(output) > 4, "the runs that are killed need batches"
    assert len(list((output / "state").rglob("*-sealed.arrow"))) > 4, "and what is sealed must be read again"
    assert {"one-leader-per-epoch", "leader-epoch-by-one"} <= read_result(output).findings.keys()
    return output


@contextlib.contextmanager
def audit(point: str, logs: Path, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The script in a process group of its own, of which nothing is left at the end."""
    command = [sys.executable, "-m", SCRIPT, point, str(logs), str(output)]
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def last_batch(output: Location) -> int:
    commit = OutputFolder(output).last_commit()
    return -1 if commit is None else commit.batch


def kill_after_batches(count: int, random: Random, logs: Path, output: Path) -> None:
    """SIGKILL for the whole group somewhere within the batches that follow."""
    with audit("never", logs, output) as process:
        wanted, deadline = last_batch(output) + count, time.monotonic() + TIMEOUT_S
        while last_batch(output) < wanted and process.poll() is None:
            assert time.monotonic() < deadline, f"batch {wanted} was not reached"
            time.sleep(0.02)
        time.sleep(random.uniform(0, 1))


def run_to_the_end_without_a_worker(logs: Path, output: Path) -> None:
    """A Python process of Spark's is killed in the first batch that is left: it costs that batch, and ends nothing."""
    command = [sys.executable, "-m", SCRIPT, "worker", str(logs), str(output)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"ended unexpectedly in batch \d+: it is read again, attempt 2 of 3", ran.stderr), ran.stderr


def run_to_the_end(logs: Path, output: Path) -> None:
    with audit("never", logs, output) as process:
        assert process.wait(TIMEOUT_S) == 0


def assert_same(output: Location, undisturbed: Path) -> None:
    for table in TABLES:
        assert rows(output, table) == rows(undisturbed, table)
    ours, theirs = commits(output, undisturbed)
    assert (ours.records, ours.quarantined, ours.taken) == (theirs.records, theirs.quarantined, theirs.taken)
    assert read_result(output) == read_result(undisturbed)


def commits(*outputs: Location) -> list[Commit]:
    found = [OutputFolder(output).last_commit() for output in outputs]
    return [commit for commit in found if commit is not None]


def rows(output: Location, table: str) -> Sequence[dict[str, Any]]:
    return sorted(OutputFolder(output).rows(table), key=str)


def kill_at(point: str, logs: Path, output: Path) -> None:
    before = last_batch(output)
    with audit(point, logs, output) as process:
        assert process.wait(TIMEOUT_S) == -signal.SIGKILL
    assert last_batch(output) == before + (point == "commit")


def test_an_audit_that_was_killed_at_its_commits_within_a_batch_and_in_a_worker_has_each_row_once(
    logs: Path, undisturbed: Path, tmp_path: Path
) -> None:
    for point in ("tables", "commit"):
        kill_at(point, logs, tmp_path)
    kill_after_batches(1, Random(1), logs, tmp_path)
    run_to_the_end_without_a_worker(logs, tmp_path)
    assert_same(tmp_path, undisturbed)


@pytest.mark.deep
def test_an_audit_whose_tasks_were_killed_has_each_row_once(logs: Path, undisturbed: Path, tmp_path: Path) -> None:
    for point in ("source", "state", "table", "commit", "table", "state", "source"):
        kill_at(point, logs, tmp_path)
    run_to_the_end(logs, tmp_path)
    assert_same(tmp_path, undisturbed)


@pytest.mark.deep
def test_an_audit_that_was_killed_twenty_times_has_each_row_once(logs: Path, undisturbed: Path, tmp_path: Path) -> None:
    random, kills = Random(2), 0
    while kills < 20:
        output = tmp_path / str(kills)
        for _ in range(4):
            kill_after_batches(random.randrange(2), random, logs, output)
            kills += 1
        run_to_the_end(logs, output)
        assert_same(output, undisturbed)


DAMAGE = {
    "a missing commit": ("commits/{last}.json", "commits/{last}.json"),
    "a missing file of the state": ("state/{cluster}", "state/{cluster}"),
    "a half-copied table": ("tables/records", "tables/records"),
}


@pytest.mark.deep
def test_an_output_that_is_not_as_it_was_left_is_refused_in_one_line(undisturbed: Path, tmp_path: Path) -> None:
    (commit,) = commits(undisturbed)
    parts = {"last": commit.batch, "cluster": commit.bucket_count}
    for number, (name, named) in enumerate(DAMAGE.values()):
        output = tmp_path / str(number)
        shutil.copytree(undisturbed, output)
        path = output / name.format(**parts)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        for command in (["run", "--once", "--log-dir", str(tmp_path)], ["report"]):
            assert named.format(**parts) in refusal(*command, "--output", str(output))


def refusal(*arguments: str) -> str:
    command = [sys.executable, "-c", "from audit.cli import app; app()", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in ran.stderr.splitlines() if not line.endswith(" findings")]
    assert (ran.returncode, ran.stdout, len(said)) == (1, "", 1), ran.stderr
    return said[0]
