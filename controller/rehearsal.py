"""Dry run: runs the real handler on a copy of the context, with stores and channels that only record.

The copy is an ActiveController of its own. Its context has all brokers and the topics concerned, its ZooKeeper responds
as the real one would, its channels record. What follows at once from a request is carried out, too: watches fire and
live brokers respond. The rehearsal ends where the procedure would wait for replicas to catch up.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final, Protocol, TypeVar
from urllib.parse import unquote

from cluster.aio.clock import WallClock
from cluster.config.client_quotas import CLIENT_QUOTA_CHECKS, ClientQuotaConfigs
from cluster.config.scram_users import ScramUsers
from cluster.metrics.registry import Metrics
from cluster.model.broker import Broker, BrokerId
from cluster.model.errors import ErrorCode, MalformedZnodeError
from cluster.model.partition import TopicPartition
from cluster.process.diagnostics import silenced
from cluster.process.log_level import LogLevel
from cluster.requests.configs import BROKER_RESOURCE, CLIENT_RESOURCE, TOPIC_RESOURCE, USER_RESOURCE
from cluster.requests.control import ControlRequest, StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from cluster.requests.plans import Plan, PlannedChange, PlannedSetting
from cluster.znodes import paths
from cluster.znodes.configs import DEFAULT_ENTITY, config_entity_of_path, decode_config, decode_config_change
from cluster.zookeeper.port import WatchEvent, Znode
from controller.active_controller import ActiveController, React
from controller.admin_requests import ReadUpTo
from controller.config import ControllerConfig
from controller.context.controller_context import ControllerContext
from controller.decisions.brokers.refusals import ChannelState
from controller.decisions.partition_descriptions import described_partition, planned_request
from controller.dynamic_settings import ConfigListener, DynamicSettings
from controller.events import Event
from controller.handlers.topics.deletions import deletion_answer
from controller.metrics import ControllerMetrics, FailoverTimings
from controller.mutation_quotas import MutationQuotas
from controller.ports import BrokerQueries, ZooKeeperReads
from controller.rehearsal_zookeeper import RehearsalZooKeeper, RehearsedZnode
from controller.watched_znodes import event_of_watch
from state_log.record import StateChange

_T = TypeVar("_T")
_RESOURCE_TYPES: Final = {
    "topics": TOPIC_RESOURCE,
    "brokers": BROKER_RESOURCE,
    "clients": CLIENT_RESOURCE,
    "users": USER_RESOURCE,
}


class Original(Protocol):
    """The part of the active controller that a rehearsal may use: no access to writes or to brokers."""

    @property
    def context(self) -> ControllerContext: ...

    @property
    def reads(self) -> ZooKeeperReads: ...

    @property
    def brokers(self) -> BrokerQueries: ...

    @property
    def config(self) -> ControllerConfig: ...

    @property
    def settings(self) -> DynamicSettings: ...

    @property
    def clock(self) -> WallClock: ...

    @property
    def random(self) -> Random: ...

    @property
    def reassignments_read(self) -> ReadUpTo | None: ...

    @property
    def react(self) -> React: ...


class _Channels:
    """Channels that record requests without sending them; registered brokers respond at once."""

    def __init__(self, brokers: Iterable[BrokerId], on_answer: Callable[[BrokerId, ControlRequest], None]) -> None:
        self._brokers = set(brokers)
        self._on_answer = on_answer
        self.sent: list[tuple[BrokerId, ControlRequest]] = []

    def add(self, broker: Broker) -> None:
        self._brokers.add(broker.id)

    def remove(self, broker: BrokerId) -> None:
        self._brokers.discard(broker)

    def stop(self) -> None:
        self._brokers.clear()

    def send(self, broker: BrokerId, request: ControlRequest, *, is_further_part: bool = False) -> None:
        if broker in self._brokers:
            self.sent.append((broker, request))
            self._on_answer(broker, request)

    def delivered(self, broker: BrokerId) -> asyncio.Future[bool]:
        delivered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        delivered.set_result(broker in self._brokers)
        return delivered

    def states(self) -> Mapping[BrokerId, ChannelState]:
        return dict.fromkeys(self._brokers, ChannelState())


class _Changed:
    """Used as the state-change log: collects the changed partitions, in the order of their first record."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, None] = {}

    def append(self, changes: Sequence[StateChange]) -> None:
        for change in changes:
            if change.topic is not None and change.partition is not None:
                self.partitions[TopicPartition(change.topic, change.partition)] = None


class Rehearsal:
    """One dry run over `topics`, with all brokers, and ZooKeeper read through."""

    def __init__(self, original: Original, topics: Iterable[str]) -> None:
        context, config = original.context, original.config
        # The deletion of one topic processes all topics marked for deletion.
        names = (*topics, *sorted(context.deletions.queued))
        self.before = context
        self._events: deque[Event] = deque()
        self._changed = _Changed()
        self._channels = _Channels(context.brokers.registered_ids, self._on_sent)
        self.zookeeper = RehearsalZooKeeper(
            original.reads,
            self._on_watch,
            data_watches=_watched_data(context, config, names),
            child_watches=(paths.BROKERS_TOPICS, paths.DELETE_TOPICS, paths.CONFIG_CHANGES),
        )
        self._listener = ConfigListener(
            self.zookeeper,
            config,
            original.clock,
            put=self._events.append,
            is_active=lambda: True,
            topic_changed=lambda _topic: None,
            client_quotas=ClientQuotaConfigs(()),
            users=ScramUsers(),
            # Without an effect: nothing of a rehearsal may reach the process.
            log_level=LogLevel(),
        )
        self._listener.settings.unclean_leader_election_enable = original.settings.unclean_leader_election_enable
        self._announced: dict[str, None] = {}
        self._settings_changed = False
        registry = Metrics()
        random = Random()  # noqa: S311 - no secret is drawn.
        random.setstate(original.random.getstate())
        self.active = ActiveController(
            context.copy(names),
            self.zookeeper,
            react=original.react,
            config=config,
            settings=self._listener.settings,
            mutation_quotas=MutationQuotas(config.settings, registry),
            channels=self._channels,
            brokers=original.brokers,
            sink=self._changed,
            clock=original.clock,
            metrics=ControllerMetrics(registry),
            timings=FailoverTimings(registry, 0),
            random=random,
            enqueue=self._events.append,
            # No broker is asked anything for a dry run.
            run_aside=lambda coroutine: coroutine.close(),
        )
        # The rehearsal rewrites requests that are being carried out; they do not begin again.
        self.active.admin_requests.reassignments_read = original.reassignments_read

    @property
    def after(self) -> ControllerContext:
        """The context as the procedure would leave it."""
        return self.active.context

    async def run(self, handler: Awaitable[_T]) -> _T:
        """Run `handler`, a call with `self.active`, and all events that follow from it; returns its result."""
        with silenced():
            try:
                answer = await handler
                await self._take_over_settings()
                while self._events:
                    await self.active.react(self.active, self._events.popleft())
                    await self._take_over_settings()
            finally:
                self.active.stop()
        return answer

    def plan(self) -> Plan:
        """Partitions and configs that would change, and the requests in the order of sending."""
        changes = (
            PlannedChange(
                tp.topic,
                described_partition(self.before, tp),
                described_partition(self.after, tp, undeleted=tp.topic in self.after.deletions.queued),
            )
            for tp in self._changed.partitions
        )
        return Plan(
            tuple(change for change in changes if change.before != change.after),
            tuple(planned_request(broker, request) for broker, request in self._channels.sent),
            tuple(setting for written in self.zookeeper.written() for setting in _planned_settings(written)),
        )

    def _on_watch(self, watch: WatchEvent) -> None:
        if watch.path == paths.CONFIG_CHANGES:
            self._settings_changed = True
            return
        event = event_of_watch(watch, "", self.active.admin_requests.unresolved)
        if event is not None:
            self._events.append(event)

    def _on_sent(self, broker: BrokerId, request: ControlRequest) -> None:
        if isinstance(request, StopReplicaRequest):
            stopped = tuple(
                StopReplicaPartitionError(s.topic_name, s.partition_index, ErrorCode.NONE)
                for s in request.partition_states
            )
            event = deletion_answer(self.active, broker, request, StopReplicaResponse(ErrorCode.NONE, stopped))
            if event is not None:
                self._events.append(event)

    async def _take_over_settings(self) -> None:
        """Apply changed settings, as the config listener of this process would."""
        if not self._settings_changed:
            return
        self._settings_changed = False
        await self.zookeeper.children(paths.CONFIG_CHANGES, watch=True)
        fresh = [
            written
            for written in self.zookeeper.written()
            if written.path.startswith(f"{paths.CONFIG_CHANGES}/") and written.path not in self._announced
        ]
        self._announced |= dict.fromkeys(written.path for written in fresh)
        entities = [decode_config_change(w.path, w.after.data) for w in fresh if w.after is not None]
        if entities:
            await self._listener.take_over(entities, is_new_session=False)


def _watched_data(context: ControllerContext, config: ControllerConfig, topics: Iterable[str]) -> Iterable[str]:
    """Znodes whose data an active controller always watches, as far as the rehearsal can change them."""
    yield from (paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION)
    for topic in topics:
        yield paths.topic_path(topic)
        if not config.protocol_version.has_alter_partition:
            # Leaders write the ISR to ZooKeeper, which may complete a reassignment.
            yield from (
                paths.state_path(tp)
                for tp in context.topics.partitions_of(topic)
                if tp in context.topics.being_reassigned
            )


def _planned_settings(written: RehearsedZnode) -> Iterable[PlannedSetting]:
    entity = config_entity_of_path(written.path)
    if entity is None or entity.type not in _RESOURCE_TYPES:
        return
    before, after = _overrides(written.path, written.before), _overrides(written.path, written.after)
    # Names of clients may have characters that those of znodes have not.
    name = "" if entity.name == DEFAULT_ENTITY else unquote(entity.name)
    if entity.type == "users":
        name = entity.name
        before, after = _quotas(before), _quotas(after)
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            yield PlannedSetting(_RESOURCE_TYPES[entity.type], name, key, before.get(key), after.get(key))


def _quotas(overrides: Mapping[str, str]) -> dict[str, str]:
    """Select what is shown of a user's configs: all but the credentials."""
    return {key: value for key, value in overrides.items() if key in CLIENT_QUOTA_CHECKS}


def _overrides(path: str, znode: Znode | None) -> dict[str, str]:
    """Read the overrides of a topic; a malformed config, which the controller in earnest has logged, has none."""
    try:
        return {} if znode is None else decode_config(path, znode.data)
    except MalformedZnodeError:
        return {}
