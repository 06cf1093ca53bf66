"""A whole cluster with ACLs: real ZooKeeper, real processes, clients without credentials."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from cluster.process.local_cluster import BROKER, CONTROLLER
from cluster.znodes.paths import PERSISTENT_PATHS
from deploy.local.cluster import LOGIN_FILE, LocalCluster
from tests.controllers.plain_zookeeper import plain_client
from tests.processes.commands import as_json, klamm
from tests.processes.local_clusters import eventually, partitions, serving_cluster

pytestmark = [pytest.mark.real, pytest.mark.rule("ZK-6")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with serving_cluster(
        tmp_path_factory.mktemp("owned") / "c",
        controllers=2,
        brokers=2,
        owns_nodes=True,
    ) as running:
        yield running


@pytest.fixture
def stranger(cluster: LocalCluster) -> Iterator[KazooClient]:
    with plain_client(cluster.state.zookeeper) as client:
        yield client


@pytest.fixture
def owner(cluster: LocalCluster) -> Iterator[KazooClient]:
    login = (cluster.folder / LOGIN_FILE).read_text()
    password = login.split('password="')[1].split('"')[0]
    with plain_client(cluster.state.zookeeper, auth_data=[("digest", f"klamm:{password}")]) as client:
        yield client


def all_znodes(client: KazooClient, path: str = "/") -> list[str]:
    children = [f"{path.rstrip('/')}/{name}" for name in client.get_children(path)]
    return [path, *(znode for child in children for znode in all_znodes(client, child))]


def active_controller(cluster: LocalCluster) -> int | None:
    active = [c["id"] for c in as_json(cluster, "status", codes=(0, 3))["controllers"] if c["active"]]
    return active[0] if active else None


def files_of(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """All files below a folder in which processes work, but for those that they rename or delete meanwhile."""
    for directory, _, names in os.walk(folder):
        for path in (Path(directory) / name for name in names):
            with suppress(FileNotFoundError):
                yield path, path.read_bytes()


def test_every_znode_of_a_cluster_has_its_acl(cluster: LocalCluster, owner: KazooClient) -> None:
    klamm(cluster, "topics", "create", "owned", "--partitions", "2", "--replication-factor", "2")
    klamm(cluster, "topics", "alter", "owned", "--config", "retention.ms=60000")
    klamm(cluster, "produce", "owned", stdin="a\nb\n")
    assert sorted(klamm(cluster, "consume", "owned", "--from-beginning", "--until-end").stdout.split()) == ["a", "b"]
    found = {}
    for path in all_znodes(owner):
        found[path] = frozenset((acl.id.scheme, acl.perms) for acl in owner.get_acls(path)[0])
    for path in (*PERSISTENT_PATHS, "/controller", "/controller_epoch", "/cluster/id", "/brokers/ids/1", "/feature"):
        assert path in found
    for path in ("/brokers/topics/owned/partitions/0/state", "/config/topics/owned", "/controllers/ids/1001"):
        assert path in found
    assert any(path.startswith("/config/changes/config_change_") for path in found)
    secret = ("/config/users", "/config/brokers")
    for path, acl in found.items():
        if path.startswith(secret):
            assert acl == {("digest", 31)}, path
        else:
            assert acl == {("digest", 31), ("world", 1)}, path


def test_clients_without_credentials_can_read_but_not_write(cluster: LocalCluster, stranger: KazooClient) -> None:
    eventually(
        lambda: json.loads(stranger.get("/controller")[0])["brokerid"] == active_controller(cluster),
        "it says who it is",
    )
    for path in ("/controller", "/brokers/ids/1", "/controller_epoch"):
        with pytest.raises(NoAuthError):
            stranger.delete(path)
        with pytest.raises(NoAuthError):
            stranger.set(path, b"mine")
    for path in ("/brokers/topics/mine", "/admin/reassign_partitions", "/admin/delete_topics/owned"):
        with pytest.raises(NoAuthError):
            stranger.create(path)
    for path in ("/config/users", "/config/brokers"):
        with pytest.raises(NoAuthError):
            stranger.get_children(path)


def test_the_password_file_is_readable_by_its_owner_only(cluster: LocalCluster) -> None:
    login = cluster.folder / LOGIN_FILE
    assert stat.S_IMODE(login.stat().st_mode) == 0o600
    password = login.read_text().split('password="')[1].split('"')[0]
    assert [path for path, content in files_of(cluster.folder) if password.encode() in content] == [login]


def test_failover_and_broker_failure_work_with_acls(cluster: LocalCluster, stranger: KazooClient) -> None:
    klamm(cluster, "topics", "create", "lasting", "--partitions", "2", "--replication-factor", "2")
    before = as_json(cluster, "cluster", "describe")["controller"]["id"]
    cluster.kill(f"controller-{before}")
    eventually(lambda: active_controller(cluster) not in (None, before), "another controller")
    cluster.kill("broker-2")
    eventually(lambda: not stranger.exists("/brokers/ids/2"), "broker 2 is gone")

    def led_by_one() -> bool:
        return all(partition["leader"] == 1 and partition["isr"] == [1] for partition in partitions(cluster, "lasting"))

    eventually(led_by_one, "broker 1 leads")
    cluster.start("broker-2")
    cluster.start(f"controller-{before}")
    eventually(lambda: "/brokers/ids/2" in all_znodes(stranger, "/brokers/ids"), "broker 2 is back")
    eventually(lambda: len(stranger.get_children("/controllers/ids")) == 2, "both candidates are back")


@pytest.mark.parametrize("role", [CONTROLLER, BROKER])
def test_a_process_without_credentials_reports_it_and_exits(cluster: LocalCluster, tmp_path: Path, role: str) -> None:
    guest = LocalCluster.create_or_open(tmp_path / "guest", controllers=3, brokers=3, zookeeper=cluster.state.zookeeper)
    name = "controller-1003" if role == CONTROLLER else "broker-3"
    guest.start(name)
    try:
        eventually(lambda: guest.state_of(name) == "stopped", f"{name} ends")
        (failure,) = guest.failures()
    finally:
        guest.stop_all()
    assert "exited with code 1" in failure
    assert "NO_AUTH" in failure
    assert "access list" in failure
