"""The folder of an embedded cluster: what is kept, and what is refused."""

import socket
import tomllib
from pathlib import Path

import pytest

from adoption.command_config import read_command_config
from cluster.config.client_properties import read_user_credentials
from cluster.config.config import load_config
from cluster.model.errors import StartupError
from cluster.process.local_cluster import BROKER, CERTIFICATES, CONTROLLER, ZOOKEEPER, owner_properties_of
from cluster.tls.authority import client, write_certificates
from deploy.local.cluster import LocalCluster
from deploy.local.cluster_folder import ClusterFolder
from deploy.local.kafka_settings import known_to_klamm, listeners_of_broker, settings_of_broker, settings_of_controller
from deploy.local.ports import LAST_FIRST_PORT, MAX_MEMBERS, ports_of_members


def test_a_new_cluster_has_three_of_each_with_ports_of_their_own(tmp_path: Path) -> None:
    cluster = LocalCluster.create_or_open(tmp_path)
    assert [m.name for m in cluster.members(CONTROLLER)] == ["controller-1001", "controller-1002", "controller-1003"]
    assert [m.name for m in cluster.members(BROKER)] == ["broker-1", "broker-2", "broker-3"]
    ports = [p for m in cluster.state.members for p in (m.port, m.metrics_port) if p]
    assert len(set(ports)) == len(ports) == 13
    assert (tmp_path / "bootstrap").read_text().strip().split(",") == cluster.bootstrap


def test_a_folder_keeps_its_cluster_and_may_grow_but_not_shrink(tmp_path: Path) -> None:
    made = LocalCluster.create_or_open(tmp_path, controllers=1, brokers=2)
    opened = LocalCluster.create_or_open(tmp_path, brokers=4)
    assert opened.bootstrap[:3] == made.bootstrap
    assert [m.id for m in opened.members(BROKER)] == [1, 2, 3, 4]
    with pytest.raises(StartupError, match="abandon"):
        LocalCluster.create_or_open(tmp_path, brokers=1)


def test_an_external_zookeeper_is_kept_and_not_started(tmp_path: Path) -> None:
    cluster = LocalCluster.create_or_open(tmp_path, zookeeper="localhost:2181/chroot")
    assert cluster.members(ZOOKEEPER) == []
    with pytest.raises(StartupError, match="localhost:2181/chroot"):
        LocalCluster.create_or_open(tmp_path, zookeeper="elsewhere:2181")


@pytest.mark.parametrize(("controllers", "brokers"), [(0, 3), (3, 0), (1, 1000), (-1, 1)])
def test_counts_that_make_no_cluster_are_refused(tmp_path: Path, controllers: int, brokers: int) -> None:
    with pytest.raises(StartupError, match="must be 1 to"):
        LocalCluster.create_or_open(tmp_path / "c", controllers=controllers, brokers=brokers)
    assert not (tmp_path / "c").exists()


def test_a_folder_without_a_cluster_and_one_that_is_damaged_are_distinguished(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="klamm up"):
        LocalCluster.open(tmp_path)
    for content in (b"{", b'{"zookeeper":"\xff"}', b'{"settings":' + b"[" * 5000):
        (tmp_path / "cluster.json").write_bytes(content)
        with pytest.raises(StartupError, match="cannot be read"):
            LocalCluster.open(tmp_path)


def test_a_port_that_is_in_use_is_named_before_anything_is_started(tmp_path: Path) -> None:
    cluster = LocalCluster.create_or_open(tmp_path, controllers=1, brokers=1)
    with (
        socket.create_server(("127.0.0.1", cluster.member("broker-1").port)),
        pytest.raises(StartupError, match=rf"port {cluster.member('broker-1').port} of broker-1"),
    ):
        cluster.start("broker-1")


def test_only_one_command_at_a_time_changes_a_cluster(tmp_path: Path) -> None:
    LocalCluster.create_or_open(tmp_path)
    with ClusterFolder(tmp_path).locked(), pytest.raises(StartupError, match="another klamm command"):
        LocalCluster.open(tmp_path).stop_all()


def test_member_configurations_are_what_the_programs_read(tmp_path: Path) -> None:
    folder = tmp_path / 'a "folder"'
    cluster = LocalCluster.create_or_open(folder, settings={"replica.lag.time.max.ms": 5000})
    member = cluster.member("broker-2")
    role, _, file = ClusterFolder(folder).make_ready(member, cluster.state)
    assert (role, tomllib.loads(Path(file).read_text())["id"]) == ("broker", 2)
    config = load_config(Path(file))
    assert (config.id, config.listen, config.zookeeper) == (2, member.address, cluster.state.zookeeper)
    assert config.data == (str(folder / "data" / "broker-2"),)
    assert config.settings.zookeeper_session_timeout_ms == 6000
    assert config.settings.replica_lag_time_max_ms == 5000


def test_fixed_ports_are_counted_from_the_first_also_for_later_members(tmp_path: Path) -> None:
    LocalCluster.create_or_open(tmp_path, controllers=1, brokers=2, first_port=19_091)
    grown = LocalCluster.create_or_open(tmp_path, controllers=2, brokers=3)
    assert [m.port for m in grown.members(ZOOKEEPER)] == [19_091]
    assert [m.port for m in grown.members(BROKER)] == [19_092, 19_093, 19_094]
    assert [m.port for m in grown.members(CONTROLLER)] == [19_192, 19_193]
    every = [p for m in grown.state.members for p in (m.port, m.metrics_port, m.control_port) if p]
    assert len(set(every)) == len(every)
    assert LocalCluster.create_or_open(tmp_path, first_port=19_091).bootstrap == grown.bootstrap
    with pytest.raises(StartupError, match="has its ports already"):
        LocalCluster.create_or_open(tmp_path, first_port=19_092)


def test_the_last_fixed_port_that_a_member_can_have_is_a_port() -> None:
    for role in (BROKER, CONTROLLER):
        (last,) = ports_of_members(LAST_FIRST_PORT, role, [MAX_MEMBERS], ())
        assert max(last) <= 65_535


def test_brokers_are_spread_over_racks_also_later(tmp_path: Path) -> None:
    LocalCluster.create_or_open(tmp_path, brokers=3, racks=["a", "b"])
    unchanged = LocalCluster.create_or_open(tmp_path)
    assert [m.rack for m in unchanged.members(BROKER)] == ["a", "b", "a"]
    moved = LocalCluster.create_or_open(tmp_path, brokers=4, racks=["x", "y", "z"])
    assert [m.rack for m in moved.members(BROKER)] == ["x", "y", "z", "x"]
    for member in moved.members(BROKER):
        arguments = ClusterFolder(tmp_path).make_ready(member, moved.state)
        assert tomllib.loads(Path(arguments[-1]).read_text())["rack"] == member.rack


def test_a_java_that_fails_gives_its_reason_and_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        """#!/bin/sh
[ "$1" = -version ] && { echo 'openjdk version "21"' >&2; exit 0; }
printf 'Exception in thread "main" java.lang.OutOfMemoryError: no memory\\n' >&2
printf '\\tat org.example.Thing.run(Thing.java:1)\\n\\t... 3 more\\n' >&2
exit 1
"""
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    cluster = LocalCluster.create_or_open(tmp_path / "c", controllers=1, brokers=1)
    with pytest.raises(StartupError) as refused:
        cluster.start_all()
    assert str(refused.value) == (
        'ZooKeeper did not start: Exception in thread "main" java.lang.OutOfMemoryError: no memory; its log is '
        f"{tmp_path / 'c' / 'logs' / 'zookeeper.log'}"
    )


def test_a_cluster_of_kafka_brokers_gives_each_program_its_settings(tmp_path: Path) -> None:
    cluster = LocalCluster.create_or_open(
        tmp_path,
        controllers=2,
        brokers=2,
        kafka="3.9.1",
        settings={"log.flush.interval.ms": 7, "min.insync.replicas": 2, "klamm.health.port": 1},
    )
    controller, broker = cluster.member("controller-1001"), cluster.member("broker-1")
    of_controller = settings_of_controller(cluster.state, controller)
    assert of_controller["klamm.broker.protocol"] == "kafka"
    assert of_controller["klamm.kafka.listeners"] == f"PLAINTEXT://127.0.0.1:{controller.kafka_port}"
    assert "klamm.kafka.register.as.broker" not in of_controller
    assert (of_controller["min.insync.replicas"], of_controller["klamm.health.port"]) == (2, 1)
    of_broker = settings_of_broker(cluster.state)
    assert of_broker["offsets.topic.replication.factor"] == 2
    assert of_broker["min.insync.replicas"] == 2
    assert not [key for key in of_broker if key.startswith("klamm.")]
    assert broker.ports == [broker.port]
    assert cluster.bootstrap == [m.address for m in cluster.members(CONTROLLER)]
    assert (tmp_path / "kafka-bootstrap").read_text().strip().split(",") == [m.address for m in cluster.members(BROKER)]
    assert len(cluster.state_change_logs) == 4


def test_a_secured_cluster_of_kafka_brokers_has_a_listener_for_users_and_files_for_all(tmp_path: Path) -> None:
    cluster = LocalCluster.create_or_open(tmp_path, controllers=1, brokers=1, kafka="3.9.1", is_secured=True)
    controller, broker = cluster.member("controller-1001"), cluster.member("broker-1")
    assert len({*controller.ports, *broker.ports}) == len(controller.ports) + len(broker.ports) == 7
    of_controller = settings_of_controller(cluster.state, controller)
    users = f"SASL_SSL://127.0.0.1:{controller.sasl_port}"
    assert of_controller["klamm.kafka.listeners"] == f"SSL://127.0.0.1:{controller.kafka_port},{users}"
    of_broker = listeners_of_broker(broker)
    assert of_broker["listeners"] == f"SSL://{broker.address},SASL_SSL://{broker.sasl_address}"
    assert of_broker["inter.broker.listener.name"] == "SSL"
    assert (tmp_path / "kafka-bootstrap").read_text() == f"{broker.address}\n"
    assert (tmp_path / "kafka-bootstrap-sasl").read_text() == f"{broker.sasl_address}\n"
    # Of a folder that a former release made.
    broker.sasl_port = controller.sasl_port = 0
    assert "SASL" not in str((listeners_of_broker(broker), settings_of_controller(cluster.state, controller)))
    assert cluster.user_properties is not None
    assert read_user_credentials(cluster.user_properties).user == "alice"
    owner = owner_properties_of(tmp_path, cluster.state)
    assert owner is not None
    found = read_command_config(owner)
    assert found.sets_acl
    assert found.zookeeper_tls is not None
    plain = LocalCluster.create_or_open(tmp_path / "plain", kafka="3.9.1")
    assert owner_properties_of(tmp_path / "plain", plain.state) is plain.user_properties is None
    assert not (tmp_path / "plain" / "kafka-bootstrap-sasl").exists()


def test_a_secured_cluster_of_klamms_brokers_has_the_file_of_its_nodes_identity(tmp_path: Path) -> None:
    cluster = LocalCluster.create_or_open(tmp_path, controllers=1, brokers=1, is_secured=True)
    owner = owner_properties_of(tmp_path, cluster.state)
    assert owner is not None
    assert owner.stat().st_mode & 0o077 == 0
    found = read_command_config(owner)
    assert found.sets_acl
    assert found.zookeeper_tls is not None
    assert cluster.user_properties is None


def test_kafka_brokers_before_3_find_the_controller_among_the_brokers(tmp_path: Path) -> None:
    cluster = LocalCluster.create_or_open(tmp_path, kafka="2.8.2")
    of_controller = settings_of_controller(cluster.state, cluster.member("controller-1001"))
    assert of_controller["klamm.kafka.register.as.broker"]


def test_a_folder_keeps_its_kind_of_brokers(tmp_path: Path) -> None:
    LocalCluster.create_or_open(tmp_path / "kafka", kafka="3.9.1")
    assert LocalCluster.create_or_open(tmp_path / "kafka").state.kafka == "3.9.1"
    with pytest.raises(StartupError, match=r"are of Kafka 3\.9\.1, not of Kafka 2\.8\.2: a cluster of these needs"):
        LocalCluster.create_or_open(tmp_path / "kafka", kafka="2.8.2")
    LocalCluster.create_or_open(tmp_path / "own")
    with pytest.raises(StartupError, match=r"are klamm's own, not of Kafka 3\.9\.1"):
        LocalCluster.create_or_open(tmp_path / "own", kafka="3.9.1")


def test_what_klamm_does_not_know_is_kafkas_but_its_own_prefix_is_not() -> None:
    known = {
        "min.insync.replicas": 2,
        "klamm.no.such.key": 1,
        "listener.name.ssl.ssl.client.auth": "requested",
        "listener.name.sasl_ssl.connections.max.reauth.ms": 2000,
    }
    of_kafka = {"log.message.format.version": "2.8", "listener.name.ssl.max.connections": 10}
    assert known_to_klamm(known | of_kafka) == known


def test_a_client_with_a_certificate_is_not_taken_for_the_user_with_a_password(tmp_path: Path) -> None:
    """It may have the same name: the document on security certifies an alice, too."""
    cluster = LocalCluster.create_or_open(tmp_path, controllers=1, brokers=1, is_secured=True)
    write_certificates(tmp_path / CERTIFICATES, [client("alice")], days=1)
    assert LocalCluster.create_or_open(tmp_path).user_properties is cluster.user_properties is None
