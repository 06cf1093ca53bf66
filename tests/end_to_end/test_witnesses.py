"""Logs of a real cluster that were changed after the fact: the other nodes and ZooKeeper are witnesses."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.model.exit_codes import ExitCode
from deploy.local.cluster import LocalCluster
from state_log.heads_file import read_heads_file
from state_log.reader import find_segments, read_state_changes
from state_log.record import Kind
from state_log.writer import parse_segment_name
from tests.processes.commands import klamm, run_klamm
from tests.processes.local_clusters import eventually, serving_cluster

pytestmark = pytest.mark.real

SETTINGS = {"klamm.state.change.log.flush.interval.ms": 100, "klamm.state.change.log.head.interval.ms": 300}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster") / "c"
    with serving_cluster(folder, controllers=2, brokers=2, settings=SETTINGS) as running:
        for number in range(4):
            klamm(running, "topics", "create", f"t{number}", "--partitions", "4", "--replication-factor", "2")
        eventually(lambda: seen_of_controllers(running) and seen_of_brokers(running), "nodes have seen one another")
        yield running


def folders(cluster: LocalCluster) -> list[Path]:
    return [Path(folder) for folder in json.loads(klamm(cluster, "status", "-o", "json").stdout)["state_change_logs"]]


def seen_by(cluster: LocalCluster, prefix: str) -> set[str]:
    """The nodes of whose logs these have seen more than the first lines."""
    records = [r for r in read_state_changes(folders(cluster)) if r.kind is Kind.WITNESS and r.node.startswith(prefix)]
    return {record.witness.node for record in records if record.witness is not None and record.witness.seq > 3}


def seen_of_controllers(cluster: LocalCluster) -> bool:
    # Any request of the controller has its head.
    klamm(cluster, "topics", "create", f"more-{time.monotonic_ns()}")
    return any(node.startswith("controller-") for node in seen_by(cluster, "broker-"))


def seen_of_brokers(cluster: LocalCluster) -> bool:
    return {"broker-1", "broker-2"} <= seen_by(cluster, "controller-")


def copy_of_logs(cluster: LocalCluster, to: Path) -> Path:
    for folder in folders(cluster):
        shutil.copytree(folder, to / folder.name / folder.parent.name)
    return to


def with_a_log(*logs: Path) -> set[str]:
    """A controller that was never active has none."""
    names = [parse_segment_name(path.name) for path in find_segments(logs)]
    return {name.node for name in names if name is not None}


def verify(logs: Path, *options: str) -> tuple[int, dict[str, Any]]:
    answer = run_klamm("audit", "verify", "--log-dir", str(logs), "-o", "json", *options)
    return answer.returncode, json.loads(answer.stdout)


def cut_end(path: Path, lines: int) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))


def log_of_active_controller(logs: Path) -> Path:
    named = [r.witness for r in read_state_changes([logs]) if r.kind is Kind.WITNESS and r.witness is not None]
    last = max((w for w in named if w.node.startswith("controller-")), key=lambda w: w.seq)
    return next(path for path in find_segments([logs]) if path.name.startswith(f"{last.node}-{last.incarnation}"))


def test_the_logs_as_they_are_agree(cluster: LocalCluster, tmp_path: Path) -> None:
    heads = tmp_path / "heads.json"
    answer = run_klamm("audit", "heads", "--bootstrap", ",".join(cluster.bootstrap))
    heads.write_text(answer.stdout)
    logs = copy_of_logs(cluster, tmp_path / "logs")
    code, found = verify(logs, "--heads", str(heads))
    assert (code, found["verdict"], found["breaks"], found["ends"]) == (ExitCode.OK, "clean", [], "")
    assert {head.node for head in read_heads_file(heads)} == with_a_log(logs)


def test_a_controllers_log_that_was_cut_is_found_by_what_brokers_have_seen(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    logs = copy_of_logs(cluster, tmp_path / "logs")
    path = log_of_active_controller(logs)
    cut_end(path, 3)
    code, found = verify(logs)
    assert code == ExitCode.FINDINGS
    assert [b["rule"] for b in found["breaks"]] == ["log-cut"]
    assert f"{found['breaks'][0]['node']}-{found['breaks'][0]['incarnation']}" in path.name
    assert "broker-" in found["breaks"][0]["message"]


def test_a_log_that_was_cut_is_found_by_the_heads_in_zookeeper(cluster: LocalCluster, tmp_path: Path) -> None:
    where = cluster.state.zookeeper

    def has_all_heads() -> bool:
        answer = run_klamm("audit", "heads", "--zookeeper", where)
        nodes = {head["node"] for head in json.loads(answer.stdout)["heads"]} if answer.returncode == 0 else set()
        return nodes == with_a_log(*folders(cluster))

    eventually(has_all_heads, "the heads are in ZooKeeper")
    logs = copy_of_logs(cluster, tmp_path / "logs")
    assert verify(logs, "--zookeeper", where)[0] in {ExitCode.OK, ExitCode.INCOMPLETE}
    for path in find_segments([logs]):
        if path.name.startswith("broker-1-"):
            cut_end(path, len(path.read_bytes().splitlines()) - 1)
    code, found = verify(logs, "--zookeeper", where)
    assert (code, [(b["rule"], b["node"]) for b in found["breaks"]]) == (ExitCode.FINDINGS, [("log-cut", "broker-1")])


def test_a_place_without_heads_is_named() -> None:
    answer = run_klamm("audit", "heads", "--zookeeper", "127.0.0.1:1")
    assert (answer.returncode, "--zookeeper: 127.0.0.1:1" in answer.stderr) == (ExitCode.REFUSED, True)
    assert run_klamm("audit", "heads").returncode == ExitCode.USAGE


@pytest.mark.parametrize("where", ["localhost:abc", "/x", "localhost:2181/a//b"])
def test_a_malformed_address_is_wrong_usage_that_names_it(where: str) -> None:
    answer = run_klamm("audit", "heads", "--zookeeper", where)
    assert (answer.returncode, "--zookeeper: " + repr(where) in answer.stderr) == (ExitCode.USAGE, True)
