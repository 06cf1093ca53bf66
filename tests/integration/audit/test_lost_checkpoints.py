"""Spark's checkpoint after a power failure: the commit is on the disk; files of Spark's are short, empty or gone."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from audit.job import run_audit
from audit.options import AuditOptions
from audit.report.report import read_result
from audit.storage.committed_state import OutputError
from audit.storage.output_folder import OutputFolder
from tests.audits.outputs import rows_that_hold
from tests.audits.state_change_histories import draw, write_logs
from tests.unit.state_log.test_invariants import second_leader_by_an_agent

pytestmark = pytest.mark.real
Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, cluster = tmp_path_factory.mktemp("logs"), draw(21, steps=200, partitions=4)
    second_leader_by_an_agent(cluster)
    write_logs(cluster.logs, folder)
    return folder


def audit(spark: SparkSession, logs: Path, output: Path, *, batches: int | None = None) -> list[str]:
    """Audit to the end of the logs, or so many batches of it; returns what it said was mended."""
    said: list[str] = []
    options = AuditOptions(once=batches is None, batch_bytes=16_000, trigger_seconds=0.1)
    enough = None if batches is None else lambda _: last_batch(output) >= batches - 1
    run_audit([logs], output, options, session=spark, say=said.append, on_progress=enough)
    return said


def last_batch(output: Path) -> int:
    commit = OutputFolder(output).last_commit()
    return -1 if commit is None else commit.batch


@pytest.fixture(scope="module")
def outputs(spark: SparkSession, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An audit of all logs, and one that has read a part of them."""
    undisturbed, begun = (tmp_path_factory.mktemp(name) for name in ("undisturbed", "begun"))
    assert audit(spark, logs, undisturbed) == []
    audit(spark, logs, begun, batches=3)
    return undisturbed, begun


def copy_of(begun: Path, output: Path) -> None:
    """Copy an output. A worker of the batch that was cancelled may still write and remove temporary files."""
    shutil.copytree(begun, output, ignore=shutil.ignore_patterns("*.tmp"))


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def each(change: Damage) -> Damage:
    """The same damage to every file of a checkpoint."""
    return lambda top: [change(path) for path in sorted(top.rglob("*")) if path.is_file()]


WHOLE: dict[str, Damage] = {"removed": shutil.rmtree, "emptied": each(emptied), "halved": each(halved)}


@pytest.mark.parametrize("damage", WHOLE)
def test_an_audit_continues_from_its_commit(
    damage: str, spark: SparkSession, logs: Path, outputs: tuple[Path, Path], tmp_path: Path
) -> None:
    (undisturbed, begun), output = outputs, tmp_path / "output"
    copy_of(begun, output)
    WHOLE[damage](output / "checkpoint")
    (said,) = audit(spark, logs, output)
    assert said.startswith("Spark's checkpoint was not whole; rebuilt from the last commit: commits/")
    assert_same(output, undisturbed)


def test_a_checkpoint_of_another_audit_is_refused(
    spark: SparkSession, logs: Path, outputs: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The query is known only when Spark runs the first batch; the batch that fails leaves no traceback."""
    output = tmp_path / "output"
    copy_of(outputs[1], output)
    commit = OutputFolder(output).last_commit()
    assert commit is not None
    metadata = output / "checkpoint" / "metadata"
    other = metadata.read_text().replace(commit.query[:8], "01234567")
    assert other != metadata.read_text()
    metadata.write_text(other)
    (output / "checkpoint" / ".metadata.crc").unlink()
    with pytest.raises(OutputError, match=f"of query {commit.query}: its checkpoint is not the one of its tables"):
        audit(spark, logs, output)
    assert capfd.readouterr() == ("", "")


@pytest.mark.deep
@pytest.mark.parametrize("change", [Path.unlink, emptied, halved])
def test_it_does_so_whichever_file_is_damaged(
    change: Damage, spark: SparkSession, logs: Path, outputs: tuple[Path, Path], tmp_path: Path
) -> None:
    undisturbed, begun = outputs
    top = begun / "checkpoint"
    for number, path in enumerate(sorted(path for path in top.rglob("*") if path.is_file())):
        output = tmp_path / str(number)
        copy_of(begun, output)
        change(output / path.relative_to(begun))
        audit(spark, logs, output)
        assert_same(output, undisturbed)


def assert_same(output: Path, undisturbed: Path) -> None:
    assert last_batch(output) > 2
    assert rows_that_hold(output) == rows_that_hold(undisturbed)
    assert read_result(output) == read_result(undisturbed)
