"""The state of one replica between two callbacks of the loop, and the invariants of a single replica."""

from itertools import pairwise
from typing import NamedTuple

from broker_agent.decisions.isr import IsrState, maximal_isr
from broker_agent.log.partition_log import PartitionLog
from broker_agent.replication.hosted_partition import HostedPartition
from cluster.model.broker import BrokerId
from cluster.model.partition import LeaderAndIsr
from simulator.replica_contents import BatchIdentity
from simulator.violations import violated


class ReplicaView(NamedTuple):
    """One replica at one moment; equal views mean that nothing has changed."""

    partition: HostedPartition
    log: PartitionLog
    end: int
    high_watermark: int
    start: int
    leads: bool
    leader_epoch: int
    partition_epoch: int
    isr_state: IsrState

    @property
    def maximal(self) -> frozenset[int]:
        return frozenset(maximal_isr(self.isr_state))

    def end_of(self, member: int) -> int:
        """A follower's log end as known by this leader."""
        return self.partition.remote[BrokerId(member)].log_end_offset


class ObservedReplica:
    """The observed state of one broker's replica: last view, and its batches by base offset, in order."""

    def __init__(self, view: ReplicaView) -> None:
        self.view = view
        self.batches: dict[int, BatchIdentity] = {}
        self.controller_epoch = 0

    def last(self) -> BatchIdentity | None:
        return next(reversed(self.batches.values()), None)

    def ending_at(self, end: int) -> BatchIdentity | None:
        """The batch whose last offset is `end` - 1."""
        return next((batch for batch in reversed(self.batches.values()) if batch.last == end - 1), None)


def view_of(partition: HostedPartition, log: PartitionLog) -> ReplicaView:
    return ReplicaView(
        partition,
        log,
        log.log_end_offset,
        log.high_watermark,
        log.log_start_offset,
        partition.is_leader,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.isr_state,
    )


def check_offsets(broker: int, before: ReplicaView, view: ReplicaView) -> None:
    """Offsets are in order and the log start never decreases. Raises ViolationError (P1, P24)."""
    if not 0 <= view.start <= view.high_watermark <= view.end:
        raise violated("P1", f"broker {broker}: {view}")
    if view.log.recovery_point > view.end:
        raise violated("P1", f"broker {broker}: recovery point {view.log.recovery_point} of {view}")
    if view.start < before.start:
        raise violated("P24", f"broker {broker}: the log start went from {before.start} back to {view.start}")


def check_successor(broker: int, before: BatchIdentity | None, batch: BatchIdentity) -> None:
    """Batches are contiguous, and their epochs never decrease. Raises ViolationError (P2)."""
    if before is not None and (batch.base != before.last + 1 or batch.epoch < before.epoch):
        raise violated("P2", f"broker {broker}: {before} then {batch}")


def check_epochs(broker: int, replica: ObservedReplica, view: ReplicaView) -> None:
    """The epoch cache increases and agrees with the batches. Raises ViolationError (P3)."""
    entries = view.log.epoch_entries
    for earlier, later in pairwise(entries):
        if earlier.epoch >= later.epoch or earlier.start_offset >= later.start_offset:
            raise violated("P3", f"broker {broker}: {entries}")
    if not entries:
        if replica.batches:
            raise violated("P3", f"broker {broker} has batches without epochs")
        return
    if entries[-1].start_offset > view.end:
        raise violated("P3", f"broker {broker}: {entries} end at {view.end}")
    changing = view.partition.is_changing_role or view.leader_epoch < 0  # Loaded, but without a role yet.
    if not changing and entries[-1].epoch > view.leader_epoch:
        raise violated("P3", f"broker {broker}: {entries} in {view}")
    remaining = list(entries)
    for batch in replica.batches.values():
        while len(remaining) > 1 and remaining[1].start_offset <= batch.base:
            del remaining[0]
        if remaining[0].start_offset > batch.base:
            raise violated("P3", f"broker {broker}: {batch} before {entries}")
        if remaining[0].epoch != batch.epoch:
            raise violated("P3", f"broker {broker}: {batch} in {entries}")


def check_epochs_rise(broker: int, before: ReplicaView, view: ReplicaView) -> None:
    """The epochs of one replica never decrease. Raises ViolationError (P17)."""
    if view.leader_epoch < before.leader_epoch:
        raise violated("P17", f"broker {broker}: leader epoch {before.leader_epoch} then {view.leader_epoch}")
    if before.leader_epoch >= 0 and view.partition_epoch < before.partition_epoch:
        raise violated("P17", f"broker {broker}: partition epoch {before.partition_epoch} then {view.partition_epoch}")


def check_isr_of_leader(broker: int, view: ReplicaView) -> None:
    """The ISR on a leader contains it, and only replicas, each once. Raises ViolationError (P4, P5)."""
    isr = view.isr_state.committed
    if broker not in isr:
        raise violated("P4", f"leader {broker} is not in its ISR {isr}")
    if len(set(isr)) != len(isr):
        raise violated("P5", f"leader {broker}: the ISR {isr} names a broker twice")
    if not set(isr) <= set(view.partition.assignment.replicas):
        raise violated("P5", f"leader {broker}: the ISR {isr} has members outside {view.partition.assignment}")


def check_isr_in_zookeeper(before: LeaderAndIsr | None, state: LeaderAndIsr) -> None:
    """The ISR has the leader and each member once; epochs never decrease. Raises ViolationError (P4, P5, P17)."""
    if not state.isr:
        raise violated("P4", "the ISR in ZooKeeper is empty")
    if state.leader != -1 and state.leader not in state.isr:
        raise violated("P4", f"the leader in ZooKeeper is outside the ISR: {state}")
    if len(set(state.isr)) != len(state.isr):
        raise violated("P5", f"the ISR in ZooKeeper names a broker twice: {state}")
    if before is None:
        return
    if state.partition_epoch <= before.partition_epoch or state.leader_epoch < before.leader_epoch:
        raise violated("P17", f"{before} then {state}")
