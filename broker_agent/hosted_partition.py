"""One partition replica on this agent: its role and epochs, its log, and as leader its view of the followers.

All methods are synchronous, hence atomic on the event loop: no reader sees a new leader epoch with an old
ISR (R0.6). The one exception is a role change that must reach the disk first; while it lasts, appends wait
and ISR changes are held off (`changing_role`). Source: Kafka Partition.scala.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from broker_agent.agent_metrics import IDLE, AgentMetrics, PartitionStatus
from broker_agent.decisions.high_watermark import effective_min_isr, high_watermark_candidate
from broker_agent.decisions.isr import (
    CommittedIsr,
    IsrAnswer,
    IsrState,
    PendingExpand,
    PendingIsr,
    PendingShrink,
    choose_leaving,
    classify_isr_answer,
    maximal_isr,
    may_join,
    proposed_isr,
)
from broker_agent.decisions.record_deletion import low_watermark
from broker_agent.decisions.replica_progress import ReplicaProgress, record_fetch, restart_epoch
from broker_agent.metadata_cache import MetadataCache
from broker_agent.ports import AppendInfo, Log
from cluster.broker import (
    INITIAL_CONTROLLER_EPOCH,
    INITIAL_PARTITION_EPOCH,
    NO_LEADER,
    NO_LEADER_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    Offset,
)
from cluster.partition import EMPTY_ASSIGNMENT, ReplicaAssignment, TopicPartition
from cluster.requests.agents import AlterPartitionResult
from cluster.requests.control import LeaderAndIsrPartitionState
from cluster.requests.data import FetchPartition, FetchRequest


class HostedPartition:
    """State of one online partition. A fresh one is older than any order, and has no log yet (0.2)."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        own_id: BrokerId,
        *,
        metadata: MetadataCache,
        metrics: AgentMetrics,
        lag_ms_max: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_LEADER_EPOCH
        self.partition_epoch = INITIAL_PARTITION_EPOCH
        self.controller_epoch = INITIAL_CONTROLLER_EPOCH
        self.epoch_start_offset: Offset | None = None
        self.assignment: ReplicaAssignment = EMPTY_ASSIGNMENT
        self.isr_state: IsrState = CommittedIsr(())
        self.remote: dict[BrokerId, ReplicaProgress] = {}
        self.log: Log | None = None
        self._own_id = own_id
        self._metadata = metadata
        self._metrics = metrics
        self._lag_ms_max = lag_ms_max
        self._status = IDLE
        self._role_changed: asyncio.Event | None = None
        metrics.add_partition(topic_partition)

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._own_id

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The committed ISR; empty on a follower."""
        return self.isr_state.isr

    @property
    def min_isr(self) -> int:
        """The effective `min.insync.replicas`."""
        assert self.log is not None, f"{self.topic_partition} has no log"
        return effective_min_isr(self.log.config.min_insync_replicas, len(self.assignment.replicas))

    @property
    def low_watermark(self) -> Offset:
        """From where on the leader and its live followers have records; -1 while it is not known of all of them."""
        assert self.log is not None, f"{self.topic_partition} has no log"
        return low_watermark(self.log.log_start_offset, self.remote, alive=self._metadata.snapshot.brokers)

    @contextmanager
    def changing_role(self) -> Iterator[None]:
        """Hold off appends and ISR changes until a role change has reached the disk and is carried out."""
        self._role_changed = asyncio.Event()
        try:
            yield
        finally:
            self._role_changed.set()
            self._role_changed = None

    @property
    def is_changing_role(self) -> bool:
        return self._role_changed is not None

    async def until_role_change_done(self) -> None:
        """Return when no role change is under way; code up to the next await may rely on it."""
        while self._role_changed is not None:
            await self._role_changed.wait()

    def make_leader(
        self, state: LeaderAndIsrPartitionState, *, epoch_start_offset: Offset | None, now_ms: float
    ) -> bool:
        """Lead with that ISR and assignment (R3.4 to R3.7b); returns whether another broker led before.

        `epoch_start_offset` is the log end at which the new leader epoch was begun on disk, None if the
        leader epoch is not newer. A pending ISR change is forgotten: the controller decided anew.
        """
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
            self.leader_epoch = state.leader_epoch
            self.epoch_start_offset = epoch_start_offset
        self.partition_epoch = state.partition_epoch
        self.leader_id = self._own_id
        self.update_status()
        return is_new_leader

    def make_follower(self, state: LeaderAndIsrPartitionState) -> bool:
        """Follow the named leader (R3.10); returns whether the leader epoch rose."""
        is_newer = state.leader_epoch > self.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.epoch_start_offset = None
        self.partition_epoch = state.partition_epoch
        self.remote = {}
        self._assign(state)
        self.isr_state = CommittedIsr(())
        self.update_status()
        return is_newer

    def clear(self) -> None:
        """The partition was deleted or its directory failed: whoever still holds this object finds nothing."""
        self.log = None
        self.leader_id = NO_LEADER
        self.epoch_start_offset = None
        self.remote = {}
        self.isr_state = CommittedIsr(())
        self.assignment = EMPTY_ASSIGNMENT
        self._metrics.drop_partition(self.topic_partition, self._status)
        self._status = IDLE

    def append_as_leader(self, records: bytes, now_ms: int) -> AppendInfo:
        """Append one batch in the present epoch. Raises LogAppendError, StorageError."""
        assert self._role_changed is None, f"{self.topic_partition}: append during a role change"
        assert self.log is not None, f"{self.topic_partition} has no log"
        return self.log.append_as_leader(records, self.leader_epoch, now_ms)

    def record_follower_fetch(
        self, fetch: FetchRequest, item: FetchPartition, *, leader_end_offset: Offset, now_ms: float
    ) -> bool:
        """Take the follower's position from an accepted fetch (R6.10); whether its end offset changed."""
        previous = self.remote[fetch.replica_id]
        self.remote[fetch.replica_id] = record_fetch(
            previous,
            fetch_offset=item.fetch_offset,
            log_start_offset=item.log_start_offset,
            leader_end_offset=leader_end_offset,
            broker_epoch=fetch.replica_epoch,
            now_ms=now_ms,
        )
        return previous.log_end_offset != item.fetch_offset

    def try_advance_high_watermark(self, now_ms: float) -> bool:
        """Move the high watermark as far as the followers allow (R6.18); never down."""
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
        candidate = min(candidate, self.log.durable_end_offset)
        if candidate <= self.log.high_watermark:
            return False
        self.log.set_high_watermark(candidate)
        return True

    def propose_expand(self, replica: BrokerId) -> PendingIsr | None:
        """Start taking a follower into the ISR if it may join now (R8.10)."""
        if self._role_changed is not None or self.log is None or self.epoch_start_offset is None:
            return None
        if not may_join(
            self.isr_state,
            replica,
            replica_end_offset=self.remote[replica].log_end_offset,
            high_watermark=self.log.high_watermark,
            epoch_start_offset=self.epoch_start_offset,
            is_alive=self._metadata.is_alive(replica),
        ):
            return None
        self.isr_state = proposal = PendingExpand(self.isr, replica)
        return proposal

    def epochs_of_members(self, proposal: PendingIsr) -> tuple[BrokerEpoch, ...]:
        """The broker epoch under which the joining replica fetched, in the order of the proposed ISR (KIP-903).

        Should it have been started anew since, it may have lost what it was let in for; the controller knows.
        """
        joining = proposal.joining if isinstance(proposal, PendingExpand) else None
        return tuple(
            self.remote[broker].broker_epoch if broker == joining else UNKNOWN_BROKER_EPOCH
            for broker in proposed_isr(proposal)
        )

    def propose_shrink(self, now_ms: float) -> PendingIsr | None:
        """Start taking every follower that fell behind out of the ISR, all in one proposal (R8.4)."""
        if self._role_changed is not None or self.log is None or not self.is_leader:
            return None
        leaving = choose_leaving(
            self.isr_state,
            self._own_id,
            self.remote,
            leader_end_offset=self.log.log_end_offset,
            now_ms=now_ms,
            lag_ms_max=self._lag_ms_max,
        )
        if not leaving:
            return None
        self.isr_state = proposal = PendingShrink(self.isr, leaving)
        return proposal

    def finish_isr_change(self, proposal: PendingIsr, answer: AlterPartitionResult) -> IsrAnswer | None:
        """Apply the answer to a proposal (R8.14 to R8.16); None if a role change has overtaken it.

        During a role change it is overtaken already: the controller's order is newer than its answer.
        """
        if self.isr_state is not proposal or self._role_changed is not None:
            return None
        outcome = classify_isr_answer(answer, leader_epoch=self.leader_epoch, partition_epoch=self.partition_epoch)
        if outcome is IsrAnswer.COMMIT:
            self.isr_state = CommittedIsr(answer.isr)
            self.partition_epoch = answer.partition_epoch
            self.update_status()
        elif outcome is IsrAnswer.REVERT:
            self.isr_state = CommittedIsr(proposal.isr)
        return outcome

    def _assign(self, state: LeaderAndIsrPartitionState) -> None:
        self.assignment = ReplicaAssignment(state.replicas, state.adding_replicas, state.removing_replicas)

    def update_status(self) -> None:
        """Have the gauges show the present; after each change of role, ISR or settings."""
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
