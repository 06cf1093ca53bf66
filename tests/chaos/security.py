"""TLS and rights of a whole cluster: a certificate for each process, and one for those who ask it, who may do all."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cluster.config.client_properties import read_client_tls
from cluster.process.local_cluster import ZOOKEEPER
from cluster.security.acls import ACL_AUTHORIZER
from cluster.tls.authority import client, node, write_certificates, zookeeper
from cluster.tls.settings import AUTHORITY, TlsSettings
from deploy.local.zookeeper import ServerTls

VARIABLE: Final = "KLAMM_COMMAND_CONFIG"
_ADMIN: Final = client("admin")
_DAYS: Final = 30


class ClusterSecurity:
    """The certificates of the processes in `hosts`, by name, each with the address that others reach it by."""

    def __init__(self, folder: Path, hosts: Mapping[str, str]) -> None:
        self._folder = folder
        subjects = [_ADMIN]
        for name, host in hosts.items():
            role, _, number = name.partition("-")
            subjects.append(zookeeper([host]) if name == ZOOKEEPER else node(role, int(number), [host]))
        write_certificates(folder, subjects, _DAYS)

    @property
    def server(self) -> ServerTls:
        """What ZooKeeper is started with."""
        return ServerTls(self._folder / "zookeeper.pem", self._folder / AUTHORITY)

    @property
    def client(self) -> TlsSettings | None:
        """What clients connect with."""
        return read_client_tls(self._folder / "admin.properties")

    def settings(self, name: str) -> Mapping[str, Any]:
        """Of a controller or a broker: TLS at every port, and znodes that belong to the nodes."""
        own, trust = str(self._folder / f"{name}.pem"), str(self._folder / AUTHORITY)
        return {
            "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROL:SSL,METRICS:SSL",
            "ssl.keystore.location": own,
            "ssl.truststore.location": trust,
            "ssl.client.auth": "required",
            "zookeeper.ssl.client.enable": True,
            "zookeeper.ssl.keystore.location": own,
            "zookeeper.ssl.truststore.location": trust,
            "zookeeper.set.acl": True,
            "authorizer.class.name": ACL_AUTHORIZER,
            "super.users": f"User:{_ADMIN.distinguished_name}",
        }

    @contextmanager
    def for_commands(self) -> Iterator[None]:
        """Let every command that is started meanwhile connect with the certificate of the client."""
        os.environ[VARIABLE] = str(self._folder / "admin.properties")
        try:
            yield
        finally:
            del os.environ[VARIABLE]
