"""The directory of a local cluster: its members, their configuration, logs and data.

`certs/` has the authority and the keys of a secured cluster.

`cluster.json` holds members, ports and processes, `bootstrap` the addresses for clients, `kafka-bootstrap` those of
Kafka's brokers, `kafka-bootstrap-sasl` theirs for users with passwords, `prometheus-targets.json` those of metrics;
`config/`, `logs/`, `data/` and `state-changes/` have an entry per member.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from cluster.config.listener_addresses import METRICS_LISTENER
from cluster.config.listener_security import GRPC_LISTENERS
from cluster.model.errors import StartupError
from cluster.model.listeners import DEFAULT_CONTROL_LISTENER
from cluster.process.local_cluster import (
    BROKER,
    CERTIFICATES,
    CLIENT,
    CONTROLLER,
    OWNER,
    STATE_FILE,
    USER,
    ZOOKEEPER,
    LocalClusterState,
    Member,
    read_cluster_state,
)
from cluster.security.acls import ACL_AUTHORIZER
from cluster.tls.authority import (
    CLIENT_SUFFIX,
    DEFAULT_HOSTS,
    Subject,
    client,
    node,
    write_certificates,
    write_file,
    zookeeper,
)
from cluster.tls.settings import AUTHORITY, TlsSettings
from deploy.local.kafka_broker import KafkaBroker, prepare
from deploy.local.kafka_jars import find_kafka_jars
from deploy.local.kafka_settings import (
    SECURED_LISTENER,
    listeners_of_broker,
    owner_properties,
    security_of_broker,
    settings_of_broker,
    settings_of_controller,
    user_properties,
)

_CERTIFICATE_DAYS: Final = 365
TARGETS_FILE: Final = "prometheus-targets.json"
"""For `file_sd_configs` of deploy/prometheus/prometheus-local.yml."""


class ClusterFolder:
    """The files of one cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state = path / STATE_FILE

    @property
    def has_cluster(self) -> bool:
        return self._state.exists()

    def read(self) -> LocalClusterState:
        """The state written last. Raises StartupError if there is none, or it is malformed."""
        return read_cluster_state(self.path)

    def write(self, state: LocalClusterState) -> None:
        _replace(self._state, msgspec.json.format(msgspec.json.encode(state)))
        _replace(self.path / "bootstrap", _addresses(m.address for m in state.nodes))
        if state.kafka:
            _replace(self.path / "kafka-bootstrap", _addresses(m.address for m in state.kafka_brokers))
        of_users = [m.sasl_address for m in state.kafka_brokers if m.sasl_port]
        if of_users:
            _replace(self.path / "kafka-bootstrap-sasl", _addresses(of_users))
        _replace(self.path / TARGETS_FILE, json.dumps(_targets(state), indent=1).encode() + b"\n")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock for changes of the cluster; it is released when its process ends."""
        descriptor = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StartupError(
                    f"another klamm command is starting or stopping the cluster in {self.path}"
                ) from None
            yield
        finally:
            os.close(descriptor)

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def state_changes(self, name: str) -> Path:
        return self.path / "state-changes" / name

    def log_dirs(self, member: Member, state: LocalClusterState) -> list[Path]:
        """Return where a broker keeps its partitions. The first is named for it, so that others can be added."""
        first = self.path / "data" / member.name
        return [first, *(first.with_name(f"{first.name}-dir-{number}") for number in range(2, state.log_dirs + 1))]

    def log_tail(self, name: str, lines: int = 5) -> str:
        """The end of a member's log."""
        try:
            with self.log(name).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 8192))
                return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"

    def reason(self, name: str) -> str:
        """The last line of a member's log that is no frame of a Java trace: what it is about is in the line above."""
        lines = self.log_tail(name, lines=100).splitlines()
        said = [line for line in lines if line.strip() and not line[0].isspace()]
        return said[-1] if said else "it said nothing"

    def make_ready(self, member: Member, state: LocalClusterState) -> list[str]:
        """Create the files that a member needs to start; returns its arguments of `klamm`."""
        for sub_folder in ("config", "logs", "data", "state-changes"):
            (self.path / sub_folder).mkdir(exist_ok=True)
        data = self.path / "data" / member.name
        if state.is_secured:
            self._make_certificate(member)
        if member.role == ZOOKEEPER:
            keys = ["--tls-keystore", str(self._keystore(member)), "--tls-truststore", str(self._authority)]
            own = ["zookeeper", "--port", str(member.port), "--data", str(data)]
            return [*own, *keys] if state.is_secured else own
        # Created here, so that an audit of a member without records finds an empty directory and no error.
        self.state_changes(member.name).mkdir(exist_ok=True)
        config = self.path / "config" / f"{member.name}.toml"
        config.write_text(self._config(member, state))
        return [member.role, "--config", str(config)]

    def make_certificates(self) -> None:
        """Make the authority of a secured cluster, and the certificate that commands show. Raises StartupError."""
        self._write_certificate(client(CLIENT))

    def make_owner_file(self) -> None:
        """Make the file of a secured cluster for the identity of its nodes, which owns the znodes."""
        keystore = self._certificates / f"{OWNER}.pem"
        self._write_certificate(replace(node(CONTROLLER, 0), file=keystore.name))
        self._write_properties(OWNER, owner_properties(keystore, self._authority))

    def make_user_file(self) -> None:
        """Make the file of a user of Kafka's brokers."""
        self._write_properties(USER, user_properties(USER, self._authority))

    def _write_properties(self, name: str, lines: Mapping[str, object]) -> None:
        text = "".join(f"{key}={value}\n" for key, value in lines.items())
        write_file(self._certificates / f"{name}{CLIENT_SUFFIX}", text.encode(), 0o600)

    def client_file(self, name: str) -> Path | None:
        """The file for `--command-config` of this name, if there is one."""
        file = self._certificates / f"{name}{CLIENT_SUFFIX}"
        return file if file.exists() else None

    def node_tls(self, member: Member) -> TlsSettings:
        """The certificate that a node of a secured cluster shows, and what it trusts. Raises StartupError."""
        self._make_certificate(member)
        return TlsSettings(keystore_location=str(self._keystore(member)), truststore_location=str(self._authority))

    def _make_certificate(self, member: Member) -> None:
        hosts = (*DEFAULT_HOSTS, *([member.host] if member.host not in DEFAULT_HOSTS else []))
        is_server = member.role == ZOOKEEPER
        self._write_certificate(zookeeper(hosts) if is_server else node(member.role, member.id, hosts))

    def _write_certificate(self, subject: Subject) -> None:
        """Write it unless it is there: an operator may have replaced it."""
        if not (self._certificates / subject.file).exists():
            write_certificates(self._certificates, [subject], _CERTIFICATE_DAYS)

    @property
    def _certificates(self) -> Path:
        return self.path / CERTIFICATES

    @property
    def _authority(self) -> Path:
        return self._certificates / AUTHORITY

    def _keystore(self, member: Member) -> Path:
        return self._certificates / f"{member.name}.pem"

    def _security(self, member: Member, state: LocalClusterState) -> dict[str, Any]:
        """The settings of a node of a secured cluster: TLS at every port, a certificate of its own, and rights."""
        keystore, truststore = str(self._keystore(member)), str(self._authority)
        # Where brokers are of Kafka, the gRPC listeners have names of their own.
        names = (*GRPC_LISTENERS[:2], SECURED_LISTENER) if state.kafka else (SECURED_LISTENER, DEFAULT_CONTROL_LISTENER)
        protocols = [
            *(f"{name}:SSL" for name in (*names, METRICS_LISTENER)),
            *(["SASL_SSL:SASL_SSL"] if state.kafka else []),
        ]
        return {
            "inter.broker.listener.name": SECURED_LISTENER,
            "listener.security.protocol.map": ",".join(protocols),
            "ssl.keystore.location": keystore,
            "ssl.truststore.location": truststore,
            "ssl.client.auth": "required",
            # Health checks and Prometheus need no certificate of their own.
            "listener.name.metrics.ssl.client.auth": "none",
            "zookeeper.ssl.client.enable": True,
            "zookeeper.ssl.keystore.location": keystore,
            "zookeeper.ssl.truststore.location": truststore,
            "zookeeper.set.acl": True,
            "authorizer.class.name": ACL_AUTHORIZER,
            "super.users": self._super_users(state),
        }

    @staticmethod
    def _super_users(state: LocalClusterState) -> str:
        """The certificate that commands show; of klamm those of nodes need no rule for what nodes send."""
        names = [client(CLIENT).distinguished_name]
        if state.kafka:
            names.append(node(BROKER, 1).distinguished_name)
        return ";".join(f"User:{name}" for name in names)

    def make_kafka_ready(self, member: Member, state: LocalClusterState) -> list[str]:
        """Create the files that a broker of Kafka's needs to start; returns its command."""
        settings = settings_of_broker(state)
        if state.is_secured:
            self._make_certificate(member)
            keystore, truststore = self._keystore(member).resolve(), self._authority.resolve()
            security = security_of_broker(str(keystore), str(truststore), self._super_users(state))
            settings = {**listeners_of_broker(member), **security, **settings}
        broker = KafkaBroker(
            id=member.id,
            port=member.port,
            zookeeper=state.zookeeper,
            data=self.path / "data" / member.name,
            state_changes=self.state_changes(member.name),
            settings=settings,
            rack=member.rack,
            host=member.host,
        )
        (self.path / "logs").mkdir(exist_ok=True)
        return prepare(broker, self.path / "config", find_kafka_jars(state.kafka))

    def _config(self, member: Member, state: LocalClusterState) -> str:
        data = [str(path) for path in self.log_dirs(member, state)] if member.role == BROKER else []
        of_role = settings_of_controller(state, member) if state.kafka else state.settings
        security = self._security(member, state) if state.is_secured else {}
        settings = {"klamm.state.change.log.dir": str(self.state_changes(member.name)), **security, **of_role}
        # Strings and numbers are spelled alike in JSON and TOML.
        fields = {
            "id": member.id,
            "zookeeper": state.zookeeper,
            "listen": member.address,
            "control_listen": f"{member.host}:{member.control_port}",
            "metrics_listen": f"{member.host}:{member.metrics_port}",
            "data": data if len(data) > 1 else str(self.path / "data" / member.name),
            **({"rack": member.rack} if member.rack else {}),
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in fields.items()]
        lines += ["", "[settings]", *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in settings.items())]
        return "\n".join(lines) + "\n"


def _replace(path: Path, content: bytes) -> None:
    draft = path.with_name(f"{path.name}.new")
    draft.write_bytes(content)
    draft.replace(path)


def _addresses(addresses: Iterable[str]) -> bytes:
    return ",".join(addresses).encode() + b"\n"


def _targets(state: LocalClusterState) -> list[dict[str, Any]]:
    scheme = {"__scheme__": "https"} if state.is_secured else {}
    return [
        {"targets": [f"{m.host}:{m.metrics_port}"], "labels": {"job": f"klamm-{m.role}", "node": m.name, **scheme}}
        for m in state.nodes
    ]
