"""The tables of a cluster of usual size fit 80 columns, without a broken word."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from admin.cli.broker_documents import BROKER_COLUMNS
from admin.cli.reassignment_outcomes import MOVE_COLUMNS
from admin.cli.topics import _table
from cluster.cli.tables import table_lines
from cluster.model.broker import BrokerId, LeaderEpoch, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.requests.plans import DescribedPartition
from cluster.requests.topics import DescribedTopic
from deploy.local.cluster import LocalCluster
from tests.processes.commands import LAUNCHER

WIDTH = 80


def check(columns: list[str], *rows: list[str]) -> None:
    shown = [line for row in table_lines([c.upper() for c in columns], rows, WIDTH) for line in row]
    assert max(map(len, shown)) <= WIDTH, "\n".join(shown)
    values = {word for row in rows for cell in row for word in cell.replace(",", " ").split()}
    assert values <= {word for line in shown for word in line.replace(",", " ").split()}


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def test_topics_describe() -> None:
    moving = DescribedPartition(
        11, BrokerId(1), LeaderEpoch(104), PartitionEpoch(215), ids(1, 2, 3), ids(1, 2, 3, 4), ids(4), ids(1), ids(3)
    )
    columns, rows = _table([DescribedTopic("orders", ErrorCode.NONE, partitions=(moving,))])
    check(columns, *[[",".join(map(str, v)) if isinstance(v, tuple | list) else str(v) for v in row] for row in rows])


def test_brokers_describe() -> None:
    load = ["leaders", "preferred", "replicas", "out_of_sync"]
    check([*BROKER_COLUMNS, *load], ["1", "127.0.0.1:26848", "eu-1a", "4294967338", "running", "100", "90", "300", "9"])


def test_reassign_list() -> None:
    row = dict.fromkeys(MOVE_COLUMNS, "1,2,3") | {MOVE_COLUMNS[0]: "orders-11"}
    check(list(MOVE_COLUMNS), [*list(row.values())[:-1], "broker 3 is not alive; it has 12,000 records to fetch yet"])


def test_story() -> None:
    time = "2026-11-23 02:47:09.518"
    row = [time, "controller-1001", "OnlinePartition → OfflinePartition", "broker 3 has failed", "12"]
    shown = [line for of in table_lines(["TIME_UTC", "NODE", "EVENT", "CAUSE", "REQUEST"], [row], WIDTH) for line in of]
    assert max(map(len, shown)) <= WIDTH
    assert any(line.startswith(time) for line in shown), "\n".join(shown)


def test_lines_are_folded_on_a_terminal_only() -> None:
    text = "log          broker-1/a: 12 records, " + "word " * 30 + "end"
    program = f"from cluster.cli.documents import write_line; write_line({text!r})"
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout == f"{text}\n"
    ours, of_command = pty.openpty()
    subprocess.run(command, stdout=of_command, env={**os.environ, "COLUMNS": str(WIDTH)}, check=True)
    os.close(of_command)
    first, *others = os.read(ours, 65_536).decode().splitlines()
    os.close(ours)
    assert first.startswith("log          broker-1/a: 12 records, word")
    assert others
    assert all(line.startswith(("    word", "    end")) and len(line) <= WIDTH for line in others)


def test_status_on_a_terminal(tmp_path: Path) -> None:
    LocalCluster.create_or_open(tmp_path, controllers=1, brokers=1)
    ours, of_command = pty.openpty()
    os.set_blocking(ours, True)
    environment = {**os.environ, "COLUMNS": str(WIDTH)}
    command = [*LAUNCHER, "status", "--data", str(tmp_path)]
    ended = subprocess.run(command, stdout=of_command, stderr=subprocess.DEVNULL, env=environment, check=False)
    os.close(of_command)
    shown = os.read(ours, 65_536).decode().splitlines()
    os.close(ours)
    assert ended.returncode == 3
    assert len(shown) == 4
    assert max(map(len, shown[1:])) <= WIDTH
