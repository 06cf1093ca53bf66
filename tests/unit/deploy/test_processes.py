"""Processes are recognised by more than their pid."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from deploy.local import processes
from deploy.local.processes import ProcessIdentity


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield child
    child.kill()
    child.wait()


def identity(child: subprocess.Popen[bytes]) -> ProcessIdentity:
    found = processes.identify(child.pid)
    assert found is not None
    return found


def test_a_process_is_running_paused_and_gone(sleeper: subprocess.Popen[bytes]) -> None:
    process = identity(sleeper)
    assert processes.state_of(process) == processes.RUNNING
    processes.send_signal(process, signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    assert processes.state_of(process) == processes.PAUSED
    processes.end([process], timeout_s=10)
    assert processes.state_of(process) == processes.GONE


def test_a_pid_that_another_process_has_now_is_never_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    stranger = ProcessIdentity(sleeper.pid, started="at another time")
    assert processes.state_of(stranger) == processes.GONE
    assert not processes.send_signal(stranger, signal.SIGKILL)
    processes.end([stranger], timeout_s=1)
    assert sleeper.poll() is None


def test_a_process_that_ignores_the_request_to_stop_is_killed() -> None:
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        processes.end([identity(child)], timeout_s=0.2)
        assert child.wait(10) == -signal.SIGKILL


def test_nothing_has_no_state_and_takes_no_signal() -> None:
    assert processes.state_of(None) == processes.GONE
    assert not processes.send_signal(None, signal.SIGTERM)


def test_chosen_ports_are_free_distinct_and_not_those_taken() -> None:
    first = processes.choose_free_ports(5)
    second = processes.choose_free_ports(5, taken=first)
    assert len({*first, *second}) == 10
    assert all(processes.is_free(port) for port in (*first, *second))


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not processes.is_free(server.getsockname()[1])
