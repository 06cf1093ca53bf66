"""A real Spark stream goes on behind a rebuild: its checkpoint is still that of its tables."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from audit.batches.rebuild import rebuild
from audit.storage.commits import Commit
from audit.storage.output_folder import OutputFolder
from tests.audits.outputs import rows_that_hold
from tests.audits.spark_audits import audit
from tests.audits.state_change_histories import draw, write_logs
from tests.unit.state_log.test_invariants import leader_epoch_leap, second_leader_by_an_agent

pytestmark = pytest.mark.real


def last_commit(output: Path) -> Commit:
    commit = OutputFolder(output).last_commit()
    assert commit is not None
    return commit


def test_an_audit_goes_on_behind_a_rebuild_and_repeats_a_batch_that_the_checkpoint_lacks(
    spark: SparkSession, tmp_path: Path
) -> None:
    cluster, logs, output = draw(11, steps=80, partitions=4), tmp_path / "logs", tmp_path / "output"
    second_leader_by_an_agent(cluster)
    write_logs(cluster.logs, logs)
    audit(spark, logs, output)
    before = last_commit(output)
    # As if the machine had gone down between the commit and that of Spark's.
    for name in (f"{before.batch}", f".{before.batch}.crc"):
        (output / "checkpoint" / "commits" / name).unlink()
    rebuild(OutputFolder(output), 7)

    for _ in range(40):
        cluster.step()
    leader_epoch_leap(cluster)
    write_logs(cluster.logs, logs)
    result = audit(spark, logs, output)
    commit = last_commit(output)
    assert (commit.bucket_count, commit.rebuilds, commit.spark_batch) == (7, 1, before.batch + 1)
    assert result.records == sum(map(len, cluster.logs.values()))

    undisturbed = tmp_path / "undisturbed"
    assert audit(spark, logs, undisturbed) == result
    assert rows_that_hold(output) == rows_that_hold(undisturbed)
