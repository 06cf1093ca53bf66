"""How the limit of open files is divided, and what an operator reads of a low one."""

import resource
import subprocess
import sys

import pytest
import structlog

from cluster.model.errors import StartupError
from cluster.process.descriptors import UNLIMITED, plan_descriptors, raise_limit, shortage, warn_if_low

THREADS = 32


@pytest.mark.rule("FD-5")
@pytest.mark.parametrize("limit", [256, 1024, 4096, 65_536, UNLIMITED])
@pytest.mark.parametrize("configured", [None, 1, 100, 10**9])
def test_files_and_connections_leave_room_for_what_is_needed_beside_them(limit: int, configured: int | None) -> None:
    plan = plan_descriptors(limit, disk_threads=THREADS, log_files=configured)
    assert plan.log_files > 0
    assert plan.connections >= 30
    assert plan.log_files + plan.connections <= limit - 2 * THREADS - 100
    if configured is None:
        assert abs(plan.log_files - plan.connections) <= 1
    else:
        assert plan.log_files <= configured
    controller = plan_descriptors(limit)
    assert (controller.log_files, controller.connections) == (0, limit - 128)


@pytest.mark.rule("FD-5")
def test_a_limit_that_leaves_nothing_refuses_the_start_and_says_what_is_needed() -> None:
    with pytest.raises(StartupError, match=r"200 open files are too few, 256 are needed: ulimit -n") as caught:
        plan_descriptors(200, disk_threads=THREADS)
    assert "LimitNOFILE" in str(caught.value)
    assert plan_descriptors(256, disk_threads=THREADS).limit == 256


@pytest.mark.rule("FD-5")
def test_one_line_warns_of_a_low_limit() -> None:
    with structlog.testing.capture_logs() as lines:
        warn_if_low(plan_descriptors(1024, disk_threads=THREADS))
        warn_if_low(plan_descriptors(16_384, disk_threads=THREADS))
    [line] = lines
    assert (line["log_level"], line["limit"], line["log_files_at_a_time"], line["connections"]) == (
        "warning",
        1024,
        416,
        416,
    )
    assert "ulimit -n" in line["remedy"]


@pytest.mark.rule("FD-5")
@pytest.mark.parametrize(("soft", "hard"), [(256, 512), (300, 300)])
def test_the_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int) -> None:
    code = "from cluster.process.descriptors import raise_limit; print(raise_limit())"
    set_limits = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard})); {code}"
    found = subprocess.run([sys.executable, "-c", set_limits], capture_output=True, text=True, check=True)
    assert found.stdout == f"{hard}\n"


def test_no_limit_counts_as_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert raise_limit() == UNLIMITED


@pytest.mark.rule("FD-5")
@pytest.mark.parametrize(("left", "is_short"), [(0, True), (1, True), (10, True), (200, False)])
def test_a_process_that_runs_out_of_descriptors_says_so(left: int, is_short: bool) -> None:
    code = (
        "import os, resource; from cluster.process.descriptors import shortage; used = len(os.listdir('/proc/self/fd'))"
        f"; resource.setrlimit(resource.RLIMIT_NOFILE, (used + {left}, used + 500)); print(shortage())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ("files and connections are open" in found.stdout) == is_short, found.stdout


def test_without_a_limit_nothing_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert shortage() is None
