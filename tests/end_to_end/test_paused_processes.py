"""Every command that only looks, beside a broker or a controller that hangs: what it says, and that it ends."""

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from benchmarks.embedded_zookeeper import EmbeddedZooKeeper
from cluster.process.local_cluster import BROKER, CONTROLLER
from deploy.local.cluster import LocalCluster
from tests.conftest import TEST_SERVER
from tests.processes.commands import LAUNCHER, as_json, klamm
from tests.processes.local_clusters import serving_cluster
from tests.timeouts import TIMEOUT_S
from tests.unit.launcher.test_every_command import READS

pytestmark = [pytest.mark.real, pytest.mark.deep]

SESSION_MS = 600_000
"""Whoever hangs stays registered for all of a test."""
GRACE_S = TIMEOUT_S
"""What a busy machine takes to start a command, and to end it."""
PAUSED = 2
MOVES = '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}], "version": 1}'
NOTICE = re.compile(r"waiting up to \d+ s more|in \d+ s$")
ASK_THE_BROKER = {
    "cluster health": ((), 3),
    "cluster recover": (("--dry-run",), 3),
    "consume": (("orders", "--from-beginning", "--until-end"), 1),
    "doctor": ((), 3),
    "story": (("orders-0",), 0),
    "top": (("--once",), 0),
    "topics offsets": (("orders",), 1),
}
"""Commands that ask every broker, or the leaders, with their arguments and exit codes beside one that hangs."""
ASK_THE_CONTROLLER = {
    "acls list": ((), 0),
    "brokers describe": (("--configs",), 0),
    "brokers list": ((), 0),
    "brokers log-dirs": ((), 1),
    "cluster describe": ((), 0),
    "features describe": ((), 0),
    "reassign generate": (("--topic", "orders", "--broker-list", "1,2,3"), 0),
    "reassign list": ((), 0),
    "reassign verify": (("-",), 0),
    "topics describe": ((), 0),
    "topics list": ((), 0),
}
ELSEWHERE = {"watch"}
"""It has no end of its own."""


class Said(NamedTuple):
    """What a command said, when it ended, and how many of its lines were there before."""

    code: int
    stdout: str
    lines: list[str]

    @property
    def notices(self) -> list[str]:
        return [line for line in self.lines if NOTICE.search(line.removesuffix("; --timeout changes it"))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"zookeeper.session.timeout.ms": SESSION_MS, "auto.leader.rebalance.enable": False}
    server = replace(TEST_SERVER, max_session_timeout_ms=SESSION_MS)
    with (
        EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), settings=server) as zookeeper,
        serving_cluster(
            tmp_path_factory.mktemp("paused") / "c",
            controllers=2,
            brokers=3,
            zookeeper=zookeeper.address,
            settings=settings,
        ) as running,
    ):
        klamm(running, "topics", "create", "orders", "--replica-assignment", "1:2:3,2:3:1,3:1:2,1:2:3,2:3:1,3:1:2")
        # To each partition: by itself a producer puts so few records into one, whose leader may be the paused broker.
        for partition in range(6):
            klamm(running, "produce", "orders", "--partition", str(partition), "--count", "10")
        yield running


@contextmanager
def paused(cluster: LocalCluster, name: str) -> Iterator[None]:
    cluster.pause(name)
    try:
        yield
    finally:
        cluster.resume(name)


def ask(cluster: LocalCluster, command: str, arguments: Sequence[str], timeout_s: int) -> Said:
    """Run a command as it is typed; it ends within its timeout."""
    where = ("--bootstrap", ",".join(cluster.bootstrap)) if command == "story" else ("--data", str(cluster.folder))
    began = time.monotonic()
    ended = subprocess.run(
        [*LAUNCHER, *command.split(), *arguments, *where, "--timeout", str(timeout_s)],
        input=MOVES,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s + GRACE_S,
    )
    assert time.monotonic() - began < timeout_s + GRACE_S
    assert "Traceback" not in ended.stderr, command
    return Said(ended.returncode, ended.stdout, ended.stderr.splitlines())


def ask_all(cluster: LocalCluster, commands: dict[str, tuple[tuple[str, ...], int]], timeout_s: int) -> dict[str, Said]:
    with ThreadPoolExecutor(4) as pool:
        said = pool.map(lambda name: ask(cluster, name, commands[name][0], timeout_s), commands)
        return dict(zip(commands, said, strict=True))


def test_every_command_that_only_looks_is_here() -> None:
    assert {*ASK_THE_BROKER, *ASK_THE_CONTROLLER, *ELSEWHERE} >= READS


@pytest.fixture(scope="module")
def beside_a_paused_broker(cluster: LocalCluster) -> dict[str, Said]:
    with paused(cluster, f"{BROKER}-{PAUSED}"):
        return ask_all(cluster, ASK_THE_BROKER | ASK_THE_CONTROLLER, 20)


@pytest.mark.parametrize("command", ASK_THE_BROKER)
def test_who_asks_a_broker_that_hangs_says_so_in_one_line(
    command: str, beside_a_paused_broker: dict[str, Said]
) -> None:
    said = beside_a_paused_broker[command]
    assert said.code == ASK_THE_BROKER[command][1], said
    assert len(said.notices) == 1, said


@pytest.mark.parametrize("command", ASK_THE_CONTROLLER)
def test_who_asks_only_the_controller_is_answered_beside_a_broker_that_hangs(
    command: str, beside_a_paused_broker: dict[str, Said]
) -> None:
    said = beside_a_paused_broker[command]
    assert said.code == ASK_THE_CONTROLLER[command][1], said


def test_what_others_know_is_shown_beside_a_broker_that_hangs(
    cluster: LocalCluster, beside_a_paused_broker: dict[str, Said]
) -> None:
    said = beside_a_paused_broker
    assert "silent_broker" in said["cluster health"].stdout
    assert said["cluster health"].notices[0].startswith(f"no answer of broker {PAUSED} yet; ")
    assert "3 brokers, 1 topic, 6 partitions: " in "".join(said["cluster health"].lines)
    assert "1 topic, 6 partitions: " in said["top"].stdout
    offsets = [line.split() for line in said["topics offsets"].stdout.splitlines()[1:]]
    assert len(offsets) == 6
    assert sum(int(end) for *_, end in offsets if end.isdecimal()) > 0
    address = cluster.member(f"{BROKER}-{PAUSED}").address
    missing = [line for line in said["story"].lines if line.startswith("incomplete: ")]
    assert missing == [f"incomplete: {address} did not answer"]


def test_the_bundle_is_written_beside_a_broker_that_hangs(cluster: LocalCluster, tmp_path: Path) -> None:
    with paused(cluster, f"{BROKER}-{PAUSED}"):
        said = ask(cluster, "bundle", ("--output", str(tmp_path / "b.tgz")), 20)
    assert said.code == 0, said
    assert "files collected; waiting up to" in said.notices[0]
    assert (tmp_path / "b.tgz").exists()


def test_a_broker_that_hangs_is_not_shut_down_and_the_command_says_so(cluster: LocalCluster) -> None:
    with paused(cluster, f"{BROKER}-{PAUSED}"):
        said = ask(cluster, "brokers shutdown", (str(PAUSED),), 20)
    assert said.code == 1, said
    assert [line.partition(";")[0] for line in said.notices] == [f"no answer of broker {PAUSED} yet"]
    assert said.lines[-1].endswith(
        "; it is not shutting down, unless the request reaches it later; if it hangs, kill its process"
    )


@pytest.fixture(scope="module")
def beside_a_paused_controller(cluster: LocalCluster) -> dict[str, Said]:
    active = as_json(cluster, "cluster", "describe")["controller"]["id"]
    with paused(cluster, f"{CONTROLLER}-{active}"):
        return ask_all(cluster, ASK_THE_BROKER | ASK_THE_CONTROLLER, 8)


OF_BROKERS = {
    "brokers list",
    "cluster describe",
    "consume",
    "story",
    "topics describe",
    "topics list",
    "topics offsets",
}
"""Commands that brokers answer in the controller's place."""
ALONE = {"consume", "topics offsets"}
"""They do not ask the controller."""


@pytest.mark.parametrize("command", ASK_THE_BROKER | ASK_THE_CONTROLLER)
def test_who_asks_a_controller_that_hangs_says_so_in_one_line(
    command: str, beside_a_paused_controller: dict[str, Said]
) -> None:
    said = beside_a_paused_controller[command]
    assert said.code == (0 if command in OF_BROKERS else 3 if command == "doctor" else 1), said
    assert len(said.notices) == (0 if command in ALONE else 1), said
    assert all("controller 100" in line for line in said.notices), said
