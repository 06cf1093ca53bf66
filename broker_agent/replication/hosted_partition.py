"""One partition replica on this agent: role, epochs, log, and as leader the progress of the followers.

All methods are synchronous, hence atomic on the event loop: no reader sees a new leader epoch with an old ISR (R0.6).
The exception is a role change that must be flushed to disk first; until it is done, appends wait and ISR changes are
blocked (`changing_role`). Appends also wait while a copy in another log directory takes the place of the log
(`being_swapped`). Source: Kafka Partition.scala.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker_agent.agent_metrics import IDLE, AgentMetrics, PartitionStatus
from broker_agent.decisions.high_watermark import effective_min_isr, high_watermark_candidate
from broker_agent.decisions.isr import (
    CommittedIsr,
    IsrAnswer,
    IsrProposal,
    IsrState,
    classify_isr_answer,
    maximal_isr,
    propose_expand,
    propose_shrink,
)
from broker_agent.decisions.record_deletion import low_watermark
from broker_agent.decisions.replica_progress import ReplicaProgress, record_fetch, record_idle_fetch, restart_epoch
from broker_agent.log.append_info import AppendInfo
from broker_agent.log.partition_log import PartitionLog
from broker_agent.metadata_cache import MetadataCache
from broker_agent.replica_changes import RoleTaken
from cluster.model.broker import (
    INITIAL_CONTROLLER_EPOCH,
    INITIAL_PARTITION_EPOCH,
    NO_LEADER,
    NO_LEADER_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    BrokerId,
    Offset,
)
from cluster.model.partition import EMPTY_ASSIGNMENT, ReplicaAssignment, TopicPartition
from cluster.requests.agents import AlterPartitionResult
from cluster.requests.control import LeaderAndIsrPartitionState
from cluster.requests.data import FetchPartition, FetchRequest


class HostedPartition:
    """State of one online partition. A new one has an epoch below that of any request, and no log yet."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        own_id: BrokerId,
        *,
        metadata: MetadataCache,
        metrics: AgentMetrics,
        lag_ms_max: int,
        on_change: Callable[[TopicPartition], None],
    ) -> None:
        """`on_change`: told of each change that a fetch may see, before one of role or ISR and after one of the log."""
        self.topic_partition = topic_partition
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_LEADER_EPOCH
        self.partition_epoch = INITIAL_PARTITION_EPOCH
        self.controller_epoch = INITIAL_CONTROLLER_EPOCH
        self.epoch_start_offset: Offset | None = None
        self.assignment: ReplicaAssignment = EMPTY_ASSIGNMENT
        self.isr_state: IsrState = CommittedIsr(())
        self.remote: dict[BrokerId, ReplicaProgress] = {}
        self.times_followed = 0
        """How often it became a follower. What is appended is this leader's as long as the number stays the same."""
        self._fetched: set[BrokerId] = set()
        """Followers that have fetched in this leader epoch."""
        self._log: PartitionLog | None = None
        self._on_change = on_change
        self.future_log: PartitionLog | None = None
        """The copy that is being made in another log directory; nobody else reads from it."""
        self._own_id = own_id
        self._metadata = metadata
        self._metrics = metrics
        self._lag_ms_max = lag_ms_max
        self._status = IDLE
        self._role_changed: asyncio.Event | None = None
        self._swapped: asyncio.Event | None = None
        self.unrecorded_role: RoleTaken | None = None
        """The role that is not in the state-change log yet: it goes before an ISR of its epoch."""
        metrics.add_partition(topic_partition)

    @property
    def log(self) -> PartitionLog | None:
        """The log that is read and appended to; None before it is opened, and after it was deleted or went offline."""
        return self._log

    @log.setter
    def log(self, log: PartitionLog | None) -> None:
        self._log = log
        if log is not None:
            log.on_change = self.changed
        self.changed()

    def changed(self) -> None:
        """Tell that fetches of the partition may be answered in another way from now on."""
        self._on_change(self.topic_partition)

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._own_id

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The committed ISR; empty on a follower."""
        return self.isr_state.committed

    @property
    def min_isr(self) -> int:
        """The effective `min.insync.replicas`."""
        assert self.log is not None, f"{self.topic_partition} has no log"
        return effective_min_isr(self.log.config.min_insync_replicas, len(self.assignment.replicas))

    @property
    def low_watermark(self) -> Offset:
        """The offset from which the leader, its copy in another directory, and all live followers have records; -1
        while unknown for one of them.
        """
        assert self.log is not None, f"{self.topic_partition} has no log"
        start = self.log.log_start_offset
        if self.future_log is not None:
            start = min(start, self.future_log.log_start_offset)
        return low_watermark(start, self.remote, alive=self._metadata.snapshot.brokers)

    @contextmanager
    def changing_role(self) -> Iterator[None]:
        """Block appends and ISR changes until a role change is durable and complete."""
        self._role_changed = asyncio.Event()
        try:
            yield
        finally:
            self._role_changed.set()
            self._role_changed = None

    @property
    def is_changing_role(self) -> bool:
        return self._role_changed is not None

    @contextmanager
    def being_swapped(self) -> Iterator[None]:
        """Let appends wait while the copy takes the place of the log."""
        self._swapped = asyncio.Event()
        try:
            yield
        finally:
            self._swapped.set()
            self._swapped = None

    @property
    def takes_appends(self) -> bool:
        """Whether neither a role change nor a swap is in progress."""
        return self._role_changed is None and self._swapped is None

    async def until_it_takes_appends(self) -> None:
        """Return when `takes_appends`; this holds until the caller's next await."""
        while (in_progress := self._role_changed or self._swapped) is not None:
            await in_progress.wait()

    def make_leader(
        self, state: LeaderAndIsrPartitionState, *, epoch_start_offset: Offset | None, now_ms: float
    ) -> bool:
        """Become leader with this ISR and assignment (R3.4 to R3.7b); returns whether another broker led before.

        `epoch_start_offset`: the log end at which the new leader epoch was written to disk, None if the leader epoch is
        not newer. A pending ISR change is dropped, as the controller has decided since.
        """
        self.changed()
        is_new_leader = not self.is_leader
        self.controller_epoch = state.controller_epoch
        self._assign(state)
        self.isr_state = CommittedIsr(state.isr)
        self.remote = {
            broker: self.remote.get(broker, ReplicaProgress()) for broker in state.replicas if broker != self._own_id
        }
        if epoch_start_offset is not None:
            self.remote = {
                broker: restart_epoch(
                    progress,
                    is_new_leader=is_new_leader,
                    in_isr=broker in state.isr,
                    epoch_start_offset=epoch_start_offset,
                    now_ms=now_ms,
                )
                for broker, progress in self.remote.items()
            }
            self._fetched.clear()
            self.leader_epoch = state.leader_epoch
            self.epoch_start_offset = epoch_start_offset
        self.partition_epoch = state.partition_epoch
        self.leader_id = self._own_id
        self.update_status()
        return is_new_leader

    def make_follower(self, state: LeaderAndIsrPartitionState) -> None:
        """Become follower of the given leader (R3.10)."""
        self.changed()
        self.times_followed += 1
        self.controller_epoch = state.controller_epoch
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.epoch_start_offset = None
        self.partition_epoch = state.partition_epoch
        self.remote = {}
        self._assign(state)
        self.isr_state = CommittedIsr(())
        self.update_status()

    def take_copy(self) -> None:
        """Let the copy be the log from now on: role, epochs and offsets are unchanged (R11.12)."""
        assert self.log is not None, f"{self.topic_partition} has no log"
        assert self.future_log is not None, f"{self.topic_partition} has no copy"
        self.future_log.follow(self.log)
        self.log, self.future_log = self.future_log, None

    def clear(self) -> None:
        """Reset after deletion or a directory failure, for holders of this object."""
        self.log = self.future_log = None  # Which tells of the change, too.
        self.leader_id = NO_LEADER
        self.epoch_start_offset = None
        self.remote = {}
        self.isr_state = CommittedIsr(())
        self.assignment = EMPTY_ASSIGNMENT
        self._metrics.drop_partition(self.topic_partition, self._status)
        self._status = IDLE

    def append_as_leader(self, records: bytes, now_ms: int) -> AppendInfo:
        """Append one batch in the current epoch. Raises LogAppendError, StorageError."""
        assert self.takes_appends, f"{self.topic_partition}: append during a role change or swap"
        assert self.log is not None, f"{self.topic_partition} has no log"
        return self.log.append_as_leader(records, self.leader_epoch, now_ms)

    def is_of_earlier_incarnation(self, fetch: FetchRequest) -> bool:
        """Whether a later incarnation of the follower has fetched already.

        Only fetches of this leader epoch count: earlier ones are fenced by the leader epoch, and after a restore of
        ZooKeeper a broker has a lower epoch than before.
        """
        if fetch.replica_epoch == UNKNOWN_BROKER_EPOCH or fetch.replica_id not in self._fetched:
            return False
        return fetch.replica_epoch < self.remote[fetch.replica_id].broker_epoch

    def record_follower_fetch(
        self, fetch: FetchRequest, item: FetchPartition, *, leader_end_offset: Offset, now_ms: float
    ) -> tuple[bool, IsrProposal | None]:
        """Update the follower's progress from an accepted fetch (R6.10); returns whether its end offset changed, and
        the proposal to add it to the ISR if it may join now (R8.10).
        """
        previous = self.remote[fetch.replica_id]
        if fetch.replica_epoch != previous.broker_epoch:
            self.changed()  # What an earlier incarnation of the follower asked is refused from now on.
        self._fetched.add(fetch.replica_id)
        self.remote[fetch.replica_id] = record_fetch(
            previous,
            fetch_offset=item.fetch_offset,
            log_start_offset=item.log_start_offset,
            leader_end_offset=leader_end_offset,
            broker_epoch=fetch.replica_epoch,
            now_ms=now_ms,
        )
        return previous.log_end_offset != item.fetch_offset, self._propose_expand(fetch.replica_id)

    def has_fetched_all(self, replica: BrokerId, item: FetchPartition) -> bool:
        """Whether the follower is in the ISR, and known to have all records up to the log end, where it fetches."""
        progress = self.remote.get(replica)
        return (
            progress is not None
            and self.log is not None
            and item.fetch_offset == progress.log_end_offset == self.log.log_end_offset
            and replica in self.isr
        )

    def record_idle_fetch(self, replica: BrokerId, item: FetchPartition, at_ms: float) -> None:
        """Update the follower's progress from a fetch in its session at the time when it had fetched all (R6.10)."""
        progress = self.remote.get(replica)
        if progress is not None and progress.log_end_offset == item.fetch_offset:
            self.remote[replica] = record_idle_fetch(progress, at_ms)

    def try_advance_high_watermark(self, now_ms: float) -> bool:
        """Advance the high watermark as far as the followers allow (R6.18); never lowers it."""
        # Below `min.insync.replicas` no record may become visible: too few copies would exist if the leader failed now.
        if not self.is_leader or self.log is None or len(self.isr) < self.min_isr:
            return False
        candidate = high_watermark_candidate(
            self.log.log_end_offset,
            self.remote,
            maximal_isr=maximal_isr(self.isr_state),
            alive=self._metadata.snapshot.brokers,
            now_ms=now_ms,
            lag_ms_max=self._lag_ms_max,
        )
        # Followers count by what they have fetched; the leader itself, where `flush.messages` says so, by its disk.
        candidate = min(candidate, self.log.durable_end_offset)
        if candidate <= self.log.high_watermark:
            return False
        self.log.set_high_watermark(candidate)
        return True

    @property
    def _may_propose(self) -> bool:
        return self._role_changed is None

    def _propose_expand(self, replica: BrokerId) -> IsrProposal | None:
        if not self._may_propose or self.log is None or self.epoch_start_offset is None:
            return None
        proposal = propose_expand(
            self.isr_state,
            replica,
            self.remote[replica],
            high_watermark=self.log.high_watermark,
            epoch_start_offset=self.epoch_start_offset,
            is_alive=self._metadata.is_alive(replica),
        )
        self.isr_state = proposal or self.isr_state
        return proposal

    def propose_shrink(self, now_ms: float) -> IsrProposal | None:
        """Propose to remove all lagging followers from the ISR, in one proposal (R8.4)."""
        if not self._may_propose or self.log is None or not self.is_leader:
            return None
        proposal = propose_shrink(
            self.isr_state,
            self._own_id,
            self.remote,
            leader_end_offset=self.log.log_end_offset,
            now_ms=now_ms,
            lag_ms_max=self._lag_ms_max,
        )
        self.isr_state = proposal or self.isr_state
        return proposal

    def finish_isr_change(self, proposal: IsrProposal, answer: AlterPartitionResult) -> IsrAnswer | None:
        """Apply the response to a proposal (R8.14 to R8.16); None if a role change superseded the proposal.

        It is superseded as soon as the role change starts: the controller's request is newer than its response.
        """
        if self.isr_state is not proposal or self._role_changed is not None:
            return None
        outcome = classify_isr_answer(answer, leader_epoch=self.leader_epoch, partition_epoch=self.partition_epoch)
        if outcome is IsrAnswer.COMMIT:
            self.changed()
            self.isr_state = CommittedIsr(answer.isr)
            self.partition_epoch = answer.partition_epoch
            self.update_status()
        elif outcome is IsrAnswer.REVERT:
            self.isr_state = CommittedIsr(proposal.committed)
        return outcome

    def _assign(self, state: LeaderAndIsrPartitionState) -> None:
        self.assignment = ReplicaAssignment(state.replicas, state.adding_replicas, state.removing_replicas)

    def update_status(self) -> None:
        """Update the gauges; called after each change of role, ISR or settings."""
        status = self._present_status()
        if status != self._status:
            self._metrics.change_status(self.topic_partition, self._status, status)
            self._status = status

    def _present_status(self) -> PartitionStatus:
        if not self.is_leader or self.log is None:
            return IDLE
        size, min_isr = len(self.isr), self.min_isr
        return PartitionStatus(
            leads=True,
            under_replicated=len(self.assignment.original) > size,
            under_min_isr=size < min_isr,
            at_min_isr=size == min_isr,
            reassigning=self.assignment.is_being_reassigned,
            in_sync_replicas=size,
            replicas=len(self.assignment.replicas),
        )
