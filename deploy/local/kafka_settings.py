"""The settings of a local cluster with brokers of Apache Kafka: which are for klamm's controllers, which for Kafka.

Keys that both know have the same name. What klamm does not know is Kafka's.
"""

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from cluster.config.sasl_keys import SASL_OF_ONE_LISTENER
from cluster.config.settings import Settings
from cluster.config.tls_keys import OF_ONE_LISTENER
from cluster.process.local_cluster import BROKER, LocalClusterState, Member
from cluster.security.acls import ACL_AUTHORIZER
from deploy.local.kafka_jars import protocol_of

_OWN: Final = "klamm."
_INTERNAL_REPLICAS: Final = 3


WITHOUT_PEM: Final = ("2.4.1",)
"""Releases before KIP-651."""


SECURED_LISTENER: Final = "SSL"
_USERS_LISTENER: Final = "SASL_SSL"
_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_ENABLED: Final = "sasl.enabled.mechanisms"


def known_to_klamm(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Take the settings that a controller can have; a wrong key of klamm's stays in, to be refused."""
    known = {field.alias for field in Settings.model_fields.values()}

    def is_known(key: str) -> bool:
        of_listener = OF_ONE_LISTENER.fullmatch(key) or SASL_OF_ONE_LISTENER.fullmatch(key)
        return key in known or key.startswith(_OWN) or of_listener is not None

    return {key: value for key, value in settings.items() if is_known(key)}


def settings_of_controller(state: LocalClusterState, controller: Member) -> dict[str, Any]:
    """Kafka's brokers compete for /controller, and keep it only while no klamm controller is there.

    Brokers before 3.0 send a controlled shutdown to where the controller is registered as a broker. Brokers with racks
    create no topics while anybody in the cluster has none.
    """
    racks = sorted({member.rack for member in state.kafka_brokers if member.rack})
    listeners = [f"{SECURED_LISTENER if state.is_secured else 'PLAINTEXT'}://{controller.kafka_address}"]
    listeners += [f"{_USERS_LISTENER}://{controller.sasl_address}"] if controller.sasl_port else []
    return {
        "klamm.broker.protocol": "kafka",
        "klamm.takeover": "atomic",
        "klamm.kafka.listeners": ",".join(listeners),
        **({_ENABLED: ",".join(_MECHANISMS)} if controller.sasl_port else {}),
        "inter.broker.protocol.version": protocol_of(state.kafka),
        **({"klamm.kafka.register.as.broker": True} if int(state.kafka.partition(".")[0]) < 3 else {}),
        **({"klamm.kafka.rack": racks[0]} if racks else {}),
        **known_to_klamm(state.settings),
    }


def settings_of_broker(state: LocalClusterState) -> dict[str, Any]:
    """Internal topics have as many replicas as there are brokers, up to Kafka's default."""
    replicas = min(_INTERNAL_REPLICAS, sum(member.role == BROKER for member in state.members))
    return {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        **{key: value for key, value in state.settings.items() if not key.startswith(_OWN)},
    }


def listeners_of_broker(broker: Member) -> dict[str, Any]:
    """Make the listeners of a secured broker: for certificates, between brokers too, and for users with passwords."""
    of_certificates = f"{SECURED_LISTENER}://{broker.address}"
    if not broker.sasl_port:
        return {"listeners": of_certificates, "security.inter.broker.protocol": "SSL"}
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    return {
        "listeners": f"{of_certificates},{_USERS_LISTENER}://{broker.sasl_address}",
        "inter.broker.listener.name": SECURED_LISTENER,
        _ENABLED: ",".join(_MECHANISMS),
        **{f"listener.name.{_USERS_LISTENER.lower()}.{m.lower()}.sasl.jaas.config": module for m in _MECHANISMS},
    }


def owner_properties(keystore: Path, authority: Path) -> dict[str, object]:
    """Make the file of the identity of brokers and controllers, which owns the znodes."""
    stores = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": keystore.resolve(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.resolve(),
    }
    return {
        "security.protocol": "SSL",
        **stores,
        **{f"zookeeper.{key}": value for key, value in stores.items()},
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.set.acl": "true",
    }


def user_properties(user: str, authority: Path) -> dict[str, object]:
    """Make the file of a user, with a password that nobody knows yet."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "security.protocol": _USERS_LISTENER,
        "sasl.mechanism": _MECHANISMS[-1],
        "sasl.jaas.config": f'{module} required username="{user}" password="{secrets.token_urlsafe(24)}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.resolve(),
    }


def security_of_broker(keystore: str, truststore: str, super_users: str) -> dict[str, Any]:
    """Make the settings of a secured broker of Kafka: certificates of all, rights, and its ZooKeeper likewise."""
    stores = {
        "keystore.type": "PEM",
        "keystore.location": keystore,
        "truststore.type": "PEM",
        "truststore.location": truststore,
    }
    return {
        "ssl.client.auth": "required",
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": super_users,
        "zookeeper.ssl.client.enable": True,
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.set.acl": True,
        # Kafka's own is TLSv1.2, which the ZooKeeper that 'klamm up' starts does not speak.
        "zookeeper.ssl.protocol": "TLSv1.3",
        **{f"{prefix}ssl.{key}": value for prefix in ("", "zookeeper.") for key, value in stores.items()},
    }
