"""Builds one broker agent from its parts, starts and stops it. Requests enter through `node`.

Everything runs on one event loop. Source: Kafka KafkaServer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, Final

import structlog
from msgspec import Struct

from broker_agent.agent_metrics import AgentMetrics
from broker_agent.compaction.log_cleaner import LogCleaner
from broker_agent.damage.damaged_replicas import DamagedReplicas
from broker_agent.damage.directory_failures import DirectoryFailures
from broker_agent.damage.directory_returns import DirectoryReturns
from broker_agent.damage.full_directories import FullDirectories
from broker_agent.damage.log_scrub import LogScrub
from broker_agent.log.log_directories import LogDirectories
from broker_agent.metadata_cache import MetadataCache
from broker_agent.ports import ClusterClient, Workers
from broker_agent.registration.controlled_shutdown import ControlledShutdownAttempts
from broker_agent.registration.controller_finder import ControllerFinder
from broker_agent.registration.registration import Registration
from broker_agent.registration.session_keeper import BrokerSessionKeeper
from broker_agent.replica_changes import ReplicaOffline
from broker_agent.replication.controller_isr_proposals import ControllerIsrProposals
from broker_agent.replication.isr_proposals import IsrProposals
from broker_agent.replication.log_dir_copies import LogDirCopies
from broker_agent.replication.log_reconciliation import FetchSetup
from broker_agent.replication.replica_fetchers import ReplicaFetchers
from broker_agent.replication.replica_manager import ReplicaManager
from broker_agent.replication.zookeeper_isr_proposals import ZooKeeperIsrProposals
from broker_agent.requests.client_quotas import ClientQuotas
from broker_agent.requests.control import ControlRequests
from broker_agent.requests.dynamic_settings import DynamicBrokerSettings, TopicConfigChanges
from broker_agent.requests.replica_descriptions import RecordedRoles
from broker_agent.requests.role_changes import RoleChanges
from broker_agent.requests.throttle_findings import throttle_findings
from broker_agent.requests.topic_configs import TopicConfigs
from cluster.aio.clock import WallClock
from cluster.aio.handling_time import Stopwatch
from cluster.aio.tasks import TaskSet
from cluster.config.scram_users import ScramUsers
from cluster.config.settings import Settings
from cluster.metrics.health import Health
from cluster.metrics.registry import Metrics
from cluster.model.broker import Broker, Endpoint
from cluster.process.log_level import LogLevel
from cluster.requests.cluster import Finding
from cluster.rpc.apis import DirectApi
from cluster.zookeeper.port import SessionEvent, WatchEvent, ZooKeeper
from state_log.head_publisher import HeadPublisher
from state_log.record import Cause, StateChangeLog
from state_log.witnessed_heads import WitnessedHeads

STARTING: Final = 1
RECOVERY: Final = 2
RUNNING: Final = 3
PENDING_CONTROLLED_SHUTDOWN: Final = 6
SHUTTING_DOWN: Final = 7
NOT_RUNNING: Final = 0
"""Values of the gauge BrokerState (R1.11)."""

_STEP_TIMEOUT_S: Final = 10.0
_FLUSH_CHECK_MS: Final = 1000
"""Interval of the check for due flushes; rolled segments are always due, whatever the settings."""
_log = structlog.stdlib.get_logger()


class AgentDependencies(Struct, frozen=True):
    """The adapters and settings of an agent, and the queues on which adapters report events.

    `zookeeper_events` is filled by the ZooKeeper listener, `failed_directories` by the logs. `request_stop` starts the
    graceful shutdown of the process, as its signals do. `apis`: further APIs of the process. `recorded_roles`
    reads this node's state-change log. `stopwatch`: the clock for the time that requests take. `random`: for ids that
    nobody should guess. `users`: those of its listeners with SCRAM. `findings_of_process`: what the process knows to be
    wrong with itself.
    """

    settings: Settings
    cluster_id: str
    zookeeper: ZooKeeper
    zookeeper_events: asyncio.Queue[WatchEvent | SessionEvent]
    logs: LogDirectories
    failed_directories: asyncio.Queue[str]
    client: ClusterClient
    workers: Workers
    clock: WallClock
    sink: StateChangeLog
    apis: Sequence[DirectApi[Any]]
    metrics: Metrics
    configs: TopicConfigs
    request_stop: Callable[[], None]
    recorded_roles: RecordedRoles
    log_level: LogLevel
    stopwatch: Stopwatch
    random: Random
    users: ScramUsers | None = None
    findings_of_process: Callable[[], Iterable[Finding]] = tuple


class Agent:
    """`start` registers the agent, which then serves; `leave` and then `stop` shut it down gracefully.

    `broker` has no endpoints yet: they are known once the server is bound, and passed to `start`.
    """

    _session: BrokerSessionKeeper | None = None

    def __init__(self, broker: Broker, dependencies: AgentDependencies, tasks: TaskSet) -> None:
        self.broker_id = broker.id
        self._dependencies, self._tasks = dependencies, tasks
        self._background: list[asyncio.Task[None]] = []
        self.is_serving = asyncio.Event()
        """Set when startup is complete; never cleared."""
        self._is_stopping = False
        settings = dependencies.settings
        self.metrics = AgentMetrics(dependencies.metrics, per_partition=settings.klamm_metrics_partitions)
        self.metadata = MetadataCache(settings.inter_broker_listener_name)
        version = settings.inter_broker_protocol_version.registration_version
        self.registration = Registration(dependencies.zookeeper, broker, dependencies.clock, version=version)
        self.finder = ControllerFinder(dependencies.zookeeper, settings.listener_names)
        self.proposals: IsrProposals = self._isr_proposals()
        self.manager = ReplicaManager(
            broker.id,
            settings=settings,
            logs=dependencies.logs,
            metadata=self.metadata,
            metrics=self.metrics,
            proposals=self.proposals,
            sink=dependencies.sink,
            random=dependencies.random,
        )
        self._cleaner = LogCleaner(broker.id, dependencies.logs, settings, dependencies.metrics, dependencies.clock)
        setup = FetchSetup(self.manager, lambda: self.registration.epoch, dependencies.client)
        self.fetchers = ReplicaFetchers(setup, tasks)
        self.manager.on_change = self.fetchers.touch
        self.damaged = DamagedReplicas(self.manager, self.fetchers, self.registration, self.finder, setup.client)
        lock = asyncio.Lock()
        self.copies = LogDirCopies(self.manager, tasks, lock)
        self.control = ControlRequests(
            self.manager,
            self.fetchers,
            RoleChanges(self.manager, self.fetchers, dependencies.configs, self.damaged),
            tasks,
            broker_epoch=lambda: self.registration.epoch,
            restored=self.registration.restored,
            heads=WitnessedHeads(dependencies.sink, settings.klamm_state_change_log_head_interval_ms),
            lock=lock,
            copies=self.copies,
        )
        self._failures = self._directory_failures(lock)
        self.returns = DirectoryReturns(
            self.manager, self._failures, self.damaged, lock=lock, read_configs=dependencies.configs.read_all
        )
        self._full = FullDirectories(self.manager, self._failures, self.returns.bring_back)
        self.client_quotas = ClientQuotas(settings, dependencies.metrics, dependencies.stopwatch)
        self._setting_changes = DynamicBrokerSettings(
            *(broker.id, dependencies.zookeeper),
            dependencies.clock,
            topics=TopicConfigChanges(dependencies.configs, self.manager, self.control.lock),
            fetchers=self.fetchers,
            fetchers_of_file=settings.num_replica_fetchers,
            quotas=(self.manager.leader_quota, self.manager.follower_quota),
            client_quotas=self.client_quotas.configs,
            copy_throttle=self.copies.throttle,
            log_level=dependencies.log_level,
            users=ScramUsers() if dependencies.users is None else dependencies.users,
        ).changes

    def _directory_failures(self, lock: asyncio.Lock) -> DirectoryFailures:
        return DirectoryFailures(
            self._dependencies.failed_directories,
            manager=self.manager,
            fetchers=self.fetchers,
            copies=self.copies,
            lock=lock,
            zookeeper=self._dependencies.zookeeper,
        )

    def _isr_proposals(self) -> IsrProposals:
        """Choose by the protocol version how ISR changes are written, for this broker's whole life (R8.18, R8.25)."""
        dependencies = self._dependencies
        if not dependencies.settings.inter_broker_protocol_version.has_alter_partition:
            return ZooKeeperIsrProposals(self.broker_id, dependencies.zookeeper)
        return ControllerIsrProposals(
            self.broker_id,
            broker_epoch=lambda: self.registration.epoch,
            controller=lambda: self.finder.control_endpoint,
            client=dependencies.client,
            timeout_ms=dependencies.settings.request_timeout_ms,
        )

    async def start(self, endpoints: Sequence[Endpoint]) -> None:
        """Register and start to serve; logs must be loaded and both listeners bound (R1.10 j to m).

        Raises StartupError if the id or an address is in use.
        """
        self.registration.advertise(endpoints)
        await self.registration.check_address_is_free()
        self._report_logs()
        await self.registration.register()
        dependencies = self._dependencies
        session = BrokerSessionKeeper(
            self.manager,
            dependencies.zookeeper,
            dependencies.zookeeper_events,
            registration=self.registration,
            finder=self.finder,
            setting_changes=self._setting_changes,
        )
        self._session = session
        session.commit("registered", Cause("Startup"))
        self._start_background_work(session)
        self._setting_changes.start_session()
        self.metrics.broker_state.set(RUNNING)
        self.is_serving.set()

    def health(self) -> Health:
        """Whether this agent is registered and serves."""
        if self.control.is_stopping:
            return Health("stopping", is_healthy=False)
        if self._session is None or not self.is_serving.is_set():
            return Health("starting: registers in ZooKeeper", is_healthy=False)
        return self._session.health()

    def findings(self) -> Iterator[Finding]:
        """Report what keeps this agent from ZooKeeper, controller or leaders, stuck moves, full directories, and logs
        not cleaned.
        """
        if self._session is not None:
            yield from self._session.findings()
        yield from self.proposals.findings()
        yield from self.fetchers.findings()
        yield from self._full.findings()
        yield from self._cleaner.findings()
        yield from throttle_findings(self.manager, self.copies.throttle)
        yield from self.copies.findings()

    def _report_logs(self) -> None:
        """Take the replicas whose logs could not be loaded offline, and record what others have lost (R9.22)."""
        logs = self._dependencies.logs
        self.manager.commit(*(ReplicaOffline(tp) for tp in logs.unloadable))
        self.damaged.add_known_at_start()

    def _start_background_work(self, session: BrokerSessionKeeper) -> None:
        settings = self._dependencies.settings
        lag_ms = settings.replica_lag_time_max_ms
        logs = self._dependencies.logs
        points_ms = settings.log_flush_offset_checkpoint_interval_ms
        starts_ms = settings.log_flush_start_offset_checkpoint_interval_ms
        flush_ms = max(1, min(settings.log_flush_scheduler_interval_ms, _FLUSH_CHECK_MS))
        heads = HeadPublisher(
            self._dependencies.zookeeper, self._dependencies.sink, settings.klamm_state_change_log_head_interval_ms
        )
        scrub = LogScrub(logs, settings, self._dependencies.metrics, on_damage=self.damaged.add_found_by_scrub)
        for name, coroutine in (
            ("zookeeper-events", session.follow()),
            ("controller-finder", self.finder.run()),
            ("dynamic-settings", self._setting_changes.run()),
            ("isr-proposals", self.proposals.run()),
            ("log-directory-failures", self._failures.run()),
            ("log-directory-room", self._full.run()),
            ("isr-expiration", self._every(lag_ms / 2, self._shrink_isrs)),
            ("high-watermark-checkpoint", self._checkpoint_high_watermarks()),
            ("recovery-point-checkpoint", self._every(points_ms, logs.write_recovery_points)),
            ("log-start-checkpoint", self._every(starts_ms, logs.write_log_start_offsets)),
            ("log-flush", self._every(flush_ms, logs.flush_due)),
            ("log-retention", self._enforce_retention()),
            ("damaged-replicas", self.damaged.run()),
            ("ended-damage", self.damaged.watch()),
            ("log-scrub", scrub.run()),
            ("log-cleaner", self._cleaner.run()),
            ("fetcher-metrics", self.fetchers.refresh_metrics()),
            ("copier-metrics", self.copies.refresh_metrics()),
            ("state-change-log-head", heads.run()),
        ):
            self._background.append(self._tasks.start(coroutine, name=name))

    async def leave(self) -> None:
        """Request a controlled shutdown from the controller, if enabled: leaderships move and this broker leaves ISRs
        (R12.1).

        Requests are served meanwhile; the server stops afterwards (R12.2). Failures are not raised, and a second call
        has no effect (R12.5).
        """
        settings = self._dependencies.settings
        if self.control.is_stopping or not settings.controlled_shutdown_enable or not self.is_serving.is_set():
            return
        # Demoted replicas need not fetch any more: they are in no ISR, and would only propose to rejoin (R12.4).
        self.control.is_stopping = True
        self.metrics.broker_state.set(PENDING_CONTROLLED_SHUTDOWN)
        shutdown = ControlledShutdownAttempts(
            self.broker_id,
            settings=settings,
            broker_epoch=lambda: self.registration.epoch,
            controller=lambda: self.finder.control_endpoint,
            client=self._dependencies.client,
        )
        await self._step("controlled shutdown", shutdown.run(), timeout_s=None)

    async def stop(self) -> None:
        """Shut down gracefully after the server has stopped accepting requests (R12.3). A second call has no effect.

        A step that fails or exceeds its timeout is abandoned, so that the later ones still run (R12.5).
        """
        if self._is_stopping:
            return
        self._is_stopping = True
        self.control.is_stopping = True
        self.metrics.broker_state.set(SHUTTING_DOWN)
        for task in self._background:
            task.cancel()
        self.fetchers.close()
        self.copies.close()
        self.manager.close_purgatories()
        await self._step("wait for role changes", self.control.lock.acquire())
        if self.control.has_roles.is_set():
            await self._step("checkpoint high watermarks", self.manager.checkpoint_high_watermarks())
        await self._step("close logs", self._dependencies.logs.close(self.registration.epoch), timeout_s=None)
        await self._step("close the ZooKeeper session", self._dependencies.zookeeper.close())
        self.metrics.broker_state.set(NOT_RUNNING)

    async def _step(self, name: str, step: Awaitable[object], *, timeout_s: float | None = _STEP_TIMEOUT_S) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await step
        except Exception:
            _log.exception("Shutdown step failed", step=name)

    async def _every(self, interval_ms: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await work()

    async def _shrink_isrs(self) -> None:
        self.manager.shrink_isrs()

    async def _checkpoint_high_watermarks(self) -> None:
        """Write high watermarks after the first LeaderAndIsr: before, a checkpoint would drop entries (R2.12)."""
        await self.control.has_roles.wait()
        interval_ms = self._dependencies.settings.replica_high_watermark_checkpoint_interval_ms
        await self._every(interval_ms, self.manager.checkpoint_high_watermarks)

    async def _enforce_retention(self) -> None:
        settings = self._dependencies.settings
        await asyncio.sleep(settings.log_initial_task_delay_ms / 1000)
        while True:
            await self._dependencies.logs.enforce_retention(self._dependencies.clock.now_ms())
            await asyncio.sleep(settings.log_retention_check_interval_ms / 1000)
