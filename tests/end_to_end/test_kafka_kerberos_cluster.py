"""Brokers of Apache Kafka with Kerberos under klamm: adopted by the commands as they are printed, and left.

Controllers and brokers authenticate to one another by GSSAPI, with tickets that last for seconds, through the death of
a controller and of a broker; a client without rights has none.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.config.client_properties import read_user_credentials
from cluster.sasl.clients import ClientCredentials
from tests.end_to_end.test_kafka_sasl_clusters import SaslCluster, Secured
from tests.kafka.adopted import filled_in
from tests.kafka.tools import tool_command
from tests.processes.certificates import make_certificates, write_secret
from tests.processes.commands import LAUNCHER, run_klamm
from tests.processes.kdc import REALM, Kdc, running_kdc
from tests.processes.local_clusters import eventually

pytestmark = [pytest.mark.deep, pytest.mark.real, pytest.mark.timeout(900)]
SERVICE: Final = "kafka"
LIFETIME_S: Final = 40
"""Of tickets: several times over within a test."""
MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"


@pytest.fixture
def kdc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kdc]:
    with running_kdc(tmp_path / "kdc", f"{LIFETIME_S}s") as found:
        monkeypatch.setenv("KRB5_CONFIG", str(found.config))
        # Of the brokers and of Kafka's tools.
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={found.config}")
        yield found


class KerberosCluster(SaslCluster):
    """Its brokers and controllers have one principal, that of their host, and so one user, which is a super user."""

    host, replicas = "localhost", 2

    def __init__(self, folder: Path, zookeeper: str, kdc: Kdc, version: str, protocol: str) -> None:
        shape = Secured(version, protocol, "GSSAPI", has_authorizer=True)
        super().__init__(shape, folder, zookeeper, make_certificates(folder))
        self.folder = folder
        self.keytab = kdc.keytab("broker", f"{SERVICE}/{self.host}")
        self.of_clients = {name: kdc.keytab(name, name) for name in ("admin", "alice")}

    def login_module(self) -> str:
        options = f'storeKey=true keyTab="{self.keytab}" principal="{SERVICE}/{self.host}@{REALM}"'
        return f"{MODULE} required useKeyTab=true {options};"

    def of_brokers(self) -> dict[str, Any]:
        return {
            **super().of_brokers(),
            "listeners": f"{self.shape.protocol}://{{}}",
            "sasl.kerberos.service.name": SERVICE,
            # Otherwise brokers keep a ticket for a minute, also one that has expired.
            "sasl.kerberos.min.time.before.relogin": 1000,
            "sasl.kerberos.principal.to.local.rules": "RULE:[1:$1@$0](admin@.*)s/@.*/-of-kafka/,DEFAULT",
            "super.users": f"User:{SERVICE};User:admin-of-kafka",
        }

    def credentials(self, user: str, _password: str | None) -> ClientCredentials:
        return read_user_credentials(self.config_of(SERVICE if user == self.user else user))

    def config_of(self, who: str) -> Path:
        """As Kafka's tools take it."""
        path = self.folder / f"{who}.properties"
        keytab = self.keytab if who == SERVICE else self.of_clients[who]
        principal = f"{SERVICE}/{self.host}" if who == SERVICE else who
        login = f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}@{REALM}";'
        lines = {
            "security.protocol": self.shape.protocol,
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": SERVICE,
            "sasl.jaas.config": login,
            **self._tls("PEM"),
        }
        write_secret(path, "".join(f"{key}={value}\n" for key, value in lines.items()).encode())
        return path

    def tool(
        self, name: str, *arguments: str, who: str = "admin", bootstrap: str = ""
    ) -> subprocess.CompletedProcess[str]:
        brokers = bootstrap or ",".join(self.brokers.values())
        options = ("--bootstrap-server", brokers, "--command-config", str(self.config_of(who)))
        command = tool_command(self.version, name, (*options, *arguments), self.folder)
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def adopt(self, *options: str) -> Any:
        config = ("--command-config", str(self.config_of(SERVICE)))
        answer = run_klamm("adopt", "--zookeeper", self.zookeeper, "-o", "json", *config, *options)
        assert answer.stdout, answer.stderr
        return json.loads(answer.stdout)

    def start_printed(self, command: str) -> int:
        jaas = self.folder / "controllers.jaas"
        write_secret(jaas, f"KafkaServer {{ {self.login_module()} }};".encode())
        files = {
            "JAAS.conf": str(jaas),
            "SUPER-USERS": f"User:{SERVICE};User:admin-of-kafka",
            "KEY-AND-CERTIFICATE.pem": str(self._certificates.node),
            "AUTHORITIES.pem": str(self._certificates.authority),
        }
        arguments = filled_in(command, files, self.folder, self.host)
        id_ = int(arguments[arguments.index("--id") + 1])
        listeners = next(one for one in arguments if one.startswith("klamm.kafka.listeners="))
        self.controllers[id_] = listeners.rpartition("//")[2]
        self.start(f"controller-{id_}", [*LAUNCHER, *arguments])
        return id_


@pytest.mark.rule("D-80", "D-107")
@pytest.mark.parametrize(
    ("version", "protocol"), [("3.9.1", "SASL_PLAINTEXT"), ("3.9.1", "SASL_SSL"), ("2.8.2", "SASL_PLAINTEXT")]
)
def test_a_cluster_with_kerberos_is_adopted_and_left(
    tmp_path: Path, zookeeper: str, kdc: Kdc, version: str, protocol: str
) -> None:
    cluster = KerberosCluster(tmp_path, zookeeper, kdc, version, protocol)
    try:
        cluster.start_brokers(2, cluster.of_brokers(), protocol)
        made = cluster.tool("topics", "--create", "--topic", "t", "--partitions", "6", "--replication-factor", "2")
        assert made.returncode == 0, made.stdout + made.stderr
        found = cluster.adopt()
        assert found["refusals"] == []
        ids = [cluster.start_printed(command) for command in found["commands"]]
        for id_ in ids:
            eventually(lambda id_=id_: "Waiting for 'klamm adopt" in cluster.log(f"controller-{id_}"), f"{id_} waits")
        taken = cluster.adopt("--execute")["took_over"]
        assert set(taken["obeyed_by"].values()) == {taken["controller"]}
        _govern(cluster, ids)
        left = run_klamm("leave", "--zookeeper", zookeeper, "--command-config", str(cluster.config_of(SERVICE)))
        assert left.returncode == 0, left.stderr
        eventually(lambda: cluster.active() in cluster.brokers, "a broker is the controller")
        assert cluster.tool("topics", "--describe", "--topic", "t").returncode == 0
    finally:
        cluster.end()


def _govern(cluster: KerberosCluster, ids: list[int]) -> None:
    assert cluster.create("u") == 0
    eventually(lambda: cluster.is_whole("u"), "all replicas are in sync")
    _refuses_whom_brokers_refuse(cluster)
    first = cluster.active()
    cluster.kill("kafka-2")
    eventually(lambda: cluster.is_whole("u", 1) and not cluster.leads("u", 2), "broker 2 is out")
    # That it is in sync again only the leaders say, by AlterPartition from 2.7 on: they authenticate to klamm.
    cluster.restart(2)
    eventually(lambda: cluster.is_whole("u"), "broker 2 is in sync again")
    cluster.kill(f"controller-{first}")
    eventually(lambda: cluster.active() in set(ids) - {first}, "another controller is active")
    eventually(lambda: cluster.obeyed() == {cluster.active()}, "all brokers obey it")
    cluster.stop("kafka-2")
    eventually(lambda: cluster.is_whole("u", 1) and not cluster.leads("u", 2), "broker 2 has left")
    assert "Proceeding to do an unclean shutdown" not in cluster.log("kafka-2")


def _refuses_whom_brokers_refuse(cluster: KerberosCluster) -> None:
    active = cluster.active()
    assert active is not None
    at_klamm = cluster.controllers[active]
    made = cluster.tool(
        "topics",
        "--create",
        "--topic",
        "by-admin",
        "--partitions",
        "1",
        "--replication-factor",
        "2",
        bootstrap=at_klamm,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    refused = cluster.tool("topics", "--delete", "--topic", "t", who="alice", bootstrap=at_klamm)
    assert refused.returncode != 0
    assert cluster.states("t")
