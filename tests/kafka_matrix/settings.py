"""What stands in the files of a cluster of the matrix: server.properties, JAAS files, the files of tools.

Listeners and names are those of published settings: Strimzi's and Bitnami's images, MSK, Confluent's, Apache's docs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.kafka_matrix import axes, foreign
from tests.kafka_matrix.axes import Cluster
from tests.kafka_matrix.stores import Stores
from tests.processes.certificates import write_secret
from tests.processes.kdc import REALM

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


LOOPBACK: Final = "127.0.0.1"
HOST: Final = "localhost"
"""In the principals of brokers, of klamm and of ZooKeeper: Java asks for tickets for the name that it finds for an
address, so in clusters with Kerberos the name is registered.
"""
SERVICE: Final = "kafka"
"""The user of brokers with Kerberos, and the first part of their principal."""
AUDIENCE, ISSUER = "kafka", "https://issuer.example"
_IN_JAAS_FILE: Final = (axes.CONFLUENT, axes.CLOUDERA)
"""Shapes whose brokers have the login module of their listener in the file, and that of ZooKeeper beside it."""
_OAUTH: Final = f"{_MODULES}oauthbearer."
_KERBEROS: Final = "com.sun.security.auth.module.Krb5LoginModule"


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


def host(cluster: Cluster) -> str:
    """By which its processes are reached."""
    return HOST if cluster.needs_kdc else LOOPBACK


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
    if cluster.shape in _IN_JAAS_FILE:
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
        return SERVICE if cluster.mechanism == axes.GSSAPI else BROKER
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
    addresses = ",".join(f"{one.name}://{host(cluster)}:{ports[one.name]}" for one in own)
    found: dict[str, Any] = {"listeners": addresses, "advertised.listeners": addresses}
    if len(own) == 1:
        found["security.inter.broker.protocol"] = own[0].protocol
    else:
        found["listener.security.protocol.map"] = ",".join(f"{one.name}:{one.protocol}" for one in own)
        found["inter.broker.listener.name"] = next(one.name for one in own if one.role == "brokers")
    if control := [one.name for one in own if one.role == "control"]:
        found["control.plane.listener.name"] = control[0]
    return found | _tls(cluster, id_, stores) | _sasl(cluster, stores) | _rights(cluster) | _zookeeper(cluster, stores)


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


def _sasl(cluster: Cluster, stores: Stores) -> dict[str, Any]:
    secured = [one for one in listeners(cluster) if one.has_sasl]
    if not secured:
        return {}
    found: dict[str, Any] = _of_mechanism(cluster, stores, [one.name for one in secured])
    if cluster.has_sasl:
        found["sasl.mechanism.inter.broker.protocol"] = cluster.mechanism
    if cluster.shape == axes.BITNAMI:
        return {**found, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}
    if cluster.shape in _IN_JAAS_FILE:
        return {**found, "sasl.enabled.mechanisms": cluster.mechanism}
    for one in secured:
        prefix = f"listener.name.{one.name.lower()}."
        found[f"{prefix}sasl.enabled.mechanisms"] = cluster.mechanism
        # At a listener for clients only, nobody logs in as the broker.
        module = _module(cluster, stores, cluster.mechanism, cluster.has_sasl)
        found[f"{prefix}{cluster.mechanism.lower()}.sasl.jaas.config"] = module
    if cluster.shape == axes.APACHE:
        found["sasl.enabled.mechanisms"] = cluster.mechanism
    return found


def _of_mechanism(cluster: Cluster, stores: Stores, names: Sequence[str]) -> dict[str, Any]:
    """What brokers need besides, for their listeners with SASL: the name of the service, or who verifies tokens."""
    if cluster.mechanism == axes.GSSAPI:
        # Otherwise brokers of one process after the other would have to wait for a new ticket.
        return {"sasl.kerberos.service.name": SERVICE, "sasl.kerberos.min.time.before.relogin": 1000}
    if cluster.mechanism != axes.OAUTHBEARER:
        return {}
    found: dict[str, Any] = {"sasl.oauthbearer.token.endpoint.url": stores.token(BROKER).as_uri(), **of_tokens(stores)}
    classes = _oauth_classes(cluster.release)
    for name in names:
        prefix = f"listener.name.{name.lower()}.oauthbearer.sasl."
        found[f"{prefix}server.callback.handler.class"] = f"{classes}OAuthBearerValidatorCallbackHandler"
        found[f"{prefix}login.callback.handler.class"] = f"{classes}OAuthBearerLoginCallbackHandler"
    return found


def of_tokens(stores: Stores) -> dict[str, str]:
    """By which tokens are verified."""
    return {
        "sasl.oauthbearer.jwks.endpoint.url": stores.keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }


def _oauth_classes(release: str) -> str:
    """The package of the classes of KIP-768, which moved in 3.4."""
    return f"{_OAUTH}secured." if release < "3.4" else _OAUTH


def _module(cluster: Cluster, stores: Stores, mechanism: str, with_own: bool) -> str:
    if mechanism == axes.GSSAPI:
        return kerberos_module(stores.keytab(SERVICE), f"{SERVICE}/{HOST}")
    if mechanism == axes.OAUTHBEARER:
        return f"{_OAUTH}OAuthBearerLoginModule required;"
    is_plain = mechanism == "PLAIN"
    name = f"{_MODULES}{'plain.PlainLoginModule' if is_plain else 'scram.ScramLoginModule'}"
    own = f' username="{BROKER}" password="{PASSWORDS[BROKER]}"' if with_own else ""
    users = "".join(f' user_{user}="{password}"' for user, password in PASSWORDS.items()) if is_plain else ""
    return f"{name} required{own}{users};"


def kerberos_module(keytab: Path, principal: str) -> str:
    options = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}@{REALM}"'
    return f"{_KERBEROS} required {options};"


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


def jaas_of_brokers(cluster: Cluster, stores: Stores) -> str:
    """Of -Djava.security.auth.login.config; empty if there is none."""
    kafka = ""
    if cluster.has_sasl and cluster.shape in {*_IN_JAAS_FILE, axes.BITNAMI}:
        mechanisms = ("PLAIN", "SCRAM-SHA-256") if cluster.shape == axes.BITNAMI else (cluster.mechanism,)
        modules = (_module(cluster, stores, name, with_own=True) for name in mechanisms)
        kafka = f"KafkaServer {{ {' '.join(modules)} }};\n"
    return kafka + _client_section(cluster, stores)


def jaas_of_controllers(cluster: Cluster, stores: Stores) -> str:
    """What the operator of the brokers gives klamm: their own sections; of a setting, its login module."""
    found = jaas_of_brokers(cluster, stores)
    if "KafkaServer" in found or cluster.mechanism == axes.NO_MECHANISM:
        return found
    return f"KafkaServer {{ {_module(cluster, stores, cluster.mechanism, cluster.has_sasl)} }};\n{found}"


def _client_section(cluster: Cluster, stores: Stores) -> str:
    if cluster.zookeeper_kerberos:
        return f"Client {{ {kerberos_module(stores.keytab(SERVICE), f'{SERVICE}/{HOST}')} }};\n"
    if not cluster.zookeeper_sasl:
        return ""
    own = f'username="{ZOOKEEPER_USER}" password="{ZOOKEEPER_PASSWORD}"'
    return f"Client {{ org.apache.zookeeper.server.auth.DigestLoginModule required {own}; }};\n"


def jaas_of_zookeeper(cluster: Cluster, stores: Stores) -> str:
    if cluster.zookeeper_kerberos:
        return f"Server {{ {kerberos_module(stores.keytab('zookeeper'), f'zookeeper/{HOST}')} }};\n"
    user = f'user_{ZOOKEEPER_USER}="{ZOOKEEPER_PASSWORD}"'
    return f"Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required {user}; }};\n"


def command_config(cluster: Cluster, stores: Stores, jaas: Path) -> dict[str, str]:
    """Of `klamm adopt`: the identity of the brokers, at their own listener and in ZooKeeper."""
    own = next(one for one in listeners(cluster) if one.role == "brokers")
    found = {"security.protocol": own.protocol}
    if any(one.has_tls for one in listeners(cluster)):
        found |= stores.settings("broker-3", "PEM")
    if own.has_sasl:
        found |= _login(cluster, stores, BROKER)
    if cluster.zookeeper_tls:
        found |= {"zookeeper.ssl.client.enable": "true"}
        given = stores.settings("zookeeper-client", "PEM", "zookeeper.ssl.")
        found |= {key: value for key, value in given.items() if key.endswith("location")}
    if cluster.zookeeper_sasl or cluster.zookeeper_kerberos:
        found["java.security.auth.login.config"] = str(jaas)
    return found | ({"zookeeper.set.acl": "true"} if cluster.owners else {})


def tool_config(cluster: Cluster, stores: Stores, user: str) -> dict[str, str]:
    """Of Kafka's own tools, at the listener of clients."""
    last = listeners(cluster)[-1]
    found = {"security.protocol": last.protocol}
    if last.has_tls:
        found |= stores.settings(user if last.client_auth == "required" else None, "PKCS12")
    return found | (_login(cluster, stores, user) if last.has_sasl else {})


def _login(cluster: Cluster, stores: Stores, user: str) -> dict[str, str]:
    found = {"sasl.mechanism": cluster.mechanism}
    if cluster.mechanism == axes.GSSAPI:
        name, principal = (SERVICE, f"{SERVICE}/{HOST}") if user == BROKER else (user, user)
        login = kerberos_module(stores.keytab(name), principal)
        return {**found, "sasl.jaas.config": login, "sasl.kerberos.service.name": SERVICE}
    if cluster.mechanism == axes.OAUTHBEARER:
        return {
            **found,
            "sasl.jaas.config": f"{_OAUTH}OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": f"{_oauth_classes(cluster.release)}OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": stores.token(user).as_uri(),
        }
    kind = "plain.PlainLoginModule" if cluster.mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'{_MODULES}{kind} required username="{user}" password="{PASSWORDS[user]}";'
    return {**found, "sasl.jaas.config": login}


def write_properties(path: Path, given: Mapping[str, Any]) -> Path:
    """For its owner only: it may have a password."""
    write_secret(path, "".join(f"{key}={value}\n" for key, value in given.items()).encode())
    return path
