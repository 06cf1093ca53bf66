"""A controller candidate: session, registration, election, failover and resignation.

While the candidate is active, all other events go to `dispatch`.
Source: Kafka KafkaController.process, maybeResign, triggerControllerMove.
"""

import asyncio
from random import Random
from typing import Final

import structlog

from cluster.aio.clock import WallClock
from cluster.aio.tasks import TaskSet
from cluster.config.scram_users import ScramUsers
from cluster.metrics.registry import Metrics
from cluster.model.broker import BrokerId
from cluster.model.errors import ControllerMovedError, StartupError, ZooKeeperAccessError, ZooKeeperError
from cluster.process.log_level import LogLevel
from cluster.requests import control
from cluster.znodes.paths import CONFIG_CHANGES, controller_registration_path
from cluster.zookeeper.port import SessionEvent, SessionState, WatchEvent, ZooKeeper
from controller import events
from controller.active_controller import ActiveController, OutrankedError, UnfitError
from controller.active_controllers import ActiveControllers
from controller.broker_answers import events_of_answer
from controller.changes import ControllerResigned
from controller.config import ControllerConfig
from controller.controller_election import ControllerElection, ElectedEpoch
from controller.decisions.takeover import Step
from controller.dynamic_settings import ConfigListener
from controller.election_pauses import NEXT_ATTEMPT_S, ElectionPauses, RefusedEpochs
from controller.event_feed import EventFeed
from controller.event_loop import EventLoop, preempt
from controller.fitness import Fitness
from controller.handlers.activation import activate
from controller.metrics import ControllerMetrics
from controller.mutation_quotas import MutationQuotas
from controller.ports import BrokerClient
from controller.request_events import RequestEvent
from controller.session_keeper import ControllerSessionKeeper
from controller.warm_standby import WarmStandby
from controller.watched_znodes import event_of_watch
from state_log.head_publisher import HeadPublisher
from state_log.record import Cause, StateChangeLog
from state_log.witnessed_heads import WitnessedHeads

SHUTDOWN_TIMEOUT_S: Final = 5
"""Timeout for the current event on shutdown; without ZooKeeper the event might never end."""
_log = structlog.stdlib.get_logger()


class Controller:
    """One controller candidate; exists as long as its process."""

    def __init__(
        self,
        *,
        config: ControllerConfig,
        zookeeper: ZooKeeper,
        broker_client: BrokerClient,
        sink: StateChangeLog,
        registry: Metrics,
        clock: WallClock,
        random: Random,
        log_level: LogLevel | None = None,
        users: ScramUsers | None = None,
    ) -> None:
        self.config = config
        self.metrics = ControllerMetrics(registry)
        self.events = EventLoop(self, self.metrics)
        self.election = ControllerElection(zookeeper, config, clock, random)
        mutation_quotas = MutationQuotas(config.settings, registry)
        self._config_listener = ConfigListener(
            zookeeper,
            config,
            clock,
            put=self.events.put,
            is_active=lambda: self.is_active,
            topic_changed=self._on_settings_of_topic,
            client_quotas=mutation_quotas.configs,
            log_level=LogLevel() if log_level is None else log_level,
            users=ScramUsers() if users is None else users,
        )
        self._zookeeper = zookeeper
        interval_ms = config.settings.klamm_state_change_log_head_interval_ms
        self._head_publisher = HeadPublisher(zookeeper, sink, interval_ms)
        self._tasks = TaskSet()
        self._activation = ActiveControllers(
            config=config,
            settings=self._config_listener.settings,
            mutation_quotas=mutation_quotas,
            zookeeper=zookeeper,
            broker_client=broker_client,
            sink=sink,
            heads=WitnessedHeads(sink, interval_ms),
            metrics=self.metrics,
            clock=clock,
            random=random,
            tasks=self._tasks,
            enqueue=self.events.put,
        )
        self._own_registration = controller_registration_path(config.id)
        self._active: ActiveController | None = None
        self._session = ControllerSessionKeeper(zookeeper, lambda: self.events.put(events.RegisterAndReelect()))
        self.registered = asyncio.Event()
        """Set while clients can find this candidate, and it takes part in elections."""
        self.is_connected = False
        """Whether there is a connection to ZooKeeper, by the last that its client reported."""
        self.fitness = Fitness(zookeeper, config, self.election)
        self.standby = WarmStandby(zookeeper, config.partitions_followed_max, self.events.put)
        self.metrics.show_standby(self.standby.known)
        self._pauses = ElectionPauses()
        self._refused_epochs = RefusedEpochs()

    @property
    def is_active(self) -> bool:
        """Whether this candidate is the active controller; its context may still be loading."""
        return self._active is not None

    @property
    def active(self) -> ActiveController | None:
        """The active controller; None unless this candidate is active."""
        return self._active

    @property
    def feed(self) -> EventFeed | None:
        """The cluster event feed; None unless this candidate is active."""
        return None if self._active is None else self._active.feed

    async def run(self, stop: asyncio.Event) -> None:
        """Run the candidate until `stop` is set; then close the session, which deletes `/controller` if it owns it.

        Raises ZooKeeperUnreachableError if the first session cannot be opened (EL-13).
        """
        self._zookeeper.listen(self._on_zookeeper)
        await self._zookeeper.start_session()
        async with self._tasks:
            self.events.put(events.Startup())
            loop = self._tasks.start(self.events.run(), name="event loop")
            self._tasks.start(self._session.run(), name="session keeper")
            self._tasks.start(self._config_listener.changes.run(), name="config listener")
            self._tasks.start(self._head_publisher.run(), name="state-change log head")
            self._tasks.start(self.standby.run(), name="warm standby")
            await stop.wait()
            self.events.clear_and_put(events.ShutdownEventLoop())
            _, late = await asyncio.wait([loop], timeout=SHUTDOWN_TIMEOUT_S)
            if late:
                # Closing the session fails the call that the event waits for.
                await self._zookeeper.close()
            await loop
            self.metrics.remove_event_loop()
            self._on_controller_resignation()
            await self.election.leave(SHUTDOWN_TIMEOUT_S)
            self.metrics.remove_gauges()
        await self._zookeeper.close()

    # EventProcessor: called by the event loop

    async def process(self, event: events.Event, cause: Cause) -> None:
        """Process an event: those of the candidate itself here, all others by the active controller."""
        if self._active is not None:
            self._active.cause = cause
            self._active.asked_by = event.context if isinstance(event, RequestEvent) else None
        match event:
            case events.Startup() | events.RegisterAndReelect():
                await self._enter(cause, is_start=isinstance(event, events.Startup))
            case events.Reelect():
                await self._maybe_resign()
                await self._elect(cause)
            case events.BrokerChange() | events.BrokerModifications() if self._active is None and self.fitness.why:
                await self._maybe_resign()
                await self._elect(cause)
            case events.ControllerChange():
                await self._maybe_resign()
                if self.election.competes:
                    # `/controller` may have been deleted before the watch was re-armed; no event would report that.
                    await self._elect(cause)
            case events.ControllerEpochChange():
                await self._check_epoch(cause)
            case events.ControllerEpochRefused() | events.StandbyDiffered():
                await self._called_in_question(event, cause)
            case events.Expire():
                self.registered.clear()
                self.election.forget()
                self._on_controller_resignation()
                self._session.lost.set()
            case events.ShutdownEventLoop():
                pass
            case _ if self._active is None:
                preempt(event)
            case _:
                await self._dispatch(self._active, event)

    async def _dispatch(self, active: ActiveController, event: events.Event) -> None:
        try:
            await active.react(active, event)
        except UnfitError as error:
            await self.step_down(str(error))
        except ZooKeeperError:
            if event.changes_cluster:
                active.resume_later()
            raise

    async def resign_if_moved(self) -> None:
        """Resign after a fenced write if another controller was elected; otherwise, as somebody wrote or deleted
        `/controller_epoch` by hand and this controller can no longer write, be elected again.
        """
        await self._maybe_resign()
        if self._active is not None:
            _log.error("Controller epoch changed without an election", controller_epoch=self._active.epoch)
            await self._elect_again(self._active.cause)

    async def _check_epoch(self, cause: Cause) -> None:
        """Resign, or be elected again, if `/controller_epoch` is not as this controller won it."""
        stored = await self.election.epoch.read(watch=True)
        version = None if stored is None else stored.version
        if self._active is not None and version != self._active.context.epoch_zk_version:
            self._active.cause = cause
            await self.resign_if_moved()

    async def _called_in_question(
        self, event: events.ControllerEpochRefused | events.StandbyDiffered, cause: Cause
    ) -> None:
        """Be elected again if the controller concerned is still active and must not continue as it is."""
        if isinstance(event, events.ControllerEpochRefused):
            await self._refused(event, cause)
        else:
            await self._standby_differed(event, cause)

    async def _refused(self, event: events.ControllerEpochRefused, cause: Cause) -> None:
        """Be elected above the epoch that a broker knows, if it is a later one, and nobody else was elected (D-94)."""
        if self._active is None or event.epoch != self._active.epoch:
            return
        now = asyncio.get_running_loop().time()
        known, pause = self._refused_epochs.next_attempt(event, self.election.epoch.known, now)
        if known is None:
            return
        if pause > 0:
            self._put_later(event, pause)
            return
        await self._maybe_resign()
        if self._active is not None:
            self.election.epoch.known = known
            self._refused_epochs.elected(now)
            _log.warning("A broker knows a later epoch", broker=event.broker, epoch=event.epoch, named=event.named)
            await self._elect_again(cause)

    async def _standby_differed(self, event: events.StandbyDiffered, cause: Cause) -> None:
        """Be elected again, which reads everything: what was taken over was wrong, which is a defect (D-122)."""
        _log.error("What this standby followed differed from ZooKeeper", count=len(event.paths), first=event.paths[0])
        self.standby.differed(event)
        if self._active is not None and self._active.epoch == event.epoch:
            await self._elect_again(cause)

    async def _elect_again(self, cause: Cause) -> None:
        """Resign, and be elected under a higher epoch; `/controller` stays this candidate's in between."""
        self._on_controller_resignation()
        try:
            await self._elect(cause, renews=True)
        except ZooKeeperError:
            # This session may still own `/controller`; the next attempt reads it again.
            self._put_later(events.Reelect())
            raise

    async def step_down(self, unfit: str = "") -> None:
        """Resign after an internal failure, so that a candidate reloads the state from ZooKeeper (EL-12, D-2), or as
        `unfit` to govern the brokers, until they or the adoption change.
        """
        ended = self._active
        # First: nothing may act on this controller's memory any more, whatever happens below.
        self._on_controller_resignation()
        self._pauses.stepped_down(asyncio.get_running_loop().time())
        try:
            await self.fitness.found(unfit)
            await self._trigger_controller_move(ended)
        except ZooKeeperError:
            # This session may still own `/controller`; the next attempt reads it again.
            self._put_later(events.Reelect())
            raise

    async def _trigger_controller_move(self, ended: ActiveController | None) -> None:
        """Make sure that an election follows, unless another controller is active. `ended`: the one that resigned."""
        await self.election.refresh()
        if self.election.owns_controller_znode:
            await self.election.delete_controller_znode(None if ended is None else ended.store)
        elif self.election.competes or not self.registered.is_set():
            # No controller is active and no watch will fire: the attempt failed before the election was won.
            self._put_later(events.RegisterAndReelect())
        else:
            _log.warning("Stepped down; another controller is active", active=self.election.active_controller_id)

    def after_event(self) -> None:
        """Show what the event has changed, and let waiting callers and watchers know."""
        active = self._active
        self.standby.follow(active is None and self.registered.is_set() and not self.election.gives_way)
        self._show_active_controller()
        self.metrics.show(None if active is None else active.context)
        if active is not None:
            active.complete_waiters()
            active.feed.publish(active.context)

    # Election, failover and resignation

    async def _enter(self, cause: Cause, *, is_start: bool) -> None:
        """Register, then take part in the election. Waits while an earlier incarnation still owns the registration.

        Raises StartupError if ZooKeeper denies access while the process starts; a retry would not help.
        """
        try:
            await self.election.create_paths()
            self._config_listener.changes.start_session()
            if await self.election.register():
                self.registered.set()
            else:
                self.registered.clear()
        except ZooKeeperAccessError as error:
            if is_start:
                raise StartupError(f"{error}: the credentials must be those of the rest of the cluster") from error
            raise
        await self._maybe_resign()
        await self._check_epoch(cause)
        await self._elect(cause)

    async def _maybe_resign(self) -> None:
        """Re-read `/controller` and resign if this session does not own it (EL-10)."""
        await self.election.refresh()
        if not self.election.owns_controller_znode:
            self._on_controller_resignation()
        if self.election.step is Step.DELETE or (self.election.owns_controller_znode and self._active is None):
            # This session owns `/controller` but is not active; nobody else can be elected until it is deleted.
            await self.election.delete_controller_znode()
        elif self._active is not None:
            await self.election.convert(self._active.context.epoch_zk_version)
        await self.election.record()

    async def _elect(self, cause: Cause, *, renews: bool = False) -> None:
        if not self.registered.is_set():
            # Clients could not find this controller. It takes part in elections once it is registered.
            return
        now = asyncio.get_running_loop().time()
        if not renews and self._pauses.forbids(now, from_broker=self.election.takes_from_broker):
            self._put_later(events.Reelect())
            return
        if self.election.competes and await self.fitness.is_lacking():
            return
        try:
            elected = await self.election.elect(renews=renews)
        except ControllerMovedError:
            await self._maybe_resign()
            if self.election.competes:
                # The winner is gone already, perhaps before the watch was armed, or is a broker.
                self.events.put(events.Reelect())
            return
        if elected is not None:
            if elected.was_brokers:
                self._pauses.took_over(now)
            await self._on_controller_failover(elected, cause)

    async def _on_controller_failover(self, elected: ElectedEpoch, cause: Cause) -> None:
        _log.info("Elected as the active controller", controller_epoch=elected.epoch)
        self._active = self._activation.begin(elected, self._on_answer)
        self._active.cause = cause
        self._show_active_controller()
        try:
            await activate(self._active, self.standby)
        except OutrankedError as error:
            _log.warning("Elected under an epoch that was used before", controller_epoch=elected.epoch, why=str(error))
            self.election.epoch.lost(error.epoch)
            await self._elect_again(cause)
        except UnfitError as error:
            await self.step_down(str(error))
        else:
            await self.fitness.found("")

    def _on_controller_resignation(self) -> None:
        """Stop being active; does nothing if this candidate is not. Events of watches still armed are then ignored."""
        active, self._active = self._active, None
        self._show_active_controller()
        if active is None:
            return
        active.stop()
        _log.info("Resigned as the active controller", controller_epoch=active.epoch)
        active.commit(ControllerResigned(self.config.id))

    def _show_active_controller(self) -> None:
        epoch = None if self._active is None else self._active.epoch
        self.metrics.show_active_controller(self.election.active_controller_id, epoch)

    # Callbacks; they only enqueue events

    def _on_zookeeper(self, notification: WatchEvent | SessionEvent) -> None:
        if isinstance(notification, SessionEvent):
            self.is_connected = notification.state is SessionState.CONNECTED
            self.standby.session_changed(notification.state)
            if notification.state in {SessionState.EXPIRED, SessionState.AUTH_FAILED}:
                # No event queued under the old session may run under the new one (EL-20).
                self.events.clear_and_put(events.Expire())
            log = _log.info if notification.state is SessionState.CONNECTED else _log.warning
            log("ZooKeeper session state changed", state=notification.state.value)
            return
        if notification.path == CONFIG_CHANGES:
            self._config_listener.changes.changed(notification.kind)
            return
        active = self._active
        if active is None:
            event = event_of_watch(notification, self._own_registration)
        else:
            pending = active.admin_requests.unresolved, active.store.malformed
            event = event_of_watch(notification, self._own_registration, *pending)
        if event is not None:
            self.events.put(event)

    def _on_answer(self, broker: BrokerId, request: control.ControlRequest, response: control.ControlResponse) -> None:
        for event in events_of_answer(self._active, broker, request, response):
            self.events.put(event)

    def _on_settings_of_topic(self, topic: str) -> None:
        if self.feed is not None:
            self.feed.publish_settings_of(topic)

    def _put_later(self, event: events.Event, delay_s: float = NEXT_ATTEMPT_S) -> None:
        async def put() -> None:
            await asyncio.sleep(delay_s)
            self.events.put(event)

        self._tasks.start(put(), name="next attempt")
