"""Keeps a candidate ready to take over: while it stands by, it follows the topics and partition states in ZooKeeper.

One watch of the whole subtree names each znode that changes. What it named is read again half a second later, many
znodes at once. A controller that was elected from here reads only what is not known at that moment; nothing it has was
older than the first response after its election, because ZooKeeper sends events of earlier changes before any response
(docs/decisions/0023). Whatever disturbs that, such as a lost connection, empties what is known, down to a failover that
reads everything. Afterwards all is read again in the background, and compared.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from cluster.model.broker import ControllerEpoch
from cluster.model.errors import SessionExpiredError, ZooKeeperError
from cluster.model.partition import LeaderAndIsr, TopicAssignment, TopicPartition
from cluster.znodes.paths import BROKERS, BROKERS_TOPICS, CONTROLLER_EPOCH
from cluster.zookeeper.port import SessionState, WatchEvent, ZooKeeper
from controller.decisions.controller_epochs import epoch_in
from controller.events import StandbyDiffered
from controller.known_partitions import KnownPartitions, TakenOver, path_of
from controller.ports import PartitionReads

READS_AT_ONCE: Final = 1000
"""One request of ZooKeeper, and a few milliseconds of the event loop."""
GATHERING_S: Final = 0.5
"""How long changes are gathered before they are read: of a broker's death there are thousands, each several times."""
RETRY_S: Final = 5.0
COMPARISON_DELAY_S: Final = 30.0
"""After a failover, so that the comparison does not delay what the failover has to send."""
COMPARISON_PAUSE_S: Final = 0.05
_NAMED: Final = 10
_log = structlog.stdlib.get_logger()


class WarmStandby:
    """Of one candidate, for as long as its process lives.

    `partitions_max`: with more of them nothing is kept, and failovers read. `found_differences` gets an event if what
    was taken over was wrong; it must only enqueue it.
    """

    def __init__(
        self, zookeeper: ZooKeeper, partitions_max: int, found_differences: Callable[[StandbyDiffered], None]
    ) -> None:
        self._zookeeper, self._partitions_max = zookeeper, partitions_max
        self._found_differences = found_differences
        self.known = KnownPartitions()
        self._follows = False
        self._is_watching = False
        """Whether the server has the watch of the subtree, as it said since the last connection began."""
        self._is_listed = False
        self._generation = 0
        """Raised when events may have been missed: what was being read then does not count."""
        self._woken = asyncio.Event()
        self._taken: tuple[ControllerEpoch, TakenOver, int] | None = None
        """What is to be compared, with the controller epoch and the session in which it was taken over."""
        self.why_cold = "" if partitions_max else "klamm.standby.warm is false"
        """Why this process never follows again; empty while it may."""
        self.difference = ""
        """Where what was taken over was wrong, which is a defect; empty if nothing was."""

    @property
    def is_warm(self) -> bool:
        """Whether everything is known that a failover would read."""
        return self._follows and self._is_listed and not self.known.unread

    def follow(self, follows: bool) -> None:
        """Follow from now on, or not; called after each event of the candidate."""
        if follows is not self._follows and not self.why_cold:
            self._follows = follows
            self._forget()

    def session_changed(self, state: SessionState) -> None:
        """Forget what is known when the connection breaks; the next server may not even know watches of subtrees."""
        if state is not SessionState.CONNECTED:
            self._is_watching = False
            self._forget()
        self._woken.set()

    def reads(self, store: PartitionReads) -> PartitionReads:
        """The reads from which the controller elected now loads its context; `store` reads what is not known here."""
        return _WarmReads(self.known, self._zookeeper, store) if self._follows and self._is_watching else store

    async def loaded(self, epoch: ControllerEpoch, reads: PartitionReads) -> None:
        """Stop following, as the context of the controller of this epoch was loaded from `reads`, and compare later.

        The watch is gone afterwards, so that the controller's own writes are not reported.
        """
        self._taken = None
        if isinstance(reads, _WarmReads):
            taken = reads.taken
            self._taken = epoch, taken, self._zookeeper.session_id
            _log.info("Took over what was followed", topics=len(taken.topics), partitions=len(taken.states))
        self.follow(follows=False)
        await self._stop_watching()

    def differed(self, event: StandbyDiffered) -> None:
        """Never follow again in this process: what was taken over was wrong."""
        self.difference = f"{len(event.paths)} znodes, such as {', '.join(event.paths[:_NAMED])}"
        self._give_up(f"what was taken over differed from ZooKeeper in {self.difference}")

    async def run(self) -> None:
        """Follow and compare, until cancelled. Errors are logged, and it begins again."""
        while True:
            self._woken.clear()
            try:
                await self._work()
            except SessionExpiredError:
                # The candidate opens another one.
                await self._woken.wait()
            except Exception as error:
                # Whatever it is, a candidate is as good without it: failovers read what is not known.
                is_known = isinstance(error, ZooKeeperError)
                _log.warning("Following the partitions in ZooKeeper failed", error=repr(error), exc_info=not is_known)
                self._forget()
                await asyncio.sleep(RETRY_S)
            else:
                await self._woken.wait()
                if self._is_listed:
                    await asyncio.sleep(GATHERING_S)

    async def _work(self) -> None:
        """Do what there is to do now: read what is not known, or, after a failover, compare and stop watching."""
        if self._follows:
            await self._read_all()
            return
        await self._stop_watching()
        if self._taken is not None:
            compared, self._taken = self._taken, None
            await self._compare(*compared)

    async def _stop_watching(self) -> None:
        self._is_watching = False
        # It may be watched also if that is not known: the watch was restored with the connection, or is being armed.
        await self._zookeeper.unwatch_subtree(BROKERS)

    async def _read_all(self) -> None:
        generation = self._generation
        if not self._is_watching:
            is_known = await self._zookeeper.watch_subtree(BROKERS, self._on_change)
            if not is_known:
                self._give_up("ZooKeeper knows no watches of subtrees, as before 3.6 or with WatchManagerOptimized")
                return
            if generation != self._generation:
                # The candidate was elected meanwhile, or the connection is another one.
                return
            self._is_watching = True
        if not self._is_listed:
            names = await self._zookeeper.children(BROKERS_TOPICS)
            if generation != self._generation:
                return
            self.known.listed(names or ())
            self._is_listed = True
        while self.known.unread and generation == self._generation:
            await self._read_some()
            if self.known.partitions > self._partitions_max:
                self._give_up(f"there are more than {self._partitions_max} partitions (klamm.standby.max.partitions)")

    async def _read_some(self) -> None:
        known, generation = self.known, self._generation
        if topics := known.next_topics(READS_AT_ONCE):
            znodes = await self._zookeeper.get_many([path_of(topic) for topic in topics])
            if generation == self._generation:
                known.topics_read(topics, znodes)
            return
        partitions = known.next_states(READS_AT_ONCE)
        znodes = await self._zookeeper.get_many([path_of(tp) for tp in partitions])
        if generation == self._generation:
            known.states_read(partitions, znodes)

    async def _compare(self, epoch: ControllerEpoch, taken: TakenOver, session: int) -> None:
        """Read again what was taken over, slowly, and report what was wrong (D-122)."""
        if await self._follows_within(COMPARISON_DELAY_S):
            return
        elected = await self._zookeeper.get(CONTROLLER_EPOCH)
        if elected is None or epoch_in(elected.data) != epoch:
            # Another controller was elected, which writes what it wants.
            return
        keys: list[str | TopicPartition] = [*taken.topics, *taken.states]
        wrong: list[str] = []
        for start in range(0, len(keys), READS_AT_ONCE):
            some = keys[start : start + READS_AT_ONCE]
            znodes = await self._zookeeper.get_many([path_of(key) for key in some])
            if session != self._zookeeper.session_id:
                # ZooKeeper may have been restored from a backup, which has the zxids of changes that are undone.
                return
            pairs, since = zip(some, znodes, strict=True), elected.stat.mzxid
            wrong += [path_of(key) for key, znode in pairs if taken.differs(key, znode, elected_at=since)]
            if await self._follows_within(COMPARISON_PAUSE_S):
                return
        if wrong:
            self._found_differences(StandbyDiffered(epoch, tuple(wrong)))
        else:
            _log.info("What was taken over equals what ZooKeeper has", controller_epoch=epoch, znodes=len(keys))

    async def _follows_within(self, seconds: float) -> bool:
        """Wait; whether the candidate stands by again, so that nothing is to be compared any more."""
        try:
            async with asyncio.timeout(seconds):
                while not self._follows:
                    self._woken.clear()
                    await self._woken.wait()
        except TimeoutError:
            return False
        return True

    def _on_change(self, event: WatchEvent) -> None:
        if self._follows:
            self.known.changed(event)
            self._woken.set()

    def _forget(self) -> None:
        self._generation += 1
        self._is_listed = False
        self.known.clear()
        self._woken.set()

    def _give_up(self, why: str) -> None:
        _log.warning("Not following the partitions in ZooKeeper; a failover reads them", why=why)
        self.why_cold = why
        self._follows = False
        self._forget()


class _WarmReads:
    """Reads of a new controller: what is known without reading, the rest from the store."""

    def __init__(self, known: KnownPartitions, zookeeper: ZooKeeper, store: PartitionReads) -> None:
        self._known, self._zookeeper, self._store = known, zookeeper, store
        self._topics: dict[str, TopicAssignment] = {}
        self._states: dict[TopicPartition, LeaderAndIsr] = {}

    @property
    def taken(self) -> TakenOver:
        """The part that was not read."""
        return TakenOver(self._topics, self._states)

    async def read_topics(self, topics: Sequence[str]) -> dict[str, TopicAssignment]:
        """Arm the watches and take what is known when that is answered; read the rest.

        The response comes after the events of every change before it: what is known then is as ZooKeeper had it when
        the watches were armed. A topic that becomes known only now has no watch, and is read with one.
        """
        armed = [topic for topic in topics if topic in self._known.topics]
        await self._zookeeper.watch_many([path_of(topic) for topic in armed])
        known = self._known.topics
        self._topics = {topic: known[topic] for topic in armed if topic in known}
        read = await self._store.read_topics([topic for topic in topics if topic not in self._topics])
        found = self._topics | read
        return {topic: found[topic] for topic in topics if topic in found}

    async def read_states(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, LeaderAndIsr]:
        known = self._known.states
        self._states = {tp: known[tp] for tp in partitions if tp in known}
        unknown = [tp for tp in partitions if tp not in self._states]
        if not unknown:
            return self._states
        found = self._states | await self._store.read_states(unknown)
        return {tp: found[tp] for tp in partitions if tp in found}
