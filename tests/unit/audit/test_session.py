"""What is said of Spark's errors, and where what Spark writes goes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from audit.spark.errors import AuditFailedError, begin_log, explained, summary
from audit.spark.session import folder_of_spark, new_scratch

OF_A_WORKER = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: An exception was raised by the Python Proxy. \
Return Message: Traceback (most recent call last):
  File "py4j/clientserver.py", line 642, in _call_proxy
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
  Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times: Traceback (most recent call last):
  File "audit/batch.py", line 1, in <module>
ModuleNotFoundError: No module named 'msgspec'

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException
"""
OF_THE_JVM = """\
An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'nowhere'
\tat org.apache.spark.SparkContext$.createTaskScheduler
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OF_A_WORKER, "in a Python process of Spark: ModuleNotFoundError: No module named 'msgspec'"),
        (OF_THE_JVM, "org.apache.spark.SparkException: Could not parse Master URL: 'nowhere'"),
        ("[X] Gone. SQLSTATE: 1 === Streaming Query ===\nIdentifier: y", "[X] Gone. SQLSTATE: 1"),
        ("a Traceback (most recent call last):", "in a Python process of Spark: a"),
        ("", "ValueError"),
    ],
)
def test_an_error_is_one_line_that_says_what_failed(text: str, said: str) -> None:
    assert summary(ValueError(text)) == said


MASTER = "spark://10.0.0.7:7077"
STOPPED = (
    "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was"
)
KILLED = "12:00:00 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: {}\n"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("All masters are unresponsive! Giving up.", f"{MASTER}: no Spark master answers there"),
        ("Master removed our application: FAILED", f"{MASTER}: Spark ended the application: Master removed our"),
    ],
)
def test_an_error_that_only_says_that_spark_has_stopped_is_explained_by_its_log(
    reason: str, said: str, tmp_path: Path
) -> None:
    log = tmp_path / "spark.log"
    for earlier in ("Executor lost", reason):
        begin_log(log)
        with log.open("a") as file:
            file.write(KILLED.format(earlier))
    assert explained(ValueError(STOPPED), log, MASTER).startswith(said)
    begin_log(log)
    assert explained(ValueError(STOPPED), log, MASTER) == STOPPED.splitlines()[0]


def test_a_jvm_that_could_not_start_says_why_in_its_log(tmp_path: Path) -> None:
    exited, log = ValueError("[JAVA_GATEWAY_EXITED] Java gateway process exited"), tmp_path / "spark.log"
    assert explained(exited, log, MASTER) == str(exited)
    log.write_text("Error: no such option\nException in thread main: Could not reserve enough space\n")
    assert explained(exited, log, MASTER) == "Exception in thread main: Could not reserve enough space"
    begin_log(log)
    assert explained(exited, log, MASTER) == str(exited)


def test_an_error_names_the_log(tmp_path: Path) -> None:
    assert str(AuditFailedError("Gone", tmp_path)) == f"Gone; see {tmp_path / 'spark.log'}"


def test_spark_writes_beside_the_tables_or_else_beside_its_checkpoint(tmp_path: Path) -> None:
    assert folder_of_spark(tmp_path, "") == tmp_path
    assert folder_of_spark("s3a://bucket/audit", str(tmp_path)) == tmp_path
    assert folder_of_spark("s3a://bucket/audit", tmp_path.as_uri()) == tmp_path
    assert folder_of_spark("s3a://bucket/audit", "s3a://bucket/audit/checkpoint").name.startswith("klamm-audit")


def test_scratch_of_processes_that_are_gone_is_removed(tmp_path: Path) -> None:
    """Of this one and of the one that started it something may still be used."""
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    names = [ended.stdout.decode().strip(), str(os.getppid()), "blockmgr-1"]
    for name in names:
        (tmp_path / "scratch" / name / "artifacts-1").mkdir(parents=True)
    scratch = new_scratch(tmp_path)
    assert scratch == tmp_path / "scratch" / str(os.getpid())
    assert {path.name for path in (tmp_path / "scratch").iterdir()} == {str(os.getppid()), scratch.name}


@pytest.mark.parametrize("error", [ConnectionRefusedError("[Errno 111] Connection refused"), Py4JNetworkError("")])
def test_a_java_process_that_is_gone_is_named(error: Exception, tmp_path: Path) -> None:
    assert explained(error, tmp_path / "spark.log", MASTER).startswith("Spark's Java process has ended: it was killed")
