"""Real brokers in the shapes that operators give them: adopted by the commands as printed, or refused and left alone.

`-s` prints the table. Each takes some 40 s, so that a run has those of SELECTED; CLUSTER_SHAPES=all has every one, and
CLUSTER_SHAPES=NAME,NAME these.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kafka.adopted import start_printed, tree
from tests.kafka.cluster_shapes import Shape, shapes
from tests.kafka.shape_clusters import Files, ShapeCluster, what_differs
from tests.processes.commands import run_klamm
from tests.processes.local_clusters import eventually

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(600)]

SELECTED: Final = (
    "cdh-security-inter-broker-ssl",
    "ssl-client-auth-prefixed",
    "ssl-clients-mtls-internal-none",
    "strimzi-zk-tls",
    "msk-tls-in-cluster",
    "names-unlike-protocols",
    "different-client-listeners-per-broker",
    "controller-side-settings-differ",
    "legacy-host-name-port",
    "control-plane-plaintext",
    "ssl-migration-half-way",
    "authorizer-on-one-broker",
    "acl-authorizer-mtls-mapped",
    "sasl-plain-inter-with-plaintext-door",
)
_NOT_COMPARED: Final = ("/zookeeper", "/brokers/ids", "/brokers/seqid", "/config/changes")
_OF_ADOPTION: Final = ("/controller", "/controller_epoch")
_OF_LATER_RELEASES: Final = {
    "/config/ips",
    "/feature",
    "/kafka-acl-extended/prefixed/User",
    "/kafka-acl/User",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
}
"""Paths that klamm makes as Kafka does, and that older brokers do not have or write later."""
ROWS: Final[list[str]] = []


def _chosen() -> list[Shape]:
    names = os.environ.get("CLUSTER_SHAPES", ",".join(SELECTED)).split(",")
    return [s for s in shapes() if (s.name in names or names == ["all"]) and not s.needs and not s.cannot_run]


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[None]:
    yield
    print("\n".join(["", "| shape | release | outcome | cluster afterwards |", "|---|---|---|---|", *ROWS]))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


def adopt(cluster: ShapeCluster, *options: str) -> tuple[int, Any]:
    tls = ("--command-config", str(cluster.files.command_config)) if cluster.shape.uses_tls else ()
    answer = run_klamm("adopt", "--zookeeper", cluster.zookeeper, "-o", "json", *tls, *options)
    assert answer.stdout, answer.stderr
    return answer.returncode, {**json.loads(answer.stdout), "stderr": answer.stderr}


def snapshot(cluster: ShapeCluster) -> dict[str, Any]:
    return tree(cluster.zookeeper, *_NOT_COMPARED)


def is_healthy(cluster: ShapeCluster) -> bool:
    """Every partition has a leader and all its replicas in sync."""
    replicas = {t: 1 if t.startswith("__") else cluster.replicas for t in cluster.states()}
    return all(len(state["isr"]) == replicas[tp] for tp, state in cluster.states().items()) and not leaderless(cluster)


def leaderless(cluster: ShapeCluster) -> list[str]:
    return [partition for partition, state in cluster.states().items() if state["leader"] < 0]


@pytest.mark.rule("D-115", "D-116", "D-117", "D-118")
@pytest.mark.parametrize("shape", _chosen(), ids=lambda shape: shape.name)
def test_a_cluster_is_adopted_as_printed_or_refused(shape: Shape, tmp_path: Path, zookeeper: str, files: Files) -> None:
    cluster = ShapeCluster(shape, tmp_path, zookeeper + shape.chroot, files)
    try:
        cluster.start_all()
        row = _refused(cluster) if shape.expect == "refuse" else _adopted(cluster, tmp_path)
        ROWS.append(f"| {shape.name} | {shape.release} | {row} |")
    finally:
        cluster.end()


def _refused(cluster: ShapeCluster) -> str:
    before = snapshot(cluster)
    code, found = adopt(cluster)
    assert code == 3
    assert any(cluster.shape.says in why for why in found["refusals"]), found["refusals"]
    code, found = adopt(cluster, "--execute")
    assert (code, found["took_over"]) == (1, None)
    assert what_differs(before, snapshot(cluster)) == {}
    return f"refused: {found['refusals'][0]} | unchanged"


def _adopted(cluster: ShapeCluster, folder: Path) -> str:
    cluster.create("before", cluster.replicas)
    eventually(lambda: len(cluster.states()) >= 3 and is_healthy(cluster), "the cluster is whole")
    before = snapshot(cluster)
    code, found = adopt(cluster)
    assert code == 0, found["refusals"]
    assert what_differs(before, snapshot(cluster)) == {}
    ids = [start_printed(cluster, command, _filled_in(cluster), folder) for command in found["commands"]]
    for id_ in ids:
        eventually(lambda id_=id_: "Waiting for 'klamm adopt" in cluster.log(f"controller-{id_}"), f"{id_} waits")
    began = time.monotonic()
    code, found = adopt(cluster, "--execute")
    took = time.monotonic() - began
    assert code == 0, (found["refusals"], found["stderr"])
    assert leaderless(cluster) == []
    cluster.create("during", cluster.replicas)
    eventually(lambda: len(cluster.states()) >= 6 and is_healthy(cluster), "the new topic is whole")
    if cluster.replicas > 1:
        _lose_a_broker(cluster)
    _left(cluster, ids)
    differs = what_differs(before, snapshot(cluster))
    rest = {p: how for p, how in differs.items() if not p.startswith(_OF_ADOPTION) and "/during" not in p}
    states = [path for path in rest if path.startswith("/brokers/topics/before") and path.endswith("/state")]
    assert set(rest) - set(states) - _OF_LATER_RELEASES - _with_ids(before, snapshot(cluster)) == set()
    assert is_healthy(cluster)
    return f"adopted in {took:.1f} s | as before, all in sync"


def _filled_in(cluster: ShapeCluster) -> dict[str, str]:
    """What an operator knows and brokers do not tell."""
    given = cluster.shape.properties
    rights = {"SUPER-USERS": "super.users", "AS-AT-BROKERS": "allow.everyone.if.no.acl.found"}
    return {**cluster.files.of_commands, **{text: given[key] for text, key in rights.items() if key in given}}


def _with_ids(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Topics that have an id since: Kafka's own controller gives it, where a broker of a higher protocol became it."""
    paths = (path for path in before.keys() & after.keys() if path.startswith("/brokers/topics/") and before[path][0])
    found = set[str]()
    for path in paths:
        old, new = (json.loads(snapshot[path][0]) for snapshot in (before, after))
        if "topic_id" not in old and {**new, "version": None} == {
            **old,
            "version": None,
            "topic_id": new.get("topic_id"),
        }:
            found.add(path)
    return found


def _lose_a_broker(cluster: ShapeCluster) -> None:
    position = cluster.count - 1
    gone = cluster.id_of(position)
    cluster.kill(f"kafka-{position + 1}")
    eventually(lambda: gone not in cluster.ids(), "its session ends")
    eventually(lambda: all(state["leader"] != gone for state in cluster.states().values()), f"{gone} leads nothing")
    assert [p for p in leaderless(cluster) if not p.startswith("__")] == []
    cluster.start_one(position)
    eventually(lambda: is_healthy(cluster), "all are in sync again")


def _left(cluster: ShapeCluster, ids: list[int]) -> None:
    tls = ("--command-config", str(cluster.files.command_config)) if cluster.shape.uses_tls else ()
    for _ in range(2):
        answer = run_klamm("leave", "--zookeeper", cluster.zookeeper, *tls)
        assert answer.returncode == 0, answer.stderr
        for id_ in ids:
            cluster.stop(f"controller-{id_}")
        ids = []
    assert "nothing of klamm is left" in answer.stderr
