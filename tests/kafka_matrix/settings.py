"""What stands in the files of a cluster of the matrix: server.properties, JAAS files, the files of tools.

Listeners and names are those of published settings: Strimzi's and Bitnami's images, MSK, Confluent's, Apache's docs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.kafka_matrix import axes, foreign
from tests.kafka_matrix.axes import Cluster
from tests.kafka_matrix.stores import Stores
from tests.processes.certificates import write_secret

BROKER, ADMIN, APP = "broker", "admin", "app"
PASSWORDS: Final = {BROKER: "of the brokers", ADMIN: "of the admin", APP: "of the app"}
ZOOKEEPER_USER, ZOOKEEPER_PASSWORD = "kafka", "of zookeeper"
_MODULES: Final = "org.apache.kafka.common.security."
_ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
_AUTHORIZERS: Final = {
    axes.SUPER_USERS: _ACL_AUTHORIZER,
    axes.ALLOW_UNLISTED: _ACL_AUTHORIZER,
    axes.SIMPLE: "kafka.security.auth.SimpleAclAuthorizer",
    axes.FOREIGN: foreign.CLASS,
}
_MAPPING: Final = "RULE:^CN=(.*?),OU=.*$/$1/L,DEFAULT"


class Listener(NamedTuple):
    """`client_auth`: none or required. `role`: control, brokers or clients, where one may be for all of them."""

    name: str
    protocol: str
    client_auth: str
    role: str

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")


def listeners(cluster: Cluster) -> list[Listener]:
    """The last one is that of clients in the tests."""
    own, demand = ("SSL", "required") if cluster.security == axes.MUTUAL else (cluster.security, "none")
    has_users = cluster.mechanism != axes.NO_MECHANISM
    match cluster.shape:
        case axes.STRIMZI:
            of_clients = ("SASL_SSL", "none") if has_users else ("SSL", "required")
            return [
                Listener("CONTROLPLANE-9090", "SSL", "required", "control"),
                Listener("REPLICATION-9091", "SSL", "required", "brokers"),
                Listener("PLAIN-9092", "PLAINTEXT", "none", "clients"),
                Listener("TLS-9093", *of_clients, "clients"),
            ]
        case axes.MSK:
            name = "REPLICATION_SECURE" if own == "SSL" else "REPLICATION"
            found = [Listener(name, own, demand, "brokers"), Listener("CLIENT", "PLAINTEXT", "none", "clients")]
            found.append(Listener("CLIENT_SECURE", "SSL", demand, "clients"))
            return [*found, *([Listener("CLIENT_SASL_SCRAM", "SASL_SSL", "none", "clients")] if has_users else [])]
        case axes.BITNAMI:
            return [Listener("INTERNAL", own, demand, "brokers"), Listener("CLIENT", own, demand, "clients")]
        case axes.INSIDE_OUTSIDE:
            if has_users:
                outside = ("SASL_PLAINTEXT" if own.endswith("PLAINTEXT") else "SASL_SSL", "none")
            else:
                outside = (own, demand)
            return [
                Listener("CONTROLLER", own, demand, "control"),
                Listener("INSIDE", own, demand, "brokers"),
                Listener("OUTSIDE", *outside, "clients"),
            ]
        case _:
            return [Listener(own, own, demand, "brokers")]


def store_kind(cluster: Cluster) -> str:
    """Of the brokers' stores: PEM came in 2.7, and 2.8 wants a password of its key."""
    if cluster.shape == axes.CONFLUENT:
        return "JKS"
    return "PKCS12" if cluster.release < "3" or cluster.shape == axes.STRIMZI else "PEM"


def dn_of_broker(cluster: Cluster, id_: int) -> str:
    match cluster.shape:
        case axes.STRIMZI:
            return "CN=my-cluster-kafka,O=io.strimzi"
        case axes.DN_PER_BROKER:
            return f"CN=Broker{id_},OU=kafka,O=example"
        case _:
            return "CN=kafka,OU=brokers,O=example"


def _principal_of_broker(cluster: Cluster, id_: int) -> str:
    if cluster.has_sasl:
        return BROKER
    if cluster.security != axes.MUTUAL:
        return "ANONYMOUS"
    return f"broker{id_}" if cluster.shape == axes.DN_PER_BROKER else dn_of_broker(cluster, id_)


def principal(cluster: Cluster, user: str) -> str:
    """Of a client at the listener of clients."""
    last = listeners(cluster)[-1]
    if last.has_sasl:
        return user
    return f"CN={user}" if last.client_auth == "required" else "ANONYMOUS"


def super_users(cluster: Cluster) -> str:
    """As operators write them: the brokers, klamm's controllers among them, and who administers."""
    names = [_principal_of_broker(cluster, id_) for id_ in (1, 2, 3)]
    return ";".join(f"User:{name}" for name in dict.fromkeys([*names, principal(cluster, ADMIN), f"CN={ADMIN}"]))


def issue_all(cluster: Cluster, stores: Stores) -> None:
    """Number 3 is klamm's; `zookeeper-client` is what brokers and klamm are in ZooKeeper."""
    for id_ in (1, 2, 3):
        stores.issue(f"broker-{id_}", dn_of_broker(cluster, id_))
    stores.issue("zookeeper", "CN=zookeeper")
    stores.issue("zookeeper-client", "CN=kafka,OU=zookeeper-clients,O=example")
    for user in (ADMIN, APP):
        stores.issue(user, f"CN={user}")


def server_properties(cluster: Cluster, id_: int, ports: Mapping[str, int], stores: Stores) -> dict[str, Any]:
    """But for what every broker of a test has. `ports`: by listener."""
    own = listeners(cluster)
    addresses = ",".join(f"{one.name}://127.0.0.1:{ports[one.name]}" for one in own)
    found: dict[str, Any] = {"listeners": addresses, "advertised.listeners": addresses}
    if len(own) == 1:
        found["security.inter.broker.protocol"] = own[0].protocol
    else:
        found["listener.security.protocol.map"] = ",".join(f"{one.name}:{one.protocol}" for one in own)
        found["inter.broker.listener.name"] = next(one.name for one in own if one.role == "brokers")
    if control := [one.name for one in own if one.role == "control"]:
        found["control.plane.listener.name"] = control[0]
    return found | _tls(cluster, id_, stores) | _sasl(cluster) | _rights(cluster) | _zookeeper(cluster, stores)


def _tls(cluster: Cluster, id_: int, stores: Stores) -> dict[str, Any]:
    own, given = listeners(cluster), stores.settings(f"broker-{id_}", store_kind(cluster))
    found: dict[str, Any] = {}
    for one in own:
        prefix = f"listener.name.{one.name.lower()}."
        if one.has_tls and cluster.shape == axes.STRIMZI:
            found |= {f"{prefix}{key}": value for key, value in given.items()}
        elif one.has_tls:
            found |= given
        if one.client_auth == "required":
            found["ssl.client.auth" if len(own) == 1 else f"{prefix}ssl.client.auth"] = "required"
    if cluster.shape == axes.DN_PER_BROKER:
        found["ssl.principal.mapping.rules"] = _MAPPING
    return found


def _sasl(cluster: Cluster) -> dict[str, Any]:
    secured = [one for one in listeners(cluster) if one.has_sasl]
    if not secured:
        return {}
    found: dict[str, Any] = {}
    if cluster.has_sasl:
        found["sasl.mechanism.inter.broker.protocol"] = cluster.mechanism
    if cluster.shape == axes.BITNAMI:
        return {**found, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}
    if cluster.shape == axes.CONFLUENT:
        return {**found, "sasl.enabled.mechanisms": cluster.mechanism}
    for one in secured:
        prefix = f"listener.name.{one.name.lower()}."
        found[f"{prefix}sasl.enabled.mechanisms"] = cluster.mechanism
        # At a listener for clients only, nobody logs in as the broker.
        found[f"{prefix}{cluster.mechanism.lower()}.sasl.jaas.config"] = _module(cluster.mechanism, cluster.has_sasl)
    if cluster.shape == axes.APACHE:
        found["sasl.enabled.mechanisms"] = cluster.mechanism
    return found


def _module(mechanism: str, with_own: bool) -> str:
    is_plain = mechanism == "PLAIN"
    name = f"{_MODULES}{'plain.PlainLoginModule' if is_plain else 'scram.ScramLoginModule'}"
    own = f' username="{BROKER}" password="{PASSWORDS[BROKER]}"' if with_own else ""
    users = "".join(f' user_{user}="{password}"' for user, password in PASSWORDS.items()) if is_plain else ""
    return f"{name} required{own}{users};"


def _rights(cluster: Cluster) -> dict[str, Any]:
    if cluster.authorizer == axes.NO_AUTHORIZER:
        return {}
    found = {"authorizer.class.name": _AUTHORIZERS[cluster.authorizer], "super.users": super_users(cluster)}
    if cluster.authorizer == axes.ALLOW_UNLISTED:
        found["allow.everyone.if.no.acl.found"] = "true"
    return found


def _zookeeper(cluster: Cluster, stores: Stores) -> dict[str, Any]:
    found: dict[str, Any] = {"zookeeper.set.acl": True} if cluster.owners else {}
    if cluster.zookeeper_tls:
        found |= {
            "zookeeper.ssl.client.enable": True,
            "zookeeper.ssl.protocol": "TLSv1.3",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            **stores.settings("zookeeper-client", "PEM", "zookeeper.ssl."),
        }
    return found


def jaas_of_brokers(cluster: Cluster) -> str:
    """Of -Djava.security.auth.login.config; empty if there is none."""
    kafka = ""
    if cluster.has_sasl and cluster.shape in {axes.CONFLUENT, axes.BITNAMI}:
        mechanisms = ("PLAIN", "SCRAM-SHA-256") if cluster.shape == axes.BITNAMI else (cluster.mechanism,)
        kafka = f"KafkaServer {{ {' '.join(_module(name, with_own=True) for name in mechanisms)} }};\n"
    return kafka + _client_section(cluster)


def jaas_of_controllers(cluster: Cluster) -> str:
    """What the operator of the brokers gives klamm: their own sections; of a setting, its login module."""
    found = jaas_of_brokers(cluster)
    if "KafkaServer" in found or cluster.mechanism == axes.NO_MECHANISM:
        return found
    return f"KafkaServer {{ {_module(cluster.mechanism, cluster.has_sasl)} }};\n{found}"


def _client_section(cluster: Cluster) -> str:
    if not cluster.zookeeper_sasl:
        return ""
    own = f'username="{ZOOKEEPER_USER}" password="{ZOOKEEPER_PASSWORD}"'
    return f"Client {{ org.apache.zookeeper.server.auth.DigestLoginModule required {own}; }};\n"


JAAS_OF_ZOOKEEPER: Final = (
    "Server { org.apache.zookeeper.server.auth.DigestLoginModule required "
    f'user_{ZOOKEEPER_USER}="{ZOOKEEPER_PASSWORD}"; }};\n'
)


def command_config(cluster: Cluster, stores: Stores, jaas: Path) -> dict[str, str]:
    """Of `klamm adopt`: the identity of the brokers, at their own listener and in ZooKeeper."""
    own = next(one for one in listeners(cluster) if one.role == "brokers")
    found = {"security.protocol": own.protocol}
    if any(one.has_tls for one in listeners(cluster)):
        found |= stores.settings("broker-3", "PEM")
    if own.has_sasl:
        found |= _login(cluster, BROKER)
    if cluster.zookeeper_tls:
        found |= {"zookeeper.ssl.client.enable": "true"}
        given = stores.settings("zookeeper-client", "PEM", "zookeeper.ssl.")
        found |= {key: value for key, value in given.items() if key.endswith("location")}
    if cluster.zookeeper_sasl:
        found["java.security.auth.login.config"] = str(jaas)
    return found | ({"zookeeper.set.acl": "true"} if cluster.owners else {})


def tool_config(cluster: Cluster, stores: Stores, user: str) -> dict[str, str]:
    """Of Kafka's own tools, at the listener of clients."""
    last = listeners(cluster)[-1]
    found = {"security.protocol": last.protocol}
    if last.has_tls:
        found |= stores.settings(user if last.client_auth == "required" else None, "PKCS12")
    return found | (_login(cluster, user) if last.has_sasl else {})


def _login(cluster: Cluster, user: str) -> dict[str, str]:
    kind = "plain.PlainLoginModule" if cluster.mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'{_MODULES}{kind} required username="{user}" password="{PASSWORDS[user]}";'
    return {"sasl.mechanism": cluster.mechanism, "sasl.jaas.config": login}


def write_properties(path: Path, given: Mapping[str, Any]) -> Path:
    """For its owner only: it may have a password."""
    write_secret(path, "".join(f"{key}={value}\n" for key, value in given.items()).encode())
    return path
