"""The audit on Spark clusters of this machine, and with its tables in an object store: rows as of a run on one JVM."""

import contextlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import jgo
import pytest

from audit.report.report import read_result
from audit.spark.packages import FOLDER, write_package
from audit.storage.output_folder import OutputFolder
from deploy.local.java import find_java, spark_environment
from deploy.spark.standalone import StandaloneCluster, standalone_cluster
from tests.audits.s3_server import new_bucket, s3_server
from tests.audits.state_change_histories import draw, write_logs
from tests.integration.audit.test_exactly_once import assert_same, last_batch
from tests.timeouts import TIMEOUT_S
from tests.unit.state_log.test_invariants import leader_epoch_leap, second_leader_by_an_agent

pytestmark = [pytest.mark.real, pytest.mark.deep, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import sys
from pathlib import Path
from audit.job import run_audit
from audit.options import AuditOptions
from audit.spark.settings import SparkSettings, parse_conf
logs, output, checkpoint, master, memory, *conf = sys.argv[1:]
settings = SparkSettings(master, memory, 2, conf=parse_conf(conf))
run_audit([Path(logs)], output, AuditOptions(once=True, batch_bytes=40_000, checkpoint=checkpoint), settings=settings)
"""
PYTHON_OF_WORKERS = f"spark.pyspark.python={os.path.realpath(sys.executable)}"
"""Without the packages of this environment."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {**os.environ, **spark_environment(find_java(), tmp_path_factory.mktemp("java"))}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, cluster = tmp_path_factory.mktemp("logs"), draw(21, steps=900, partitions=6)
    second_leader_by_an_agent(cluster)
    leader_epoch_leap(cluster)
    write_logs(cluster.logs, folder)
    return folder


@pytest.fixture(scope="module")
def expected(logs: Path, environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("expected")
    with audit(logs, output, environment) as process:
        assert process.wait(TIMEOUT_S) == 0
    assert last_batch(output) > 4, "something must be left to do when a worker is killed"
    return output


@contextlib.contextmanager
def audit(
    logs: Path, output: Path | str, environment: Mapping[str, str], master: str = "", *conf: str, checkpoint: str = ""
) -> Iterator[subprocess.Popen[bytes]]:
    memory = "1g" if master.startswith("local") else "512m"
    command = [sys.executable, "-c", RUN, str(logs), str(output), checkpoint, master, memory, *conf]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def test_tables_on_a_cluster_of_one_jvm_for_each_executor(
    logs: Path, expected: Path, environment: Mapping[str, str], tmp_path: Path
) -> None:
    own = {**environment, "SPARK_HOME": str(spark_home(tmp_path / "spark"))}
    with audit(logs, tmp_path / "output", own, "local-cluster[2,1,1024]", PYTHON_OF_WORKERS) as process:
        assert process.wait(TIMEOUT_S) == 0
    assert_same(tmp_path / "output", expected)


def spark_home(folder: Path) -> Path:
    """Spark of which `work`, the working directory of its executors, is in this folder."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    folder.mkdir()
    for name in ("bin", "jars", "python"):
        (folder / name).symlink_to(Path(spec.origin).parent / name)
    return folder


@pytest.fixture(scope="module")
def cluster(environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


def test_the_audit_as_a_program_of_spark_submit(
    logs: Path, expected: Path, environment: Mapping[str, str], tmp_path: Path, cluster: StandaloneCluster
) -> None:
    archive, output = tmp_path / "klamm-audit.zip", tmp_path / "output"
    write_package(archive)
    spark = ["--master", cluster.url, "--executor-memory", "512m", "--archives", f"{archive}#{FOLDER}"]
    command = [str(Path(sys.executable).with_name("spark-submit")), *spark, "--conf", PYTHON_OF_WORKERS]
    command += ["--conf", f"spark.pyspark.driver.python={sys.executable}"]
    audited = ["run", "--once", "--shuffle-partitions", "2", "--log-dir", str(logs), "--output", str(output)]
    own = {**environment, "SPARK_HOME": str(spark_home(tmp_path / "spark")), "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run(
        [*command, str(ROOT / "deploy" / "spark" / "submit.py"), *audited],
        env=own,
        timeout=TIMEOUT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 3, ran.stdout[-3000:]
    assert read_result(output) == read_result(expected)
    assert not list(output.glob("*.zip")), "the archive that was given is the one that is used"


def test_tables_on_a_standalone_cluster_of_which_a_worker_is_killed(
    logs: Path, expected: Path, environment: Mapping[str, str], tmp_path: Path, cluster: StandaloneCluster
) -> None:
    output = tmp_path / "output"
    with audit(logs, output, environment, cluster.url, PYTHON_OF_WORKERS) as process:
        wait_for_batch(1, output, process)
        cluster.workers[0].kill()
        assert process.wait(TIMEOUT_S) == 0
    assert_same(output, expected)


def wait_for_batch(number: int, output: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while last_batch(output) < number:
        assert process.poll() is None, (output / "spark.log").read_text()[-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def s3(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment in which clients find an S3 server; this process is one of them."""
    with s3_server() as of_s3:
        for name, value in of_s3.items():
            monkeypatch.setenv(name, value)
        yield {**environment, **of_s3}


def audit_by_two_runs(logs: Path, output: str, environment: Mapping[str, str], checkpoint: str, *conf: str) -> None:
    with audit(logs, output, environment, "", *conf, checkpoint=checkpoint) as process:
        deadline = time.monotonic() + TIMEOUT_S
        while (commit := OutputFolder(output).last_commit()) is None or commit.batch < 1:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(1)
        process.kill()
    with audit(logs, output, environment, "", *conf) as process:
        assert process.wait(TIMEOUT_S) == 0
    OutputFolder(output).check()


def test_tables_in_an_object_store_by_two_runs(
    logs: Path, expected: Path, s3: Mapping[str, str], tmp_path: Path
) -> None:
    output = f"s3a://{new_bucket()}/audit"
    audit_by_two_runs(logs, output, s3, str(tmp_path / "checkpoint"))
    assert_same(output, expected)
    assert (tmp_path / "checkpoint" / "spark.log").exists()


def test_the_checkpoint_in_the_object_store_by_two_runs(logs: Path, expected: Path, s3: Mapping[str, str]) -> None:
    """By Spark's own S3 connector, whose 650 MB are fetched once."""
    output = f"s3a://{new_bucket()}/audit"
    # The driver alone writes the checkpoint; `spark.jars` would be copied for executors at each start.
    jars = os.pathsep.join(map(str, s3_connector()))
    conf = [f"spark.driver.extraClassPath={jars}", "spark.hadoop.fs.s3a.path.style.access=true"]
    conf.append(f"spark.hadoop.fs.s3a.endpoint={s3['AWS_ENDPOINT_URL']}")
    audit_by_two_runs(logs, output, s3, f"{output}/checkpoint", *conf)
    assert_same(output, expected)


def s3_connector() -> list[Path]:
    """Its jars, of the version of Hadoop that this Spark has."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    (client,) = (Path(spec.origin).parent / "jars").glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    return sorted(jgo.build(f"org.apache.hadoop:hadoop-aws:{version}").path.rglob("*.jar"))
