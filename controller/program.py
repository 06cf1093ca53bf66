"""Builds a controller process: creates every adapter and connects them."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from random import Random

import structlog

from cluster.aio.clock import SystemClock
from cluster.aio.tasks import TaskSet
from cluster.config.config import NodeConfig
from cluster.config.listener_addresses import METRICS_LISTENER
from cluster.metrics.health import Health, HealthCheck
from cluster.metrics.process import DiskSpaceMonitor, EventLoopMonitor
from cluster.metrics.registry import Metrics
from cluster.metrics.server import serve_metrics
from cluster.model.broker import ControllerId, Endpoint
from cluster.model.errors import (
    ConfigError,
    StartupError,
    ZooKeeperAccessError,
    ZooKeeperAuthenticationError,
    ZooKeeperUnreachableError,
)
from cluster.process.authorization import load_access_rules, rules_for_super_users
from cluster.process.descriptors import DescriptorPlan, plan_descriptors, raise_limit, warn_if_low
from cluster.process.diagnostics import configure_diagnostics, set_log_level
from cluster.process.log_level import LogLevel
from cluster.process.service_manager import ServiceManager
from cluster.process.tls import ProcessTls
from cluster.process.zookeeper import why_no_session, zookeeper_client
from cluster.requests.context import RequestContext, RequestHandler
from cluster.rpc.admission import Admission
from cluster.rpc.admission_limits import AdmissionLimits
from cluster.rpc.external_listener import ExternalListener
from cluster.rpc.process_servers import process_authentication, scram_users, serve_listeners
from cluster.rpc.rights import guarded
from cluster.rpc.serving import Listener, RpcServer
from cluster.zookeeper.registrations import registered_endpoints
from controller.adapters.grpc_server import serve_controller
from controller.broker_clients import open_broker_client
from controller.candidate_profile import candidate_profile
from controller.config import ControllerConfig
from controller.controller import Controller
from controller.freed_memory import keep_large_blocks_apart
from controller.node import ControllerNode
from controller.opened_clients import OpenedClient, ProcessSecurity
from state_log.apis import state_log_apis
from state_log.writer import open_state_change_log

_log = structlog.stdlib.get_logger()


async def run(config: NodeConfig, stop: asyncio.Event) -> None:
    """Run one controller until `stop` is set.

    Raises StartupError if an address cannot be bound or ZooKeeper cannot be reached, ConfigError if there is no id.
    """
    if config.id < 0:
        raise ConfigError([f"id: {config.id}: a controller needs an id of its own"])
    keep_large_blocks_apart()
    configure_diagnostics("controller", config.id, level=config.settings.log_level)
    descriptors = plan_descriptors(raise_limit())
    warn_if_low(descriptors)
    metrics, clock = Metrics(), SystemClock()
    state_changes = open_state_change_log(config.settings, config.data, f"controller-{config.id}", clock, metrics)
    tls, users = ProcessTls(config, metrics), scram_users(config)
    authentication = process_authentication(config, users, metrics)
    zookeeper = zookeeper_client(config, metrics, tls.zookeeper)
    entrance = _Entrance()
    external = ExternalListener(entrance, config.settings.listener_names, partial(registered_endpoints, zookeeper))
    admission = Admission(_limits(config, descriptors), metrics)

    async def serve(listener: Listener) -> RpcServer:
        return await serve_controller(listener, external if listener.is_external else entrance, metrics, admission)

    async with AsyncExitStack() as cleanup:
        cleanup.callback(state_changes.close)
        rules = rules_for_super_users(config) or await load_access_rules(config, metrics, tls.zookeeper, cleanup)
        servers = await serve_listeners(config, serve, tls, authentication)
        cleanup.push_async_callback(servers.stop)
        security = ProcessSecurity(tls, authentication, rules)
        opened = await open_broker_client(
            config, zookeeper, entrance, admission, security=security, metrics=metrics, cleanup=cleanup
        )
        controller = Controller(
            config=_controller_config(config, servers.endpoints, opened),
            zookeeper=zookeeper,
            broker_client=opened.client,
            sink=state_changes,
            registry=metrics,
            clock=clock,
            # Not the SystemRandom, whose state cannot be copied: a dry run draws what the real one would.
            random=Random(),  # noqa: S311 - no secret is drawn.
            log_level=LogLevel(config.settings.log_level, set_log_level),
            users=users,
        )
        cleanup.callback(_serve_metrics(config, metrics, controller, tls))
        findings = partial(tls.findings, f"controller {config.id}")
        node = ControllerNode(controller, zookeeper, state_log_apis(state_changes), rules, findings)
        entrance.open(guarded(node, rules, metrics, node.topic_of))
        addresses = {endpoint.listener: endpoint.address for endpoint in servers.endpoints}
        _log.info("Controller started", **addresses, zookeeper=config.zookeeper)
        try:
            async with TaskSet() as tasks:
                tasks.start(state_changes.run(), name="state-change log")
                tasks.start(_notify(controller, stop), name="service manager")
                tasks.start(tls.run(), name="TLS files")
                tasks.start(EventLoopMonitor(metrics).run(), name="event loop monitor")
                tasks.start(DiskSpaceMonitor(metrics, config.data).run(), name="disk space monitor")
                await controller.run(stop)
        except* (ZooKeeperUnreachableError, ZooKeeperAuthenticationError, ZooKeeperAccessError) as group:
            raise StartupError(why_no_session(config, group.exceptions[0])) from group


def _serve_metrics(
    config: NodeConfig, metrics: Metrics, controller: Controller, tls: ProcessTls
) -> Callable[[], object]:
    """Start the metrics endpoint, if there is to be one; the result closes it."""
    if config.metrics_listen is None:
        return lambda: None
    health = HealthCheck(partial(health_of, controller))
    address, close = serve_metrics(metrics, config.metrics_listen, health, tls=tls.of_listener(METRICS_LISTENER))
    _log.info("Metrics endpoint started", address=address)
    return close


def _limits(config: NodeConfig, descriptors: DescriptorPlan) -> AdmissionLimits:
    has_external, has_kafka = config.external_listen is not None, bool(config.kafka_listeners)
    return AdmissionLimits.from_settings(
        config.settings, descriptors.connections, has_external=has_external, has_kafka=has_kafka
    )


def _controller_config(config: NodeConfig, endpoints: tuple[Endpoint, ...], opened: OpenedClient) -> ControllerConfig:
    profile = candidate_profile(config, opened.advertised)
    return ControllerConfig(ControllerId(config.id), endpoints, config.settings, opened.as_broker, profile)


async def _notify(controller: Controller, stop: asyncio.Event) -> None:
    """Tell the service manager when the candidate takes part in elections, and when it stops."""
    manager = ServiceManager()
    async with TaskSet() as tasks:
        tasks.start(manager.run(), name="watchdog")
        await controller.registered.wait()
        manager.ready("registered, takes part in elections")
        await stop.wait()
        manager.stopping()


class _Entrance:
    """Placeholder for the node during startup: the port must be bound before the address can be registered."""

    def __init__(self) -> None:
        self._node: asyncio.Future[RequestHandler] = asyncio.get_running_loop().create_future()

    def open(self, node: RequestHandler) -> None:
        self._node.set_result(node)

    async def handle(self, context: RequestContext, request: object) -> object:
        node = await asyncio.shield(self._node)
        return await node.handle(context, request)


def health_of(controller: Controller) -> Health:
    """The health for supervisors and load balancers: whether the candidate is active or could be elected."""
    if not controller.is_connected:
        return Health("no connection to ZooKeeper", is_healthy=False)
    if not controller.registered.is_set():
        return Health("not registered in ZooKeeper", is_healthy=False)
    if controller.is_active:
        return Health("active", is_healthy=True)
    return Health(f"standby that {controller.fitness.why}" if controller.fitness.why else "standby", is_healthy=True)
