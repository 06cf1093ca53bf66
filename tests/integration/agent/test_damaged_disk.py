"""An agent as a real process whose files are damaged while it is down, or whose disk fails while it runs."""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from cluster.model.broker import Offset
from cluster.model.exit_codes import ExitCode
from cluster.model.partition import TopicPartition
from tests.contract.log_worlds import TP, FileWorld, Node, batch, fill
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.programs import LONG_SESSIONS, Programs
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.real

OTHER = TopicPartition("other", 0)
SIZE = len(batch(10, size=400))


@pytest.fixture
def client(zookeeper: str) -> Iterator[KazooClient]:
    with plain_client(zookeeper) as kazoo:
        yield kazoo


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    started = Programs(tmp_path)
    yield started
    started.end()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory as kill -9 leaves it: two logs, of which one has a checkpointed high watermark of 300."""

    async def fill_logs() -> None:
        node = Node(FileWorld(), str(tmp_path / "data"))
        await node.start()
        for partition in (TP, OTHER):
            fill(await node.log(tp=partition), *[0] * 40, size=400)
        await node.logs.write_high_watermarks(node.paths[0], lambda: {TP: Offset(300)})
        for directory in node.logs.directories.values():
            directory.unlock()

    asyncio.run(fill_logs())
    (tmp_path / "data" / "meta.properties").unlink()
    return tmp_path / "data"


def start(
    programs: Programs, zookeeper: str, data: Path, settings: Mapping[str, object] | None = None
) -> "subprocess.Popen[str]":
    config = {"id": 1, "zookeeper": zookeeper, "listen": "127.0.0.1:0", "data": str(data)}
    usual = {**LONG_SESSIONS, "controlled.shutdown.retry.backoff.ms": 50}
    return programs.start("broker_agent", config, {**usual, **(settings or {})})


def await_registration(client: KazooClient, process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while client.exists("/brokers/ids/1") is None:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "broker 1 is not registered"
        time.sleep(0.05)


def stop(process: "subprocess.Popen[str]") -> list[dict[str, object]]:
    """End it by SIGTERM; returns its log lines."""
    process.send_signal(signal.SIGTERM)
    _, output = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, output
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.rule("R9.22", "R9.23")
@pytest.mark.parametrize("damage", [b"\xff" * 8, bytes(8), b"\x00\x00\x00\x7f"])
def test_a_damaged_header_costs_the_rest_of_one_log_and_no_start(
    programs: Programs, client: KazooClient, zookeeper: str, data: Path, damage: bytes
) -> None:
    path = data / str(TP) / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[9 * SIZE : 9 * SIZE + len(damage)] = damage
    path.write_bytes(content)
    process = start(programs, zookeeper, data)
    await_registration(client, process)
    lines = stop(process)
    damaged = [line for line in lines if line["event"] == "Replica is damaged"]
    assert [line["partition"] for line in damaged] == [str(TP)]
    assert f"{path} at byte {9 * SIZE}" in str(damaged[0]["detail"])
    assert (path.stat().st_size, (data / str(OTHER) / path.name).stat().st_size) == (9 * SIZE, 40 * SIZE)
    records = [json.loads(line) for file in data.rglob("*.jsonl") for line in file.read_bytes().splitlines()]
    (record,) = [record for record in records if record["kind"] == "truncation"]
    # Not only up to the high watermark: the batches behind the damaged one say how far the log went.
    assert (record["topic"], record["partition"], record["from_offset"], record["to_offset"]) == (*TP, 400, 90)


@pytest.mark.rule("R9.7", "R9.24", "R11.2")
@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "meta.properties"])
def test_a_file_that_cannot_be_read_is_named_and_nobody_registers(
    programs: Programs, client: KazooClient, zookeeper: str, data: Path, name: str
) -> None:
    (data / name).write_bytes(b"\xff\xfe")
    process = start(programs, zookeeper, data)
    _, output = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == ExitCode.DISK, output
    assert f"{data / name} is malformed" in output
    assert "Broker registered" not in output
    assert "Traceback" not in output
    assert not client.get_children("/brokers/ids")


@pytest.mark.rule("R11.3", "R11.1")
def test_a_disk_that_fails_under_a_running_broker_is_the_only_thing_it_complains_of(
    programs: Programs, client: KazooClient, zookeeper: str, data: Path
) -> None:
    process = start(programs, zookeeper, data, {"log.flush.offset.checkpoint.interval.ms": 500})
    await_registration(client, process)
    # In one step: the broker writes into it all the time.
    data.rename(data.with_name("gone"))
    _, output = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == ExitCode.DISK, output
    assert "recovery-point-offset-checkpoint" in output.splitlines()[-1]
    assert "No such file or directory" in output.splitlines()[-1]
    for unrelated in ("Traceback", "Event loop is closed", "never awaited", "TaskGroup"):
        assert unrelated not in output
