"""What `klamm doctor` finds, and what it says to do."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from time import time
from typing import Any

import pytest

from admin.describing.health import HealthIssue
from cluster.process.identity import PAUSED, identify, state_of
from cluster.process.local_cluster import Member
from deploy.local.cluster import LocalCluster
from launcher import doctor_checks as checks
from launcher.doctor import _member
from launcher.doctor_checks import Level
from tests.processes.commands import run_klamm

GB = 10**9


@pytest.mark.parametrize(
    ("diagnosis", "level"),
    [
        (checks.check_python((3, 11, 4), "python"), Level.OK),
        (checks.check_python((3, 10, 9), "python"), Level.PROBLEM),
        (checks.check_open_files(1024, -1), Level.OK),
        (checks.check_open_files(1024, 16_384), Level.OK),
        (checks.check_open_files(1024, 1024), Level.WARNING),
        (checks.check_open_files(100, 100), Level.PROBLEM),
        (checks.check_disk("/d", 50 * GB, 100 * GB), Level.OK),
        (checks.check_disk("/d", 9 * GB, 100 * GB), Level.WARNING),
        (checks.check_disk("/d", GB, 100 * GB), Level.PROBLEM),
        (checks.check_disk("/d", GB // 2, GB), Level.PROBLEM),
        (checks.check_disk("/d", 0, 0), Level.PROBLEM),
        (checks.check_synchronised("yes"), Level.OK),
        (checks.check_synchronised("no"), Level.WARNING),
        (checks.check_synchronised(None), Level.UNKNOWN),
        (checks.check_skew("n", 2), Level.OK),
        (checks.check_skew("n", -3), Level.WARNING),
        (checks.check_skew("n", 31), Level.PROBLEM),
        (checks.check_zookeeper("z:1", True), Level.OK),
        (checks.check_zookeeper("z:1", False), Level.PROBLEM),
        (checks.check_open_znodes("z:1/klamm", []), Level.OK),
        (checks.check_open_znodes("z:1/klamm", [], governs_kafka=True), Level.OK),
        (checks.check_open_znodes("z:1/klamm", ["/consumers"], governs_kafka=True), Level.OK),
        (checks.check_open_znodes("z:1/klamm", ["/consumers"]), Level.PROBLEM),
        (checks.check_open_znodes("z:1/klamm", ["/config", "/feature"]), Level.PROBLEM),
        (checks.check_member("broker-1", "running", [], "x"), Level.OK),
        (checks.check_member("broker-1", "paused", [], "x"), Level.PROBLEM),
        (checks.check_member("broker-1", "stopped", [9092], "x"), Level.PROBLEM),
        (checks.check_health([]), Level.OK),
        (checks.check_health([HealthIssue("imbalanced_leaders", "does not lead 3 of its 4")]), Level.OK),
        (checks.check_health([HealthIssue("under_replicated", "in sync [1]")]), Level.PROBLEM),
        (checks.check_health([HealthIssue("offline_partition", "no leader")]), Level.PROBLEM),
        (checks.check_health([HealthIssue("what_comes_later", "?")]), Level.PROBLEM),
        (checks.check_versions("1", {"grpcio": "1.85"}), Level.OK),
        (checks.check_versions("1", {"grpcio": None}), Level.PROBLEM),
    ],
)
def test_each_check_has_its_limits_and_says_what_to_do(diagnosis: checks.Diagnosis, level: Level) -> None:
    assert diagnosis.level is level
    assert bool(diagnosis.remedy) is (level not in {Level.OK, Level.UNKNOWN})


def examined(*arguments: str, code: int) -> list[dict[str, Any]]:
    answer = run_klamm("doctor", "-o", "json", "--timeout", "1", *arguments)
    assert answer.returncode == code, answer.stderr
    document = json.loads(answer.stdout)
    assert document["problems"] == sum(c["level"] == "problem" for c in document["checks"])
    found: list[dict[str, Any]] = document["checks"]
    return found


def test_a_stopped_cluster_whose_port_others_have_is_found(tmp_path: Path) -> None:
    cluster = LocalCluster.create_or_open(tmp_path / "c", controllers=1, brokers=1)
    broker = cluster.member("broker-1")
    with socket.create_server(("127.0.0.1", broker.port)):
        found = examined("--data", str(tmp_path / "c"), code=3)
    problems = {c["check"]: c for c in found if c["level"] == "problem"}
    assert problems["zookeeper"]["detail"] == f"{cluster.state.zookeeper} does not serve"
    assert problems["ports"]["detail"] == f"{broker.port} of broker-1 used by another program"
    assert problems["process"]["detail"].endswith("is stopped")
    assert "klamm up --detach" in problems["process"]["remedy"]
    assert "is stopped; start it" in problems["cluster"]["detail"]


def test_a_paused_process_is_named_with_what_continues_it(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            process.send_signal(signal.SIGSTOP)
            while state_of(identify(process.pid)) != PAUSED:
                pass
            found = _member(Member("broker", 1, 1, 0, process=identify(process.pid)), tmp_path)
        finally:
            process.kill()
    assert (found.level, found.detail) == (Level.PROBLEM, "broker-1 is paused")
    assert found.remedy.startswith(f"continue it with kill -CONT {process.pid};")


def test_every_error_of_a_configuration_is_found(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('id = 1\nzookeeper = "z:1"\nlisten = "nowhere"\ndata = "d"\n')
    found = examined("--config", str(file), "--data", str(tmp_path), code=3)
    (problem,) = [c for c in found if c["level"] == "problem"]
    assert problem["check"] == "config"
    assert problem["detail"].startswith(f"{file}: listen: ")


@pytest.fixture
def clock_ahead() -> Iterator[str]:
    """The address of a server whose clock is an hour ahead."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response_only(200)
            self.send_header("Date", formatdate(time() + 3600, usegmt=True))
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_node_whose_clock_is_wrong_is_found(clock_ahead: str, tmp_path: Path) -> None:
    found = examined("--metrics", clock_ahead, "--data", str(tmp_path), code=3)
    (problem,) = [c for c in found if c["level"] == "problem"]
    assert problem["check"] == "clock"
    # The date has no fractions of a second.
    assert re.fullmatch(rf"{clock_ahead}: 3(59\d|600) s ahead of this machine", problem["detail"])


def test_a_machine_without_a_cluster_has_no_problem_for_that(tmp_path: Path) -> None:
    found = examined("--data", str(tmp_path), code=0)
    assert {c["check"] for c in found} == {"python", "versions", "java", "open files", "clock"}
