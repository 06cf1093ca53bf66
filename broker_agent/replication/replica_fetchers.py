"""All fetchers of an agent: assignment of partitions to fetchers, and the set of failed partitions.

Source: Kafka AbstractFetcherManager, ReplicaFetcherManager.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from zlib import crc32

import structlog
from msgspec import Struct
from msgspec.structs import replace

from broker_agent.replication.fetch_states import FetchState, FetchStates
from broker_agent.replication.leader_silence import Unanswered, silence_findings
from broker_agent.replication.log_reconciliation import FetchSetup, LeaderEndPoint
from broker_agent.replication.replica_fetcher import ReplicaFetcher
from cluster.aio.tasks import TaskSet
from cluster.model.broker import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, TopicId
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import Finding
from state_log.record import Cause

_METRICS: Final = ("kafka.server", "ReplicaFetcherManager")
_METRICS_REFRESH_S: Final = 1.0
_log = structlog.stdlib.get_logger()


class FetchStart(Struct, frozen=True):
    """Says where to start fetching a partition. `latest_epoch`: of the local epoch cache, None if it is empty.
    `cause`: what led to the role.
    """

    topic_id: TopicId | None
    leader: LeaderEndPoint
    leader_epoch: LeaderEpoch
    offset: Offset
    latest_epoch: LeaderEpoch | None
    cause: Cause | None = None


class _FetcherKey(NamedTuple):
    leader: BrokerId
    fetcher_id: int


class _Running(NamedTuple):
    fetcher: ReplicaFetcher
    task: asyncio.Task[None]


class ReplicaFetchers:
    """Adds and removes partitions; starts a fetcher with its first partition.

    Both are synchronous: once a removal has returned, nothing is appended through the old fetcher any more, whatever
    responses are still in flight (R0.5).
    """

    def __init__(self, setup: FetchSetup, tasks: TaskSet) -> None:
        self._setup = setup
        self._tasks = tasks
        self._running: dict[_FetcherKey, _Running] = {}
        self._placed: dict[TopicPartition, _FetcherKey] = {}
        self._failed: dict[TopicPartition, str] = {}
        """The failed partitions, each with the reason; empty where the next LeaderAndIsr is on its way."""
        self._is_closed = False
        self._fetchers_per_leader = setup.settings.num_replica_fetchers
        registry = setup.manager.metrics.registry
        self._max_lag = registry.gauge(*_METRICS, "MaxLag", clientId="Replica")
        self._min_rate = registry.gauge(*_METRICS, "MinFetchRate", clientId="Replica")
        self._failed_count = registry.gauge(*_METRICS, "FailedPartitionsCount", clientId="Replica")
        self._dead_count = registry.gauge(*_METRICS, "DeadThreadCount", clientId="Replica")

    @property
    def failed(self) -> tuple[TopicPartition, ...]:
        """The partitions that are not fetched until the next LeaderAndIsr."""
        return tuple(self._failed)

    def findings(self) -> Iterator[Finding]:
        """Report leaders that do not answer, and partitions that are not fetched any more after an error."""
        fetchers = (running.fetcher for running in self._running.values() if len(running.fetcher.states))
        waiting = (Unanswered(fetcher.reconciliation.silence, len(fetcher.states)) for fetcher in fetchers)
        own_id = self._setup.manager.own_id
        yield from silence_findings(own_id, waiting, asyncio.get_running_loop().time())
        for tp, why in self._failed.items():
            # A log that is offline is a finding of its own.
            partition = self._setup.manager.online(tp) if why else None
            if partition is not None and partition.log is not None:
                detail = (
                    f"broker {own_id} does not fetch {tp} from its leader any more, until it has a new one: {why};"
                    " restart the broker"
                )
                yield Finding("stuck_follower", detail, *tp, own_id)

    def state(self, tp: TopicPartition) -> FetchState | None:
        states = self._states(tp)
        return None if states is None else states.get(tp)

    def silent_ms(self, tp: TopicPartition) -> int | None:
        """Find for how long the leader has not answered the fetcher of a partition, in ms; None: it never has."""
        key = self._placed.get(tp)
        running = None if key is None else self._running.get(key)
        answered_at = None if running is None else running.fetcher.reconciliation.silence.answered_at
        return None if answered_at is None else round((asyncio.get_running_loop().time() - answered_at) * 1000)

    def add(self, starts: Mapping[TopicPartition, FetchStart]) -> None:
        """Start fetching; a partition already fetched in the same leader epoch is left unchanged (R5.8)."""
        if self._is_closed:
            return
        for tp, start in starts.items():
            self._failed.pop(tp, None)
            key = _FetcherKey(start.leader.broker, self._fetcher_id(tp))
            present = self.state(tp)
            if present is not None and self._placed.get(tp) == key and present.leader_epoch == start.leader_epoch:
                continue
            if present is not None:
                self.remove((tp,))
            fetcher = self._fetcher(key, start.leader)
            fetcher.states.put(tp, self._initial_state(start))
            self._placed[tp] = key
            fetcher.wake()
        self._failed_count.set(len(self._failed))

    def remove(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, FetchState]:
        """Stop fetching, and remove from the failed set; returns the removed states."""
        removed: dict[TopicPartition, FetchState] = {}
        for tp in partitions:
            self._failed.pop(tp, None)
            states = self._states(tp)
            state = None if states is None else states.remove(tp)
            if state is not None:
                removed[tp] = state
            self._placed.pop(tp, None)
        self._failed_count.set(len(self._failed))
        return removed

    def fail(self, tp: TopicPartition) -> None:
        """Stop fetching until the next LeaderAndIsr of a newer leader epoch."""
        self.remove((tp,))
        self._failed[tp] = ""
        self._failed_count.set(len(self._failed))

    def set_topic_id(self, tp: TopicPartition, topic_id: TopicId | None) -> None:
        """Update the topic id used in fetch requests (R2.10)."""
        states = self._states(tp)
        state = None if states is None else states.get(tp)
        if states is not None and state is not None:
            states.put(tp, replace(state, topic_id=topic_id))

    def touch(self, tp: TopicPartition) -> None:
        """A hosted partition has changed: its fetcher may have to ask for something else."""
        key = self._placed.get(tp)
        if key in self._running:
            self._running[key].fetcher.touch(tp)

    def _move(self, tp: TopicPartition, key: _FetcherKey) -> None:
        """Move a partition to another fetcher of its leader, with its state."""
        origin = self._running[self._placed[tp]].fetcher
        state = origin.states.remove(tp)
        assert state is not None, f"{tp} is not where it was placed"
        target = self._fetcher(key, origin.leader)
        target.states.put(tp, state)
        self._placed[tp] = key
        target.wake()

    def resize(self, fetchers_per_leader: int) -> None:
        """Redistribute the partitions over another number of fetchers, with their states (R5.6)."""
        if fetchers_per_leader == self._fetchers_per_leader or self._is_closed:
            return
        _log.info("Number of fetchers per leader changed", before=self._fetchers_per_leader, now=fetchers_per_leader)
        self._fetchers_per_leader = fetchers_per_leader
        for tp, key in tuple(self._placed.items()):
            wanted = key._replace(fetcher_id=self._fetcher_id(tp))
            if wanted != key and self.state(tp) is not None:
                self._move(tp, wanted)
        self.stop_idle()

    def stop_idle(self) -> None:
        """Stop fetchers without partitions (R5.5)."""
        for key, running in tuple(self._running.items()):
            if len(running.fetcher.states) == 0:
                self._stop(key)

    def close(self) -> None:
        """Stop all fetchers; nothing can be added afterwards."""
        self._is_closed = True
        for key in tuple(self._running):
            self._stop(key)
        self._placed.clear()

    async def refresh_metrics(self) -> None:
        """Update the gauges over all fetchers and those of rates."""
        while True:
            await asyncio.sleep(_METRICS_REFRESH_S)
            fetchers = [running.fetcher for running in self._running.values() if len(running.fetcher.states)]
            self._max_lag.set(max((fetcher.states.max_lag for fetcher in fetchers), default=0))
            self._min_rate.set(min((fetcher.request_rate for fetcher in fetchers), default=0))
            self._failed_count.set(len(self._failed))
            manager = self._setup.manager
            for quota in (manager.leader_quota, manager.follower_quota):
                quota.refresh(manager.now_ms())

    def _states(self, tp: TopicPartition) -> FetchStates | None:
        """The state table of the partition's fetcher, even if the partition has failed."""
        key = self._placed.get(tp)
        running = None if key is None else self._running.get(key)
        return None if running is None else running.fetcher.states

    def _initial_state(self, start: FetchStart) -> FetchState:
        by_fetch = self._setup.settings.klamm_replica_truncation_mode == "fetch"
        epoch = start.latest_epoch if by_fetch else None
        return FetchState(
            topic_id=start.topic_id,
            fetch_offset=start.offset,
            leader_epoch=start.leader_epoch,
            last_fetched_epoch=NO_LEADER_EPOCH if epoch is None else epoch,
            is_truncating=epoch is None,
            cause=start.cause,
        )

    def _fetcher_id(self, tp: TopicPartition) -> int:
        # Not hash(): it is salted per process, and a partition's fetcher should be the same after a restart.
        return (31 * crc32(tp.topic.encode()) + tp.partition) % self._fetchers_per_leader

    def _fetcher(self, key: _FetcherKey, leader: LeaderEndPoint) -> ReplicaFetcher:
        """The fetcher for the key at this address; if the address changed, its partitions move to a new one (R5.2)."""
        present = self._running.get(key)
        if present is not None and present.fetcher.leader == leader:
            return present.fetcher
        name = f"ReplicaFetcherThread-{key.fetcher_id}-{key.leader}"
        fetcher = ReplicaFetcher(name, leader, self._setup, self._failed)
        if present is not None:
            for tp in present.fetcher.states:
                state = present.fetcher.states.get(tp)
                assert state is not None, f"{tp} vanished while its fetcher was replaced"
                fetcher.states.put(tp, replace(state, delayed_until=None))
            self._stop(key)
        self._running[key] = _Running(fetcher, self._tasks.start(self._guard(fetcher, name), name=name))
        return fetcher

    async def _guard(self, fetcher: ReplicaFetcher, name: str) -> None:
        """The root of a fetcher's task: an unexpected error stops this fetcher, not the agent (R5.7).

        It is restarted after a pause, as nothing else fetches its partitions; until then it counts as dead.
        """
        while True:
            try:
                await fetcher.run()
            except Exception:
                _log.exception("Replica fetcher failed", fetcher=name)
            self._dead_count.inc()
            try:
                await asyncio.sleep(max(self._setup.settings.replica_fetch_backoff_ms, 1) / 1000)
            finally:
                self._dead_count.dec()

    def _stop(self, key: _FetcherKey) -> None:
        running = self._running.pop(key)
        running.task.cancel()
        running.fetcher.close()
