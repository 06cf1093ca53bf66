"""The settings of a local cluster with brokers of Apache Kafka: which are for klamm's controllers, which for Kafka.

Keys that both know have the same name. What klamm does not know is Kafka's.
"""

from collections.abc import Mapping
from typing import Any, Final

from cluster.config.settings import Settings
from cluster.process.local_cluster import BROKER, LocalClusterState, Member
from cluster.security.acls import ACL_AUTHORIZER
from deploy.local.kafka_jars import protocol_of

_OWN: Final = "klamm."
_INTERNAL_REPLICAS: Final = 3


WITHOUT_PEM: Final = ("2.4.1",)
"""Releases before KIP-651."""


def known_to_klamm(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Take the settings that a controller can have; a wrong key of klamm's stays in, to be refused."""
    known = {field.alias for field in Settings.model_fields.values()}
    return {key: value for key, value in settings.items() if key in known or key.startswith(_OWN)}


def settings_of_controller(state: LocalClusterState, controller: Member) -> dict[str, Any]:
    """Kafka's brokers compete for /controller, and keep it only while no klamm controller is there.

    Brokers before 3.0 send a controlled shutdown to where the controller is registered as a broker. Brokers with racks
    create no topics while anybody in the cluster has none.
    """
    racks = sorted({member.rack for member in state.kafka_brokers if member.rack})
    return {
        "klamm.broker.protocol": "kafka",
        "klamm.takeover": "atomic",
        "klamm.kafka.listeners": f"{'SSL' if state.is_secured else 'PLAINTEXT'}://{controller.kafka_address}",
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


def security_of_broker(keystore: str, truststore: str, super_users: str) -> dict[str, Any]:
    """Make the settings of a secured broker of Kafka: certificates of all, rights, and its ZooKeeper likewise."""
    stores = {
        "keystore.type": "PEM",
        "keystore.location": keystore,
        "truststore.type": "PEM",
        "truststore.location": truststore,
    }
    return {
        "security.inter.broker.protocol": "SSL",
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
