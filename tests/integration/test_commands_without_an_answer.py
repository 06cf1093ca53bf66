"""Every command that asks a cluster, of which no node can be reached, as it is typed: what it says, and when."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from cluster.process.identity import identify
from cluster.process.local_cluster import STATE_FILE, STATE_VERSION, LocalClusterState, Member
from tests.processes.commands import run_klamm
from tests.processes.refused_ports import refused_addresses
from tests.unit.launcher.test_every_command import ALL, options

WAITS_S, LONG_S = "5", "60"
MOVES = '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}], "version": 1}'
DEADLINE_S = 300
ARGUMENTS = {
    "acls add": ("--allow-principal", "User:a", "--topic", "orders"),
    "acls list": (),
    "acls remove": ("--topic", "orders", "--yes"),
    "brokers acknowledge-damage": ("1", "orders-0"),
    "brokers alter": ("1", "--config", "num.replica.fetchers=2"),
    "brokers balance-dirs": (),
    "brokers describe": (),
    "brokers list": (),
    "brokers log-dirs": (),
    "brokers move-dir": ("1", "orders-0", "--to", "/d"),
    "brokers online-dir": ("1", "/d"),
    "brokers shutdown": ("1",),
    "clients alter": ("app", "--config", "producer_byte_rate=1"),
    "clients describe": ("app",),
    "clients list": (),
    "cluster describe": (),
    "cluster health": (),
    "cluster recover": ("--execute", "--yes"),
    "consume": ("orders",),
    "doctor": (),
    "elect preferred": ("--all-topic-partitions",),
    "elect unclean": ("--all-topic-partitions", "--yes"),
    "features describe": (),
    "features disable": ("--feature", "group.version"),
    "features downgrade": ("--feature", "group.version=1"),
    "features upgrade": ("--feature", "group.version=2"),
    "perf consume": ("orders",),
    "perf produce": ("orders", "--records", "1"),
    "produce": ("orders", "--count", "1"),
    "reassign cancel": ("--all",),
    "reassign execute": ("-",),
    "reassign generate": ("--topic", "orders", "--broker-list", "1,2"),
    "reassign list": (),
    "reassign verify": ("-",),
    "story": ("orders-0",),
    "top": ("--once",),
    "topics alter": ("orders", "--partitions", "3"),
    "topics create": ("orders",),
    "topics delete": ("orders", "--yes"),
    "topics delete-records": ("orders-0", "--before-offset", "1", "--yes"),
    "topics describe": (),
    "topics list": (),
    "topics offsets": ("orders",),
    "users alter": ("ann", "--config", "producer_byte_rate=1"),
    "users describe": ("ann",),
    "users list": (),
    "users remove": ("ann",),
    "users set": ("ann",),
    "verify replicas": (),
    "watch": (),
}
"""A line for each command that ends where the cluster does not answer."""
DO_NOT_WAIT = {"audit heads", "audit run", "audit verify", "bundle", "contexts add"}
"""They name a cluster for later, or go on without it."""
PROBLEMS = {"doctor": 3}


def ask(name: str, addresses: list[str], timeout_s: str) -> subprocess.CompletedProcess[str]:
    given = (*ARGUMENTS[name], "--bootstrap", ",".join(addresses), "--timeout", timeout_s)
    return run_klamm(*name.split(), *given, stdin=MOVES, timeout_s=DEADLINE_S)


def answers_of_all(addresses: list[str], timeout_s: str) -> dict[str, subprocess.CompletedProcess[str]]:
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(ARGUMENTS, pool.map(lambda name: ask(name, addresses, timeout_s), ARGUMENTS), strict=True))


def notices(answer: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines that say what is waited for."""
    return [line for line in answer.stderr.splitlines() if "--timeout changes it" in line]


def is_early(answer: subprocess.CompletedProcess[str], addresses: list[str]) -> bool:
    """Whether the command said what it waits for, two seconds on, before an attempt at each address had failed."""
    said = "".join(notices(answer))
    return not all(address in said for address in addresses) or re.search(r"not answering(?! \()", said) is not None


def said_of_cluster(answer: subprocess.CompletedProcess[str]) -> str:
    """What the command says, without what it says of other things."""
    return answer.stdout + answer.stderr


@pytest.fixture(scope="module")
def of_one_refused() -> Iterator[tuple[str, dict[str, subprocess.CompletedProcess[str]]]]:
    with refused_addresses(1) as addresses:
        yield addresses[0], answers_of_all(addresses, LONG_S)


@pytest.fixture(scope="module")
def of_two_refused() -> Iterator[tuple[list[str], dict[str, subprocess.CompletedProcess[str]]]]:
    with refused_addresses(2) as addresses:
        yield addresses, answers_of_all(addresses, WAITS_S)


def test_every_command_that_asks_a_cluster_is_here() -> None:
    asking = {name for name, command in ALL.items() if "--bootstrap" in options(command)}
    assert asking == ARGUMENTS.keys() | DO_NOT_WAIT


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_single_address_that_is_refused_ends_the_command_at_once(
    name: str, of_one_refused: tuple[str, dict[str, subprocess.CompletedProcess[str]]]
) -> None:
    address, answers = of_one_refused
    answer = answers[name]
    assert answer.returncode == PROBLEMS.get(name, 1), said_of_cluster(answer)
    said = " ".join(said_of_cluster(answer).split())
    assert f"no answer: {address} not answering (connection refused); --bootstrap has this address: " in said
    assert "correct it, or start the cluster" in said
    assert "waiting" not in said_of_cluster(answer)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_several_addresses_are_waited_for_and_one_line_says_so(
    name: str, of_two_refused: tuple[list[str], dict[str, subprocess.CompletedProcess[str]]]
) -> None:
    (one, other), answers = of_two_refused
    answer, deadline = answers[name], time.monotonic() + DEADLINE_S
    # On a busy machine: again until it is not.
    while is_early(answer, [one, other]) and time.monotonic() < deadline:
        answer = ask(name, [one, other], WAITS_S)
    assert answer.returncode == PROBLEMS.get(name, 1), said_of_cluster(answer)
    lines = notices(answer)
    assert len(lines) == 1, said_of_cluster(answer)
    assert f"no answer yet: {one}, {other} not answering (connection refused); " in lines[0]
    assert "correct them, or start the cluster" in " ".join(said_of_cluster(answer).split())


def test_an_address_that_a_cluster_has_been_found_by_is_waited_for(tmp_path: Path) -> None:
    """Of an embedded cluster the nodes are known: those that do not run may be about to start."""
    with refused_addresses(1) as addresses:
        answer = run_klamm(
            "cluster", "describe", "--data", str(a_cluster_of(tmp_path, addresses[0])), "--timeout", WAITS_S
        )
    assert answer.returncode == 1
    assert "no answer yet: controller 1001 not answering (connection refused)" in answer.stderr


def a_cluster_of(folder: Path, address: str) -> Path:
    """What `klamm up` leaves of a cluster with one controller, whose process runs and does not listen."""
    members = [Member("controller", 1001, int(address.rpartition(":")[2]), 0, process=identify(os.getpid()))]
    state = LocalClusterState(STATE_VERSION, "127.0.0.1:1", members, {})
    (folder / STATE_FILE).write_bytes(msgspec.json.encode(state))
    return folder
