"""Processes are recognised by more than their pid."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.process import identity
from cluster.process.identity import ProcessIdentity
from deploy.local import processes
from tests.timeouts import TIMEOUT_S


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield child
    child.kill()
    child.wait()


def identity_of(child: subprocess.Popen[bytes]) -> ProcessIdentity:
    found = identity.identify(child.pid)
    assert found is not None
    return found


def test_a_process_is_running_paused_and_gone(sleeper: subprocess.Popen[bytes]) -> None:
    process = identity_of(sleeper)
    assert identity.state_of(process) == identity.RUNNING
    processes.send_signal(process, signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    assert identity.state_of(process) == identity.PAUSED
    processes.end([process], TIMEOUT_S)
    assert identity.state_of(process) == identity.GONE


def test_a_process_is_not_gone_before_its_last_thread_is() -> None:
    script = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start(); "
        "print(1, flush=True); ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process, stat = identity_of(child), Path(f"/proc/{child.pid}/stat")
        deadline = time.monotonic() + TIMEOUT_S
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < deadline, "its first thread goes on"
            time.sleep(0.01)
        found = identity.state_of(process), child.poll()
        child.kill()
        assert found == (identity.RUNNING, None)
        assert processes.wait_until_gone([process], TIMEOUT_S)
        assert child.poll() == -signal.SIGKILL


def test_a_pid_that_another_process_has_now_is_never_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    stranger = ProcessIdentity(sleeper.pid, started="at another time")
    assert identity.state_of(stranger) == identity.GONE
    assert not processes.send_signal(stranger, signal.SIGKILL)
    processes.end([stranger], timeout_s=1)
    assert sleeper.poll() is None


def test_a_process_that_ignores_the_request_to_stop_is_killed() -> None:
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        processes.end([identity_of(child)], timeout_s=0.2)
        assert child.wait(TIMEOUT_S) == -signal.SIGKILL


def test_nothing_has_no_state_and_takes_no_signal() -> None:
    assert identity.state_of(None) == identity.GONE
    assert not processes.send_signal(None, signal.SIGTERM)


def test_chosen_ports_are_free_distinct_and_not_those_taken() -> None:
    first = processes.choose_free_ports(5)
    second = processes.choose_free_ports(5, taken=first)
    assert len({*first, *second}) == 10
    assert all(processes.is_free(port) for port in (*first, *second))


@pytest.mark.parametrize(
    ("first_of_others", "candidates"),
    [
        (49_152, range(20_000, 32_768)),
        (32_768, range(20_000, 32_768)),
        (21_001, range(20_000, 21_001)),
        (16_000, range(10_000, 16_000)),
        (1_024, range(20_000, 32_768)),
    ],
)
def test_ports_are_chosen_among_those_that_no_outgoing_connection_is_given(
    monkeypatch: pytest.MonkeyPatch, first_of_others: int, candidates: range
) -> None:
    monkeypatch.setattr(processes, "_first_ephemeral_port", lambda: first_of_others)
    assert set(processes.choose_free_ports(30)) <= set(candidates)


def test_a_port_is_chosen_by_one_process_at_a_time() -> None:
    [first] = processes.choose_free_ports(1)
    program = (
        "from deploy.local import processes\n"
        f"processes._candidates = lambda: range({first}, {first + 1})\n"
        "print(processes.choose_free_ports(1))"
    )
    command = [sys.executable, "-P", "-c", program]
    other = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert "found only 0 of 1 free ports" in other.stderr


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not processes.is_free(server.getsockname()[1])
