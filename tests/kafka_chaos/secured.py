"""The cluster of the secured rounds: SASL_SSL with SCRAM between brokers, rights, ZooKeeper with TLS and owners.

Sessions of SASL last for seconds, so that they end within every fault. The producers and the group are a user with
rights on topics of rounds only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from cluster.kafka_wire.messages.acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from cluster.process.local_cluster import BROKER, CERTIFICATES, CONTROLLER, OWNER, Member
from cluster.tls.authority import CLIENT_SUFFIX, client, node, write_certificates
from cluster.tls.contexts import client_context
from cluster.tls.settings import AUTHORITY, TlsSettings
from deploy.local.kafka_clients import connect, until_all_see
from deploy.local.kafka_settings import owner_properties
from deploy.local.zookeeper import ServerTls
from deploy.local.zookeeper_root import add_user
from tests.controllers.plain_zookeeper import plain_client
from tests.kafka_chaos.cluster import KafkaChaosCluster
from tests.processes.certificates import write_secret
from tests.timeouts import TIMEOUT_S

BROKERS, APP, EVE = "brokers", "app", "eve"
"""The user of brokers and controllers; that of the load; and one without rights, who also has a certificate."""
MECHANISM: Final = "SCRAM-SHA-512"
PREFIX: Final = "round-"
"""Of the topics, groups and transactional ids of rounds."""
_PASSWORDS: Final = {BROKERS: "of-the-brokers", APP: "of-the-app", EVE: "of-eve"}
_LISTENER: Final = "SASL_SSL"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_SESSION_MS: Final = 20_000
_DAYS: Final = 2
_TOPIC, _GROUP, _CLUSTER, _TRANSACTIONAL_ID = 2, 3, 4, 5
_LITERAL, _PREFIXED, _ALL, _IDEMPOTENT_WRITE, _ALLOW = 3, 4, 2, 12, 3
_CREATE_ACLS: Final = 1


def password_of(user: str) -> str:
    return _PASSWORDS[user]


def _login_module(user: str) -> str:
    return f'{_MODULE} username="{user}" password="{_PASSWORDS[user]}";'


class SecuredChaosCluster(KafkaChaosCluster):
    """Names of certificates as `klamm up --kafka --secure` has them."""

    secures = True

    @classmethod
    def own_settings(cls, folder: Path) -> dict[str, Any]:
        jaas = folder.resolve() / "controllers.jaas"
        write_secret(jaas, f"KafkaServer {{ {_login_module(BROKERS)} }};".encode())
        names = [client("admin").distinguished_name, node(BROKER, 1).distinguished_name, BROKERS]
        return {
            "inter.broker.listener.name": _LISTENER,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.{_LISTENER.lower()}.{MECHANISM.lower()}.sasl.jaas.config": _login_module(BROKERS),
            "java.security.auth.login.config": str(jaas),
            "connections.max.reauth.ms": _SESSION_MS,
            "super.users": ";".join(f"User:{name}" for name in names),
        }

    @property
    def certificates(self) -> Path:
        return self.folder / CERTIFICATES

    def _properties(self, user: str) -> Path:
        """For `--command-config`; that of the brokers' user has their identity in ZooKeeper as well."""
        path = self.certificates / f"{user}-by-password{CLIENT_SUFFIX}"
        lines: dict[str, object] = {"ssl.truststore.type": "PEM", "ssl.truststore.location": self._authority}
        if user == BROKERS:
            lines = owner_properties(self.certificates / f"{OWNER}.pem", self._authority)
        lines |= {
            "security.protocol": _LISTENER,
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": _login_module(user),
        }
        write_secret(path, "".join(f"{key}={value}\n" for key, value in lines.items()).encode())
        return path

    @property
    def _authority(self) -> Path:
        return self.certificates / AUTHORITY

    def _secure_zookeeper(self, timeout_s: float) -> None:
        super()._secure_zookeeper(timeout_s)
        owner = self._files.node_tls(self.members(CONTROLLER)[0])
        for user in _PASSWORDS:
            add_user(self.state.zookeeper, owner, self._properties(user), timeout_s)

    def _tls_of_zookeeper(self, member: Member) -> ServerTls:
        shown = self._files.node_tls(member)
        return ServerTls(Path(str(shown.keystore_location)), self._authority)

    # Those who work on it

    @property
    def bootstrap_of_clients(self) -> list[str]:
        return [member.sasl_address for member in self.state.kafka_brokers]

    @property
    def security_of_clients(self) -> dict[str, Any]:
        return {
            "security_protocol": _LISTENER,
            "ssl_context": client_context(TlsSettings(truststore_location=str(self._authority))),
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": APP,
            "sasl_plain_password": _PASSWORDS[APP],
        }

    def options_of_operator(self, *, of_brokers: bool) -> list[str]:
        given = self._properties(BROKERS) if of_brokers else self.client_properties
        return ["--command-config", str(given)]

    @contextmanager
    def znodes(self) -> Iterator[KazooClient]:
        own = str(self.certificates / f"{OWNER}.pem")
        tls = {"use_ssl": True, "certfile": own, "keyfile": own, "ca": str(self._authority), "verify_certs": True}
        with plain_client(self.state.zookeeper, **tls) as zookeeper:
            yield zookeeper

    def security_of_unfit(self) -> dict[str, str]:
        names = ("OTHER", "GRPC", "GRPC_CONTROL", "METRICS")
        return {"listener.security.protocol.map": ",".join(f"{name}:SSL" for name in names)}

    # What happens to it

    async def begin(self) -> None:
        """Give the load its rights, too: by Kafka's own controller, before the brokers are adopted."""
        write_certificates(self.certificates, [client(EVE)], _DAYS)
        await super().begin()

    async def prepare(self) -> None:
        addresses = {member.id: member.address for member in self.state.kafka_brokers}
        found: list[int] = []

        def is_known(view: Any) -> bool:
            found[:] = [view.controller]
            return view.controller in addresses

        await until_all_see(addresses.values(), [], is_known, self.tls)
        connection = await connect(addresses[found[0]], tls=self.tls)
        try:
            request = CreateAclsRequest(creations=tuple(self._rules()))
            answer = await connection.call(request, _CREATE_ACLS, CreateAclsResponse, timeout_s=TIMEOUT_S)
        finally:
            connection.close()
        assert {result.error_code for result in answer.results} == {0}, answer

    @staticmethod
    def _rules() -> Iterator[AclCreation]:
        of_rounds = [(kind, PREFIX, _PREFIXED, _ALL) for kind in (_TOPIC, _GROUP, _TRANSACTIONAL_ID)]
        for kind, name, pattern, operation in (*of_rounds, (_CLUSTER, "kafka-cluster", _LITERAL, _IDEMPOTENT_WRITE)):
            yield AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=f"User:{APP}",
                host="*",
                operation=operation,
                permission_type=_ALLOW,
            )
