"""What a controller process registers of itself, for `klamm adopt` to compare with the brokers."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Final

from cluster.config.config import NodeConfig
from cluster.config.settings import Settings
from cluster.model.broker import Endpoint
from cluster.rpc.process_servers import has_open_listener
from cluster.znodes.candidates import CandidateListener, CandidateProfile

DECIDING_SETTINGS: Final = (
    "auto.leader.rebalance.enable",
    "default.replication.factor",
    "delete.topic.enable",
    "leader.imbalance.check.interval.seconds",
    "leader.imbalance.per.broker.percentage",
    "min.insync.replicas",
    "num.partitions",
    "unclean.leader.election.enable",
    "zookeeper.set.acl",
)
"""Kafka's settings by which an active controller decides: its own, whatever those of the brokers are."""


def candidate_profile(config: NodeConfig, advertised: Sequence[Endpoint]) -> CandidateProfile:
    """Make the profile of a candidate. `advertised`: its Kafka listeners, as brokers and clients are told."""
    settings = config.settings
    names = settings.listener_names
    return CandidateProfile(
        klamm=version("klamm"),
        broker_protocol=settings.klamm_broker_protocol,
        protocol_version=str(settings.inter_broker_protocol_version),
        inter_broker_listener=names.client,
        control_plane_listener=names.control,
        listeners=tuple(_listener(endpoint, settings) for endpoint in advertised),
        has_certificate=settings.ssl_keystore_location is not None or settings.ssl_keystore_key is not None,
        authorises=bool(settings.authorizer_class_name),
        refuses_clients=settings.klamm_kafka_controller_only,
        allows_unlisted=bool(settings.authorizer_class_name) and settings.allow_everyone_if_no_acl_found,
        is_grpc_local=not has_open_listener(config),
        registers_as_broker=settings.klamm_kafka_register_as_broker,
        rack=settings.klamm_kafka_rack,
        settings=dict(_deciding(settings)),
    )


def _listener(endpoint: Endpoint, settings: Settings) -> CandidateListener:
    # Of users with SASL only the setting of the listener itself demands a certificate (`kafka_tls`).
    demands = endpoint.has_tls and (not endpoint.has_sasl or settings.sets_own_client_auth(endpoint.listener))
    client_auth = settings.client_auth_of(endpoint.listener) if demands else "none"
    return CandidateListener(
        endpoint.listener,
        endpoint.security_protocol,
        endpoint.host,
        endpoint.port,
        client_auth,
        settings.mapping_rules_of(endpoint.listener),
        tuple(sorted(settings.mechanisms_of(endpoint.listener))) if endpoint.has_sasl else (),
        settings.kerberos_rules_of(endpoint.listener).text,
    )


def _deciding(settings: Settings) -> Mapping[str, str]:
    """Write the settings that matter as Kafka does: `true`, not `True`."""
    values = {key: getattr(settings, key.replace(".", "_")) for key in DECIDING_SETTINGS}
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}
