"""Builds a broker agent process: adapters are created, started and stopped in the order of R1.10 and R12.3."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from importlib.metadata import version
from random import SystemRandom
from time import perf_counter
from typing import Final

import structlog

from broker_agent.adapters.grpc_cluster_client import GrpcClusterClient
from broker_agent.adapters.grpc_server import serve_broker_agent
from broker_agent.adapters.thread_workers import ThreadWorkers
from broker_agent.agent import RECOVERY, STARTING, Agent, AgentDependencies
from broker_agent.log.checkpoints import MetaProperties
from broker_agent.log.file_disk import FileDisk
from broker_agent.log.log_metrics import LogMetrics
from broker_agent.log.opening import LoadOptions, open_log_directories
from broker_agent.log.ownership import read_stored_broker_id
from broker_agent.log.segments import LogDependencies
from broker_agent.node import AgentNode
from broker_agent.registration.controller_finder import check_controller_has_control_listener
from broker_agent.registration.identity import agree_on_cluster_id, choose_broker_id, create_persistent_paths
from broker_agent.registration.in_sync_partitions import read_in_sync_partitions
from broker_agent.requests.topic_configs import TopicConfigs, default_log_config
from cluster.aio.clock import SystemClock
from cluster.aio.tasks import TaskSet
from cluster.config.config import NodeConfig
from cluster.config.listener_addresses import METRICS_LISTENER
from cluster.config.listener_sasl import require_certificates_of_followers
from cluster.config.scram_users import ScramUsers
from cluster.config.settings import Settings
from cluster.metrics.health import Health, HealthCheck
from cluster.metrics.process import DiskSpaceMonitor, EventLoopMonitor
from cluster.metrics.registry import Metrics
from cluster.metrics.server import serve_metrics
from cluster.model.broker import UNKNOWN_BROKER_EPOCH, Broker, BrokerId, TopicId
from cluster.model.errors import MalformedZnodeError, StartupError, ZooKeeperError
from cluster.model.partition import TopicPartition
from cluster.process.authorization import load_access_rules
from cluster.process.descriptors import plan_descriptors, raise_limit, warn_if_low
from cluster.process.diagnostics import configure_diagnostics, set_log_level
from cluster.process.log_level import LogLevel
from cluster.process.service_manager import ServiceManager
from cluster.process.tls import ProcessTls
from cluster.process.zookeeper import why_no_session, zookeeper_client
from cluster.rpc.admission import Admission
from cluster.rpc.admission_limits import AdmissionLimits
from cluster.rpc.external_listener import ExternalListener
from cluster.rpc.process_servers import (
    ProcessServers,
    channel_security,
    process_authentication,
    scram_users,
    serve_listeners,
)
from cluster.rpc.rights import guarded
from cluster.rpc.serving import Listener, RpcServer
from cluster.zookeeper.access_rules import AccessRules
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.port import SessionEvent, WatchEvent
from cluster.zookeeper.registrations import registered_endpoints
from state_log.apis import state_log_apis
from state_log.reader import newest_roles
from state_log.writer import boot_id, open_state_change_log

_FSYNCS_PER_IO_THREAD: Final = 4
"""File systems commit concurrent fsyncs together: 32 complete thousands of role changes twice as fast as 8."""
_VALIDATION_THREADS: Final = 4
"""Only decompressing runs beside other threads; reading records holds the interpreter's lock."""
_Serving = Callable[[Callable[[Listener], Awaitable[RpcServer]]], Awaitable[ProcessServers]]
"""Starts the servers of all listeners."""
_log = structlog.stdlib.get_logger()


async def run(config: NodeConfig, stop: asyncio.Event) -> None:
    """Run one agent until `stop` is set, then shut it down gracefully. Raises StartupError, ConfigError."""
    settings, clock, random, metrics = config.settings, SystemClock(), SystemRandom(), Metrics()
    events: asyncio.Queue[WatchEvent | SessionEvent] = asyncio.Queue()
    failed_directories: asyncio.Queue[str] = asyncio.Queue()
    broker_state = metrics.gauge("kafka.server", "KafkaServer", "BrokerState")
    health, tls = _AgentHealth(), ProcessTls(config, metrics)
    users, serving = _prepare_listeners(config, metrics, tls)
    disk, connections = _open_disk(settings)
    async with AsyncExitStack() as cleanup:
        broker_state.set(STARTING)
        zookeeper = await _connect(config, metrics, tls, events)
        cleanup.push_async_callback(zookeeper.close)
        cleanup.callback(disk.close)
        cluster_id, broker_id = await _establish_identity(config, zookeeper, disk, random)
        configure_diagnostics("broker", broker_id, level=settings.log_level)
        sink = open_state_change_log(settings, config.data, f"broker-{broker_id}", clock, metrics)
        cleanup.callback(sink.close)
        configs = TopicConfigs(zookeeper, default_log_config(settings), settings.request_timeout_ms)
        cleanup.callback(_serve_metrics(config, metrics, health, tls))
        broker_state.set(RECOVERY)
        logs = await open_log_directories(
            LogDependencies(disk, clock, random, LogMetrics(metrics, per_partition=settings.klamm_metrics_partitions)),
            config.data,
            MetaProperties(broker_id, cluster_id),
            lambda directory, _error: failed_directories.put_nowait(directory),
            options=await _load_options(configs, settings, partial(read_in_sync_partitions, zookeeper, broker_id)),
        )
        cleanup.callback((workers := ThreadWorkers(_VALIDATION_THREADS)).close)
        rules = await load_access_rules(config, metrics, tls.zookeeper, cleanup)
        client = GrpcClusterClient(settings, channel_security(tls))
        cleanup.push_async_callback(client.close)
        dependencies = AgentDependencies(
            settings=settings,
            cluster_id=cluster_id,
            zookeeper=zookeeper,
            zookeeper_events=events,
            logs=logs,
            failed_directories=failed_directories,
            client=client,
            workers=workers,
            clock=clock,
            sink=sink,
            apis=state_log_apis(sink),
            metrics=metrics,
            configs=configs,
            request_stop=stop.set,
            recorded_roles=partial(asyncio.to_thread, newest_roles, sink.directory),
            log_level=LogLevel(settings.log_level, set_log_level),
            stopwatch=perf_counter,
            random=random,
            findings_of_process=partial(tls.findings, f"broker {broker_id}", broker_id),
            users=users,
        )
        async with TaskSet() as tasks:
            tasks.start(sink.run(), name="state-change-log")
            _start_monitors(tasks, config, metrics, tls)
            own = Broker(broker_id, (), config.rack, klamm_version=version("klamm"))
            agent = health.agent = Agent(own, dependencies, tasks)
            await _serve(config, agent, dependencies, connections, serving=serving, rules=rules, stop=stop, tasks=tasks)


def _start_monitors(tasks: TaskSet, config: NodeConfig, metrics: Metrics, tls: ProcessTls) -> None:
    tasks.start(tls.run(), name="TLS files")
    tasks.start(EventLoopMonitor(metrics).run(), name="event loop monitor")
    tasks.start(DiskSpaceMonitor(metrics, config.data).run(), name="disk space monitor")


def _prepare_listeners(config: NodeConfig, metrics: Metrics, tls: ProcessTls) -> tuple[ScramUsers, _Serving]:
    """The users of the listeners, and what starts their servers. Raises ConfigError for files that cannot be used."""
    require_certificates_of_followers(config.settings)
    users = scram_users(config)
    authentication = process_authentication(config, users, metrics)
    return users, partial(serve_listeners, config, tls=tls, authentication=authentication)


def _open_disk(settings: Settings) -> tuple[FileDisk, int]:
    """The disk, with its part of the descriptors of this process, and how many are left for connections.

    Raises StartupError if they are too few.
    """
    threads = _FSYNCS_PER_IO_THREAD * settings.num_io_threads
    plan = plan_descriptors(raise_limit(), disk_threads=threads, log_files=settings.klamm_log_open_files_max)
    warn_if_low(plan)
    return FileDisk(threads, plan.log_files), plan.connections


def _serve_metrics(config: NodeConfig, metrics: Metrics, health: "_AgentHealth", tls: ProcessTls) -> Callable[[], None]:
    """Start the metrics port, if there is one: before the logs are loaded, so that a long recovery is visible
    (R1.10 e, f). Returns what stops it.
    """
    if config.metrics_listen is None:
        return lambda: None
    of_port = tls.of_listener(METRICS_LISTENER)
    _, close = serve_metrics(metrics, config.metrics_listen, HealthCheck(health.describe), tls=of_port)
    return close


class _AgentHealth:
    """The health of the agent, or that there is none yet."""

    def __init__(self) -> None:
        self.agent: Agent | None = None

    def describe(self) -> Health:
        return Health("starting: loads its logs", is_healthy=False) if self.agent is None else self.agent.health()


async def _serve(
    config: NodeConfig,
    agent: Agent,
    dependencies: AgentDependencies,
    connections: int,
    *,
    serving: _Serving,
    rules: AccessRules | None,
    stop: asyncio.Event,
    tasks: TaskSet,
) -> None:
    """Bind all addresses, run, shut down. A failed start still closes the logs cleanly.

    `connections`: descriptors for them. `serving` starts the servers of all listeners.
    """
    manager = ServiceManager()
    tasks.start(manager.run(), name="watchdog")
    node, metrics = AgentNode(agent, dependencies), dependencies.metrics
    has_external = config.external_listen is not None
    limits = AdmissionLimits.from_settings(config.settings, connections, has_external=has_external)
    admission = Admission(limits, metrics, node.recognize)
    addresses_of = partial(registered_endpoints, dependencies.zookeeper)
    handler = guarded(node, rules, metrics)
    external = ExternalListener(handler, config.settings.listener_names, addresses_of)

    async def serve(listener: Listener) -> RpcServer:
        return await serve_broker_agent(listener, external if listener.is_external else handler, metrics, admission)

    try:
        servers = await serving(serve)
        async with AsyncExitStack() as cleanup:
            # Also when a task fails: a server that outlives the event loop complains of that, not of the failure.
            cleanup.push_async_callback(servers.stop, 0)
            await check_controller_has_control_listener(dependencies.zookeeper)
            await agent.start(servers.endpoints)
            tasks.start(node.producer_ids.keep_reserve(), name="producer ids")
            addresses = {endpoint.listener: endpoint.address for endpoint in servers.endpoints}
            _log.info("Broker agent started", broker=agent.broker_id, **addresses, listening=servers.client.address)
            manager.ready(f"broker {agent.broker_id} is registered")
            await stop.wait()
            manager.stopping()
            _log.info("Broker agent is shutting down", broker=agent.broker_id)
            await agent.leave()
            await servers.stop()
            await agent.stop()
    except StartupError:
        await dependencies.logs.close(UNKNOWN_BROKER_EPOCH)
        raise
    except ZooKeeperError as error:
        await dependencies.logs.close(UNKNOWN_BROKER_EPOCH)
        raise StartupError(str(error)) from error


async def _connect(
    config: NodeConfig, metrics: Metrics, tls: ProcessTls, events: "asyncio.Queue[WatchEvent | SessionEvent]"
) -> KazooZooKeeper:
    zookeeper = zookeeper_client(config, metrics, tls.zookeeper)
    zookeeper.listen(events.put_nowait)
    try:
        await zookeeper.start_session()
    except ZooKeeperError as error:
        raise StartupError(why_no_session(config, error)) from error
    return zookeeper


async def _establish_identity(
    config: NodeConfig, zookeeper: KazooZooKeeper, disk: FileDisk, random: SystemRandom
) -> tuple[str, BrokerId]:
    """Resolve cluster id and broker id (R1.10 a to d). Raises StartupError."""
    try:
        await create_persistent_paths(zookeeper)
        cluster_id = await agree_on_cluster_id(zookeeper, random)
        stored = await read_stored_broker_id(disk, config.data)
        broker_id = await choose_broker_id(
            zookeeper,
            configured=config.id,
            stored=stored,
            generation_enabled=config.settings.broker_id_generation_enable,
            reserved_max=config.settings.reserved_broker_max_id,
        )
    except (ZooKeeperError, MalformedZnodeError) as error:
        raise StartupError(f"cannot get the cluster id and the broker id from ZooKeeper: {error}") from error
    return cluster_id, broker_id


async def _load_options(
    configs: TopicConfigs,
    settings: Settings,
    read_in_sync: Callable[[], Awaitable[Mapping[TopicPartition, TopicId | None]]],
) -> LoadOptions:
    """Read the topic configs first: retention must never apply the defaults to a topic with overrides."""
    try:
        topic_configs = await configs.read_all()
    except ZooKeeperError as error:
        raise StartupError(f"topic configurations cannot be read: {error}") from error
    return LoadOptions(
        default_config=configs.defaults,
        topic_configs=topic_configs,
        recovery_threads=settings.num_recovery_threads_per_data_dir,
        boot_id=boot_id(),
        min_free_bytes=settings.klamm_log_dir_min_free_bytes,
        producer_expiration_ms=settings.producer_id_expiration_ms,
        read_in_sync=read_in_sync,
    )
