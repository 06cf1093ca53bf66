"""The active controller: created after a won controller election, dropped on resignation.

Handlers are functions over this object. It cannot be reset, so no state of one controller epoch can leak into the next.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from random import Random
from typing import Any, Final
from weakref import WeakMethod

from msgspec import Struct

from cluster.aio.clock import WallClock
from cluster.model.broker import BrokerId, ControllerEpoch, TopicId
from cluster.model.errors import ClusterError
from cluster.model.partition import TopicPartition
from cluster.requests.context import RequestContext
from cluster.requests.control import RequestCause
from cluster.znodes.paths import CONTROLLER_EPOCH
from cluster.zookeeper.port import ZooKeeper
from controller.admin_requests import AdminRequests, ReadUpTo
from controller.changes import Assignments, Change, in_parts
from controller.config import ControllerConfig
from controller.context.controller_context import ControllerContext
from controller.decisions.broker_requests import NO_ASSIGNMENTS, ControlBatch
from controller.decisions.partitions.leader_balance import BalanceRound
from controller.dynamic_settings import DynamicSettings
from controller.event_feed import EventFeed
from controller.events import AutoPreferredReplicaLeaderElection, Event, ProcedureResumption
from controller.fenced_writes import FencedWriter
from controller.left_replica_store import LeftReplicaStore
from controller.metrics import ControllerMetrics, FailoverTimings
from controller.mutation_quotas import MutationQuota, MutationQuotas
from controller.ports import BrokerQueries, RequestChannels, ZooKeeperReads
from controller.state_change_records import state_changes
from controller.store import ControllerStore
from controller.stores import AccessListStore, AuxiliaryStore, ConfigStore, RecoveryStore
from controller.topic_calls import TopicCalls
from state_log.record import Cause, StateChange, StateChangeSink

React = Callable[["ActiveController", Event], Awaitable[None]]
"""Calls the handler of an event; see `controller.dispatch`."""
RECORDED_TOGETHER: Final = 5_000
"""State changes, of some kilobytes each until they are written; one change may be of 100,000 partitions."""
RESUMPTION_PAUSE_S: Final = 30
"""Delay before a procedure is retried that stopped at a write which ZooKeeper refused, for example by its ACL."""
RESUMPTION_PAUSE_MAX_S: Final = 960
"""Each retry in a row that is refused doubles the delay, up to this."""


class LostTopicIds:
    """The topics whose znode does not say which id they have, although brokers serve them.

    Kept until a broker has said which id each has; meanwhile requests to brokers carry none (D-102).
    """

    def __init__(self) -> None:
        self.topics: dict[str, str] = {}
        """Topic -> why its id is not known; empty until brokers have answered."""
        self.due: dict[str, None] = {}
        """Those that brokers are to be asked about."""
        self.withheld: dict[str, None] = {}
        """Those that brokers get no metadata of: before they have said which id they know, one without it would make
        brokers of Kafka forget it.
        """
        self.withheld_until: float = 0
        """On the clock of the event loop."""
        self.cached: dict[BrokerId, dict[str, TopicId]] = {}
        """What each broker has named so far."""
        self.undisclosed: dict[BrokerId, frozenset[str]] = {}
        """The topics of which each broker's logs have another id than it names, by its last answer."""
        self.is_asking = False
        self.next_question: asyncio.TimerHandle | None = None
        self.pause_s: float = 0
        """The last one before asking again; 0: none yet."""
        self.unwritten: set[str] = set()
        """Topics with a known id that ZooKeeper refused to write back."""

    def add(self, topic: str) -> None:
        self.topics.setdefault(topic, "")
        self.due[topic] = None

    def remove(self, topic: str) -> None:
        self.topics.pop(topic, None)
        self.due.pop(topic, None)
        self.withheld.pop(topic, None)
        for ids in self.cached.values():
            ids.pop(topic, None)

    def stop(self) -> None:
        if self.next_question is not None:
            self.next_question.cancel()


class UnsentDecisionsError(ClusterError):
    """A decision was written to ZooKeeper, but its requests to brokers could not be built.

    The controller steps down, so that the next one sends the full state to every broker (IL-1).
    """


class RecoveryInterruptedError(ClusterError):
    """A part of a recovery was not written.

    The controller steps down, because it knows the cluster as it was before; the recovery can be run again.
    """


class OutrankedError(ClusterError):
    """A controller wrote under this epoch, or under a higher one: `epoch`. This one has not written anything yet."""

    def __init__(self, epoch: ControllerEpoch) -> None:
        super().__init__(f"a partition state has controller epoch {epoch}")
        self.epoch = epoch


class UnfitError(ClusterError):
    """The candidate must not govern the cluster, as it would not admit its brokers."""


class ActiveController:
    """State and dependencies of the controller for one controller epoch: context, stores, broker channels, log.

    A dry run uses a copy with a context of its own and stores and channels that only record (`controller.rehearsal`).
    """

    def __init__(
        self,
        context: ControllerContext,
        zookeeper: ZooKeeper,
        *,
        react: "React",
        config: ControllerConfig,
        settings: DynamicSettings,
        mutation_quotas: MutationQuotas,
        channels: RequestChannels,
        brokers: BrokerQueries,
        sink: StateChangeSink,
        clock: WallClock,
        metrics: ControllerMetrics,
        timings: FailoverTimings,
        random: Random,
        enqueue: Callable[[Event], None],
        run_aside: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None] | None],
    ) -> None:
        self.config, self.settings, self.context, self.react = config, settings, context, react
        self._mutation_quotas = mutation_quotas
        self.reads: ZooKeeperReads = zookeeper
        resume = _weak(self.resume_later)
        fenced = FencedWriter(zookeeper, context.epoch_zk_version, CONTROLLER_EPOCH, on_refusal=resume)
        self.store = ControllerStore(zookeeper, fenced)
        self.admin_requests = AdminRequests(zookeeper, fenced)
        self.configs = ConfigStore(zookeeper, fenced)
        self.access_lists = AccessListStore(zookeeper, fenced)
        self.unfenced = AuxiliaryStore(zookeeper)
        self.left_replicas = LeftReplicaStore(zookeeper, fenced, self.store.malformed, context.epoch)
        self.recovery = RecoveryStore(zookeeper, fenced, context.epoch_zk_version)
        self.channels, self.brokers, self.clock = channels, brokers, clock
        self.feed = EventFeed(context.epoch, config.id, clock)
        self.metrics, self.timings, self.random = metrics, timings, random
        self.enqueue = enqueue
        """Put an event at the end of the event loop's queue."""
        self._run_aside = run_aside
        self._aside: set[asyncio.Task[None]] = set()
        self.lost_topic_ids = LostTopicIds()
        self.cause = Cause("Startup")
        """The event being processed; set before each event is handled."""
        self.asked_by: RequestContext | None = None
        """The call that the event came with; None where it is a watch, a timer or an answer."""
        self.topic_calls = TopicCalls()
        self._sink = sink
        self.balance_round = BalanceRound()
        """What the last preferred leader check left to the next one."""
        self._balance: asyncio.TimerHandle | None = None
        self._resumption: asyncio.TimerHandle | None = None
        self._resumption_pause_s = RESUMPTION_PAUSE_S
        self._delayed: list[asyncio.TimerHandle] = []
        self.reassignments_to_resume: set[TopicPartition] = set()
        """Partitions whose reassignment stopped at a refused write; retried by `ProcedureResumption`."""
        self._awaiting_leaders: dict[str, _AwaitedLeaders] = {}
        self._changed_topics: dict[str, None] = {}
        """Topics of `_awaiting_leaders` that the current event changed or began to wait for."""
        self.absences_checked_at: float | None = None
        """When the next broker that is away is checked; None if nothing waits for any."""
        self._awaiting_deletion: dict[str, asyncio.Future[bool]] = {}
        self._awaiting_deletion_begun: dict[str, asyncio.Future[bool]] = {}

    @property
    def epoch(self) -> ControllerEpoch:
        return self.context.epoch

    @property
    def mutation_quota(self) -> MutationQuota:
        """The quota of the client that asks for what is being processed."""
        return self._mutation_quotas.of(self.asked_by)

    @property
    def kafka_release(self) -> str | None:
        """The oldest release of Apache Kafka among the brokers; None if they are klamm's."""
        return (self.brokers.oldest_release() or self.config.kafka_release) if self.config.governs_kafka else None

    @property
    def reassignments_read(self) -> ReadUpTo | None:
        """The part of `/admin/reassign_partitions` that was processed."""
        return self.admin_requests.reassignments_read

    @property
    def request_cause(self) -> RequestCause:
        """The event being processed, as it is named to brokers."""
        return RequestCause(self.config.id, self.epoch, self.cause.event, self.cause.id)

    def new_batch(self, announced: Assignments = NO_ASSIGNMENTS) -> ControlBatch:
        """Create a batch of requests. `announced`: assignments sent before `/brokers/topics/T` holds them."""
        return ControlBatch(self.context, announced, self.lost_topic_ids.withheld)

    def send(self, batch: ControlBatch) -> None:
        """Build the requests of a batch and queue each for its broker. Raises UnsentDecisionsError."""
        before: tuple[BrokerId, type] | None = None
        try:
            for broker, request in batch.requests(self.config.id, self.config.request_settings, (self.request_cause,)):
                sent = broker, type(request)
                self.channels.send(broker, request, is_further_part=sent == before)
                before = sent
        except Exception as error:
            raise UnsentDecisionsError(f"requests to brokers could not be made: {error!r}") from error

    def commit(self, *changes: Change) -> None:
        """Apply changes that ZooKeeper acknowledged or returned to the context, and record each in the state-change
        log and the event feed.

        The only way to change the context. Call it after the write it reports and before sending the requests that
        follow from it.
        """
        records: list[StateChange] = []
        for part in (part for change in changes for part in in_parts(change, RECORDED_TOGETHER)):
            # A record describes the change against the state before it, so it is made first.
            records += state_changes(part, self.context, self.cause, self._caller)
            self.context.apply(part)
            if len(records) >= RECORDED_TOGETHER:
                self._record(records)
                records = []
        self._record(records)

    def _record(self, records: list[StateChange]) -> None:
        if not records:
            return
        self._sink.append(records)
        self.feed.record(records)
        for record in records if self._awaiting_leaders else ():
            if record.topic in self._awaiting_leaders:
                self._changed_topics[record.topic] = None

    def _caller(self, topic: str | None) -> RequestContext | None:
        return self.asked_by or self.topic_calls.caller(topic, self.cause.event)

    def balance_later(self, delay_s: float) -> None:
        """Schedule the preferred leader check in `delay_s` seconds, replacing an earlier schedule."""
        if self._balance is not None:
            self._balance.cancel()
        loop = asyncio.get_running_loop()
        self._balance = loop.call_later(delay_s, self.enqueue, AutoPreferredReplicaLeaderElection())

    def run_aside(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run what waits for brokers beside the event loop, until this controller resigns. It must only enqueue events;
        in a dry run it is dropped.
        """
        task = self._run_aside(coroutine)
        if task is not None:
            self._aside.add(task)
            task.add_done_callback(self._aside.discard)

    def enqueue_later(self, delay_s: float, event: Event) -> asyncio.TimerHandle:
        """Enqueue an event after a delay, unless this controller resigns before."""
        now = asyncio.get_running_loop().time()
        self._delayed = [timer for timer in self._delayed if timer.when() > now]
        timer = asyncio.get_running_loop().call_later(delay_s, self.enqueue, event)
        self._delayed.append(timer)
        return timer

    def resume_later(self) -> None:
        """Schedule a retry of procedures that stopped at a refused write, unless one is scheduled already."""
        if self._resumption is None:
            loop = asyncio.get_running_loop()
            self._resumption = loop.call_later(self._resumption_pause_s, self._resume)
            self._resumption_pause_s = min(2 * self._resumption_pause_s, RESUMPTION_PAUSE_MAX_S)

    def _resume(self) -> None:
        self._resumption = None
        self.enqueue(ProcedureResumption())

    def resumed(self) -> None:
        """The retry is over: unless something was refused again, the next one comes after the shortest pause."""
        if self._resumption is None:
            self._resumption_pause_s = RESUMPTION_PAUSE_S

    # Futures for callers that wait for a topic to be created or deleted; the event loop does not block on them.

    def leaders_elected(self, topic: str, partitions: int = 1) -> asyncio.Future[bool]:
        """True once the topic has `partitions` partitions, all with a leader; False if this controller resigns."""
        self._changed_topics[topic] = None
        awaited = self._awaiting_leaders.setdefault(topic, _AwaitedLeaders({}))
        return awaited.futures.setdefault(partitions, asyncio.get_running_loop().create_future())

    def topic_deleted(self, topic: str) -> asyncio.Future[bool]:
        """True once the topic is deleted; False if this controller resigns before that."""
        return self._awaiting_deletion.setdefault(topic, asyncio.get_running_loop().create_future())

    def topic_deletion_begun(self, topic: str) -> asyncio.Future[bool]:
        """True once the topic is queued for deletion, so that brokers are told to forget it, or deleted; False if this
        controller resigns before that.
        """
        return self._awaiting_deletion_begun.setdefault(topic, asyncio.get_running_loop().create_future())

    def complete_waiters(self) -> None:
        """Complete the futures whose condition now holds. Called after each event; checks only changed topics."""
        concerned, self._changed_topics = self._changed_topics, {}
        for topic in concerned:
            awaited = self._awaiting_leaders[topic]
            led = self._count_led(topic, awaited)
            _answer([awaited.futures.pop(count) for count in list(awaited.futures) if count <= led], there=True)
            if not awaited.futures:
                del self._awaiting_leaders[topic]
        known, queued = self.context.topics.names, self.context.deletions.queued
        for begun in [topic for topic in self._awaiting_deletion_begun if topic in queued or topic not in known]:
            _answer([self._awaiting_deletion_begun.pop(begun)], there=True)
        for gone in [topic for topic in self._awaiting_deletion if topic not in known]:
            _answer([self._awaiting_deletion.pop(gone)], there=True)

    def stop(self) -> None:
        """Release everything on resignation: channels, event feed, timers, and callers that still wait."""
        self.channels.stop()
        self.feed.close()
        for timer in (self._balance, self._resumption, *self._delayed):
            if timer is not None:
                timer.cancel()
        for task in tuple(self._aside):
            task.cancel()
        for awaited in self._awaiting_leaders.values():
            _answer(awaited.futures.values(), there=False)
        _answer(self._awaiting_deletion.values(), there=False)
        _answer(self._awaiting_deletion_begun.values(), there=False)

    def _count_led(self, topic: str, awaited: "_AwaitedLeaders") -> int:
        """Number of partitions of the topic if all have a leader, else 0."""
        if awaited.leaderless is not None and not self._has_leader(awaited.leaderless):
            return 0
        partitions = self.context.topics.partitions_of(topic)
        awaited.leaderless = next((tp for tp in partitions if not self._has_leader(tp)), None)
        return len(partitions) if awaited.leaderless is None else 0

    def _has_leader(self, tp: TopicPartition) -> bool:
        known = self.context.leaderships.known.get(tp)
        return known is not None and known.leader >= 0


class _AwaitedLeaders(Struct):
    """Callers waiting for one topic: number of partitions required, all with a leader -> future."""

    futures: dict[int, asyncio.Future[bool]]
    leaderless: TopicPartition | None = None
    """A partition without a leader at the last check; while it has none, the others are not checked."""


def _weak(method: Callable[[], None]) -> Callable[[], None]:
    """Call a method as long as its object is there, which this does not keep: what a controller knew of 100,000
    partitions is freed when it resigns, and not by the next full garbage collection, days later.
    """
    kept = WeakMethod(method)

    def call() -> None:
        found = kept()
        if found is not None:
            found()

    return call


def _answer(waiters: Iterable[asyncio.Future[bool]], *, there: bool) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(there)
