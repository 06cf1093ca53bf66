"""Opens the client for brokers of Apache Kafka, and the listeners where they and their clients find the controller."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from random import SystemRandom

import structlog
from msgspec.structs import replace

from cluster.aio.tasks import TaskSet
from cluster.config.broker_logins import BrokerLogins
from cluster.config.config import NodeConfig
from cluster.config.kafka_sasl import kafka_sasl
from cluster.config.kafka_tls import KafkaTls
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.metrics.registry import Metrics
from cluster.metrics.requests import RequestMetrics
from cluster.model.broker import Broker, BrokerId, ControllerId
from cluster.requests.context import RequestHandler
from cluster.rpc.admission import Admission
from cluster.rpc.authentication import Authentication
from cluster.zookeeper.port import ZooKeeper
from cluster.zookeeper.registrations import (
    controller_addresses,
    kafka_controllers,
    registered_brokers,
    registered_controllers,
)
from controller.adapters.kafka.acl_apis import ACL_APIS
from controller.adapters.kafka.authentication import SaslListener, announcing
from controller.adapters.kafka.authorizers import Authorizers
from controller.adapters.kafka.broker_client import KafkaBrokerClient
from controller.adapters.kafka.broker_principals import BrokerPrincipals
from controller.adapters.kafka.broker_versions import BrokerVersions
from controller.adapters.kafka.client_certificates import ClientCertificates
from controller.adapters.kafka.config_apis import config_apis
from controller.adapters.kafka.live_brokers import LiveBrokers
from controller.adapters.kafka.local_answers import LocalAnswers
from controller.adapters.kafka.server import serve_kafka
from controller.adapters.kafka.session import OF_ACTIVE_CONTROLLER, KafkaServices, LongRequests
from controller.freed_memory import FreedMemory
from controller.opened_clients import OpenedClient, ProcessSecurity

_log = structlog.stdlib.get_logger()


async def open_kafka_client(
    config: NodeConfig,
    zookeeper: ZooKeeper,
    handler: RequestHandler,
    admission: Admission,
    *,
    security: ProcessSecurity,
    metrics: Metrics,
    cleanup: AsyncExitStack,
) -> OpenedClient:
    """Open the listeners, closed by `cleanup`, and make the client, which tells brokers of them. Raises StartupError if
    an address cannot be bound.
    """
    client_id, rules = f"klamm-{config.id}", security.rules
    of_active = OF_ACTIVE_CONTROLLER if rules is None else (*OF_ACTIVE_CONTROLLER, *ACL_APIS)
    local = LocalAnswers([answered.key for answered in of_active], config.data[0])
    apis = {c.key: c for c in (*of_active, *config_apis(ControllerId(config.id)))}
    tls = security.tls.of_kafka()
    # Filled once the ports are bound: a client may be connected before the last of them is.
    own_addresses: set[str] = set()
    live = _live_brokers(config, zookeeper, client_id, own_addresses, tls)
    threads, memory = LongRequests(), FreedMemory()
    for held in (live, threads, memory):
        cleanup.callback(held.close)
    services = KafkaServices(
        handler,
        admission,
        RequestMetrics(metrics),
        live,
        local,
        apis,
        authorizers := Authorizers(is_authorised=rules is not None),
        ClientCertificates(live, config.settings.listener_names),
        threads,
        memory,
        BrokerPrincipals(config.settings, lambda: tls.to_brokers.own_subject),
        rules,
        config.settings.klamm_kafka_controller_only,
        config.settings.listener_names,
    )
    sasl = _sasl_listeners(config, security.authentication, live, [answered.key for answered in of_active])
    tasks = await cleanup.enter_async_context(TaskSet())
    servers = await serve_kafka(config.kafka_listeners, admission.limits, tasks, services, metrics, tls=tls, sasl=sasl)
    cleanup.push_async_callback(servers.stop)
    own_addresses.update(endpoint.address for endpoint in servers.endpoints)
    controller = servers.controller(config.id, config.settings.klamm_kafka_rack)
    client = KafkaBrokerClient(config.settings, client_id, controller, tls.to_brokers, authorizers)
    cleanup.push_async_callback(client.close)
    _log.info("Kafka listeners started", **{endpoint.listener: endpoint.address for endpoint in servers.endpoints})
    registers = config.settings.klamm_kafka_register_as_broker
    as_broker = replace(controller, klamm_version=version("klamm")) if registers else None
    return OpenedClient(client, as_broker, servers.endpoints)


def _live_brokers(
    config: NodeConfig, zookeeper: ZooKeeper, client_id: str, own_addresses: set[str], tls: KafkaTls
) -> LiveBrokers:
    return LiveBrokers(
        partial(_kafka_brokers, zookeeper),
        SystemRandom(),
        client_id,
        own_addresses,
        tls,
        logins=BrokerLogins(config.settings),
        read_controllers=partial(kafka_controllers, zookeeper),
    )


def _sasl_listeners(
    config: NodeConfig, authentication: Authentication, live: LiveBrokers, own: Sequence[ApiKey]
) -> dict[str, SaslListener]:
    """The Kafka listeners with SASL, by name. `own`: the APIs that the controller answers itself."""
    versions, steps = BrokerVersions(live), authentication.steps
    return {
        name: SaslListener(name, authentication.mechanisms_of(found), steps, announcing(own, versions, name))
        for name, found in kafka_sasl(config.settings, config.kafka_listeners).items()
    }


async def _kafka_brokers(zookeeper: ZooKeeper) -> list[Broker]:
    """List the brokers that are neither controllers, which may be registered as brokers too, nor klamm's agents, nor
    have the address of a controller, which would pass on to others what is passed on to it.
    """
    # They share the number space of broker ids.
    controllers = {BrokerId(controller.id) for controller in await registered_controllers(zookeeper)}
    registered = [found.broker for found in await registered_brokers(zookeeper)]
    addresses = await controller_addresses(zookeeper)
    return [
        broker
        for broker in registered
        if broker.id not in controllers
        and not broker.klamm_version
        and addresses.isdisjoint(endpoint.address for endpoint in broker.endpoints)
    ]
