"""`klamm audit run` as a process that follows growing logs, and its exit codes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from state_log.writer import read_audited
from tests.audits.state_change_histories import draw, write_logs
from tests.timeouts import TIMEOUT_S
from tests.unit.state_log.test_invariants import second_leader_by_an_agent

COMMAND = [sys.executable, "-c", "from audit.cli import app; app()"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """An audit in a process group of its own, which does not outlive a test that fails."""
    with subprocess.Popen(
        [*COMMAND, "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise


@pytest.mark.real
@pytest.mark.deep
def test_the_job_follows_logs_that_grow_until_it_is_stopped(tmp_path: Path) -> None:
    cluster, logs, output = draw(3, steps=40, unclean=False), tmp_path / "logs", tmp_path / "output"
    paths = write_logs(cluster.logs, logs)
    with running("--log-dir", str(logs), "--output", str(output), "-o", "json") as process:
        wait_until_audited(paths[cluster.controller])
        second_leader_by_an_agent(cluster)
        added = write_logs(cluster.logs, logs)
        wait_until_audited(added["broker-9", "1800000000000.1"])
        process.send_signal(signal.SIGTERM)
        result = json.loads(process.communicate(timeout=TIMEOUT_S)[0])
    assert process.returncode == 3
    assert result["findings"] == {"one-leader-per-epoch": 1}
    assert result["records"] == sum(len(changes) for changes in cluster.logs.values())
    reported = run("report", "--output", str(output), "-o", "json")
    assert (reported.returncode, json.loads(reported.stdout)["verdict"]) == (3, "findings")


@pytest.mark.real
@pytest.mark.deep
def test_ctrl_c_ends_the_job_with_its_result_and_without_noise(tmp_path: Path) -> None:
    cluster, logs = draw(3, steps=40, unclean=False), tmp_path / "logs"
    paths = write_logs(cluster.logs, logs)
    with running("--log-dir", str(logs), "--output", str(tmp_path / "output"), "-o", "json") as process:
        wait_until_audited(paths[cluster.controller])
        # A terminal signals the whole group, Spark's processes included.
        os.killpg(process.pid, signal.SIGINT)
        result, messages = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert json.loads(result)["verdict"] == "clean"
    assert all(line.endswith(" findings") for line in messages.splitlines())


@pytest.mark.real
@pytest.mark.deep
def test_a_script_waits_for_a_clean_verdict_with_metrics_to_scrape_meanwhile(tmp_path: Path) -> None:
    cluster, logs = draw(3, steps=40, unclean=False), tmp_path / "logs"
    write_logs(cluster.logs, logs)
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    arguments = ["--until-clean", "--log-dir", str(logs), "--output", str(tmp_path / "output"), "-o", "json"]
    with running(*arguments, "--expect", "broker-77", "--metrics-listen", listen) as process:
        # The job sets the verdict, and Spark's listener the number of batches, in either order.
        wait_until_scraped(
            process, listen, ['klamm_audit_job_verdict{value="incomplete"} 1.0', "klamm_audit_job_batchms_count 1.0"]
        )
        process.send_signal(signal.SIGTERM)
        assert json.loads(process.communicate(timeout=TIMEOUT_S)[0])["verdict"] == "incomplete"
    assert process.returncode == 4
    finished = run("run", *arguments)
    assert (finished.returncode, json.loads(finished.stdout)["verdict"]) == (0, "clean")


def wait_until_scraped(process: subprocess.Popen[str], listen: str, expected: list[str]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while absent := [line for line in expected if line not in scrape(listen)]:
        assert process.poll() is None
        assert time.monotonic() < deadline, f"{absent} were not exposed"
        time.sleep(0.1)


def scrape(listen: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{listen}/metrics", timeout=TIMEOUT_S) as response:
            return str(response.read().decode())
    except urllib.error.URLError:
        return ""


def wait_until_audited(path: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while read_audited(path.parent).get(path.name) != path.stat().st_size:
        assert time.monotonic() < deadline, f"{path} was not read"
        time.sleep(0.2)


def test_verify_tells_an_untouched_log_from_an_altered_one(tmp_path: Path) -> None:
    cluster = draw(3, steps=10)
    path = write_logs(cluster.logs, tmp_path)[cluster.controller]
    clean = run("verify", "--log-dir", str(tmp_path), "-o", "json")
    shown = json.loads(clean.stdout)
    assert (clean.returncode, shown["verdict"], shown["breaks"], shown["incomplete"]) == (0, "clean", [], [])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    broken = run("verify", "--log-dir", str(tmp_path), "-o", "json")
    assert broken.returncode == 3
    assert [found["rule"] for found in json.loads(broken.stdout)["breaks"]] == ["sequence-gap"]


def test_wrong_usage_is_distinguished_from_findings(tmp_path: Path) -> None:
    # A longer path would be shown on two lines.
    missing = run("run", "--log-dir", "/absent", "--output", str(tmp_path / "out"))
    assert missing.returncode == 2
    assert "/absent" in missing.stderr
    assert run("report", "--output", str(tmp_path / "absent")).returncode == 2
    at = ("run", "--log-dir", str(tmp_path), "--output", str(tmp_path / "out"))
    for wrong, named in (
        (["--once", "--until-clean"], "are mutually exclusive"),
        (["--once", "--timeout", "5"], "--timeout"),
        (["--webhook", "alerts:80"], "alerts:80"),
        (["--metrics-listen", "9090"], "9090: must be host:port"),
        (["--expect", "broker4"], "broker4"),
    ):
        refused = run(*at, *wrong, COLUMNS="400")
        assert (refused.returncode, named in refused.stderr) == (2, True), refused.stderr


def test_a_spark_that_cannot_start_is_no_verdict_and_says_where_the_log_is(tmp_path: Path) -> None:
    failed = run(
        "run", "--log-dir", str(tmp_path), "--output", str(tmp_path / "out"), "--once", JAVA_HOME=str(tmp_path)
    )
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "spark.log" in failed.stderr
    assert "java" in (tmp_path / "out" / "spark.log").read_text()


@pytest.mark.real
@pytest.mark.deep
def test_a_master_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """After Spark's three attempts of 20 s, whose number and time it fixes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        master = f"spark://127.0.0.1:{free.getsockname()[1]}"
    arguments = ["--log-dir", str(tmp_path), "--output", str(tmp_path / "out"), "--once", "--master", master]
    failed = run("run", *arguments)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith(f"the audit failed: {master}: no Spark master answers there")


def test_help_loads_no_spark() -> None:
    probe = "import sys, audit.cli; print([m for m in ('pyspark', 'pandas', 'pyarrow') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout == "[]\n"
