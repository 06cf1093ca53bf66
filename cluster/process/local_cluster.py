"""Keeps the state of a cluster on this machine in `cluster.json` of its data folder: members, ports and processes.

`klamm up` writes it; commands find by it the nodes that they connect to.
"""

from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from cluster.model import bounds
from cluster.model.errors import DECODE_ERRORS, StartupError
from cluster.process.identity import ProcessIdentity
from cluster.tls.settings import AUTHORITY, TlsSettings

STATE_FILE: Final = "cluster.json"
CONTROLLER: Final = "controller"
BROKER: Final = "broker"
ZOOKEEPER: Final = "zookeeper"

CERTIFICATES: Final = "certs"
"""The folder in that of a secured cluster with its authority, and a key with its certificate for each process."""
CLIENT: Final = "admin"
"""The client of a secured cluster that commands are; its file there has the suffix `.pem`."""

OWNER: Final = "owner"
"""The identity of the nodes of a secured cluster of Kafka's brokers; `klamm adopt` and `klamm leave` need it."""
USER: Final = "alice"
"""A user with a password of a secured cluster of Kafka's brokers."""

STATE_VERSION: Final = 1


class Member(Struct):
    """Describes one process of the cluster. `metrics_port` is 0 for ZooKeeper; `process` is the last one started.

    `control_port` is 0 (a free one) for ZooKeeper and for members that klamm 0.2 made. `kafka_port`: where a controller
    answers Kafka's requests, in a cluster of Kafka's brokers; of these, only `port` is there. `sasl_port`: where either
    answers users with passwords, if such a cluster is secured. `host`: an address of this machine; in tests that cut
    networks, each member has one of its own.
    """

    role: str
    id: int
    port: int
    metrics_port: int
    process: ProcessIdentity | None = None
    control_port: int = 0
    rack: str = ""
    kafka_port: int = 0
    host: str = "127.0.0.1"
    sasl_port: int = 0

    @property
    def ports(self) -> list[int]:
        """The ports at which it listens, if they are fixed."""
        every = (self.port, self.metrics_port, self.control_port, self.kafka_port, self.sasl_port)
        return [port for port in every if port]

    @property
    def name(self) -> str:
        return self.role if self.role == ZOOKEEPER else f"{self.role}-{self.id}"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def kafka_address(self) -> str:
        """The address where a controller answers Kafka's requests."""
        return f"{self.host}:{self.kafka_port}"

    @property
    def sasl_address(self) -> str:
        """The address where users with passwords are answered."""
        return f"{self.host}:{self.sasl_port}"


class LocalClusterState(Struct):
    """Holds the content of `cluster.json`. `supervisor`: the `klamm up` that supervises the members, if any.

    `first_port`: the one that all ports are counted from; 0: free ones were chosen. `kafka`: the version of Apache
    Kafka whose brokers these are; empty: they are klamm's own. `log_dirs`: the number of log directories of each of
    klamm's brokers. `is_secured`: whether every port has TLS, with the certificates in `CERTIFICATES`.
    """

    version: int
    zookeeper: str
    members: list[Member]
    settings: dict[str, Any]
    supervisor: ProcessIdentity | None = None
    first_port: int = 0
    kafka: str = ""
    log_dirs: int = 1
    is_secured: bool = False

    def metrics_of(self, member: Member) -> str:
        """The address where a member serves its metrics: host:port, under TLS https://host:port."""
        return f"{'https://' if self.is_secured else ''}{member.host}:{member.metrics_port}"

    @property
    def nodes(self) -> list[Member]:
        """The processes of klamm that answer its requests, running or not: controllers and agents."""
        return [m for m in self.members if m.role == CONTROLLER or (m.role == BROKER and not self.kafka)]

    @property
    def kafka_brokers(self) -> list[Member]:
        """The brokers of Apache Kafka, running or not."""
        return [m for m in self.members if m.role == BROKER and self.kafka]


def read_cluster_state(folder: Path) -> LocalClusterState:
    """Read the state that was written last. Raises StartupError if there is none, or it is malformed."""
    file = folder / STATE_FILE
    try:
        state = msgspec.json.decode(file.read_bytes(), type=LocalClusterState)
    except (FileNotFoundError, NotADirectoryError):
        raise StartupError(
            f"no cluster in {folder}: start one with 'klamm up --detach --data {folder}', or connect to one with"
            " --bootstrap HOST:PORT"
        ) from None
    except (OSError, *DECODE_ERRORS) as error:
        raise StartupError(f"{file} cannot be read: {error}") from error
    if state.version != STATE_VERSION:
        raise StartupError(f"{file} was written by another version of klamm; use another folder")
    if not state.nodes:
        raise StartupError(f"{file} names no controller and no broker; use another folder")
    for address in state.zookeeper.partition("/")[0].split(","):
        host, _, port = address.rpartition(":")
        if not host or bounds.parse_number(bounds.PORT, port) is None:
            raise StartupError(f"{file}: zookeeper {state.zookeeper[:200]!r} must be HOST:PORT[,HOST:PORT…][/CHROOT]")
    return state


def client_tls_of(folder: Path, state: LocalClusterState) -> TlsSettings | None:
    """The TLS with which clients call the cluster of a folder; None: without it."""
    if not state.is_secured:
        return None
    certificates = folder.resolve() / CERTIFICATES
    return TlsSettings(
        keystore_location=str(certificates / f"{CLIENT}.pem"), truststore_location=str(certificates / AUTHORITY)
    )


def owner_properties_of(folder: Path, state: LocalClusterState) -> Path | None:
    """The file with the identity of the nodes of a secured cluster; None for one without."""
    file = folder.resolve() / CERTIFICATES / f"{OWNER}.properties"
    return file if state.is_secured and file.exists() else None
