"""An agent as a real process on a real ZooKeeper: start, refusals an operator can mend, graceful end."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from cluster.model.exit_codes import ExitCode
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.programs import LONG_SESSIONS, SHORT_TIMEOUT, Programs
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path, zookeeper: str) -> Iterator[Start]:
    """Start an agent; keywords replace fields of its configuration."""
    programs = Programs(tmp_path)
    # Nobody is active here who could relieve an agent that leaves.
    usual = {**LONG_SESSIONS, "controlled.shutdown.retry.backoff.ms": 50}

    def start_agent(settings: Mapping[str, object] | None = None, **fields: object) -> "subprocess.Popen[str]":
        config = {"id": 1, "zookeeper": zookeeper, "listen": "127.0.0.1:0"} | fields
        return programs.start("broker_agent", config, {**usual, **(settings or {})})

    yield start_agent
    programs.end()


@pytest.fixture
def client(zookeeper: str) -> Iterator[KazooClient]:
    with plain_client(zookeeper) as kazoo:
        yield kazoo


def await_registration(client: KazooClient, broker: int) -> dict[str, object]:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        if client.exists(f"/brokers/ids/{broker}"):
            data, stat = client.get(f"/brokers/ids/{broker}")
            assert stat.ephemeralOwner != 0
            registration: dict[str, object] = json.loads(data)
            return registration
        time.sleep(0.05)
    raise AssertionError(f"broker {broker} is not registered")


def refusal(process: "subprocess.Popen[str]", code: ExitCode = ExitCode.REFUSED) -> str:
    _, output = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == code, output
    assert "Traceback" not in output
    return output


@pytest.mark.rule("R1.5", "R1.6", "R1.7", "R1.10", "R9.4", "R12.3")
def test_an_agent_registers_with_the_port_it_bound_and_leaves_at_once_and_cleanly(
    start: Start, client: KazooClient, tmp_path: Path
) -> None:
    process = start(rack="r1")
    registration = await_registration(client, 1)
    assert registration["rack"] == "r1"
    assert registration["version"] == 5
    host, port = registration["host"], registration["port"]
    assert isinstance(host, str)
    assert isinstance(port, int)
    socket.create_connection((host, port), timeout=TIMEOUT_S).close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0
    assert client.exists("/brokers/ids/1") is None
    assert (tmp_path / "broker_agent-0" / ".kafka_cleanshutdown").exists()
    lines = [
        json.loads(line)
        for path in sorted((tmp_path / "broker_agent-0" / "state-change-log").glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    assert [(line["kind"], line["to_state"]) for line in lines] == [("registration", "registered")]


@pytest.mark.rule("R12.5")
def test_a_second_signal_does_not_disturb_an_orderly_end(start: Start, client: KazooClient, tmp_path: Path) -> None:
    process = start(settings={"controlled.shutdown.retry.backoff.ms": 700})
    await_registration(client, 1)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    assert any("Controlled shutdown attempt failed" in line for line in process.stderr)
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT_S) == 0
    assert client.exists("/brokers/ids/1") is None
    assert (tmp_path / "broker_agent-0" / ".kafka_cleanshutdown").exists()


@pytest.mark.rule("R1.4")
def test_an_agent_without_an_id_gets_one_and_keeps_it(start: Start, client: KazooClient, tmp_path: Path) -> None:
    first = start(id=-1)
    await_registration(client, 1001)
    first.send_signal(signal.SIGTERM)
    assert first.wait(TIMEOUT_S) == 0
    second = start(id=-1, data=str(tmp_path / "broker_agent-0"))
    await_registration(client, 1001)
    second.send_signal(signal.SIGTERM)
    assert second.wait(TIMEOUT_S) == 0


@pytest.mark.rule("R1.8", "R1.9", "R9.5")
def test_what_is_taken_is_refused_with_a_message(start: Start, client: KazooClient, tmp_path: Path) -> None:
    start()
    registration = await_registration(client, 1)
    address = f"{registration['host']}:{registration['port']}"
    same_id = start()
    same_address = start(id=2, advertised=address)
    same_port = start(id=3, listen=f"127.0.0.1:{registration['port']}")
    same_data = start(id=1, data=str(tmp_path / "broker_agent-0"))
    assert "broker id 1 is registered by another session" in refusal(same_id, ExitCode.ID_TAKEN)
    assert f"broker 1 is already registered with address {address}" in refusal(same_address)
    assert f"cannot listen on 127.0.0.1:{registration['port']}" in refusal(same_port)
    assert str(tmp_path / "broker_agent-0") in refusal(same_data)
    assert client.get_children("/brokers/ids") == ["1"]


@pytest.mark.rule("R1.3")
def test_a_directory_of_another_cluster_and_an_unreachable_zookeeper_are_refused(start: Start, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=of-somebody-else\n")
    other_cluster = start(data=str(foreign))
    nowhere = start(SHORT_TIMEOUT, zookeeper="127.0.0.1:1")
    output = refusal(other_cluster)
    assert "of-somebody-else" in output
    assert str(foreign) in output
    assert "no connection to ZooKeeper at 127.0.0.1:1" in refusal(nowhere)
