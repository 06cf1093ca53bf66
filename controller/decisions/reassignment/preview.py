"""What moves would do at once, told without doing it: the same decisions, on the side."""

from cluster.broker import BrokerId, ControllerId
from cluster.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.requests.plans import Plan, PlannedChange
from cluster.state_machines import ReplicaState
from controller.decisions.broker_requests import ControlBatch, RequestSettings
from controller.decisions.context_view import ContextView
from controller.decisions.partitions.leader_election import choose_reassigned_leader, next_leadership
from controller.decisions.partitions.replica_states import remove_from_isr
from controller.decisions.plans import described_partition, planned_requests
from controller.decisions.reassignment.phases import Assignments, is_complete, plan_epoch_raises


def preview_reassignment(
    view: ContextView, wanted: Assignments, controller: ControllerId, settings: RequestSettings
) -> Plan:
    """The lists, leaders and epochs that follow from recording the moves, and the requests that would be queued.

    A move that has to copy stops there; one whose targets are all in sync is shown complete.
    """
    preview = _Preview(view)
    changes = tuple(preview.take(tp, wanted[tp]) for tp in wanted)
    return Plan(changes, planned_requests(preview.batches, controller, settings))


class _Preview:
    """The batches that the steps of the engine would send, one per step."""

    def __init__(self, view: ContextView) -> None:
        self._view = view
        self._unneeded, self._deletion = ControlBatch(view), ControlBatch(view)
        self._announcement, self._arrival = ControlBatch(view), ControlBatch(view)
        self._online, self._election, self._leader_moves = ControlBatch(view), ControlBatch(view), ControlBatch(view)
        self._removal, self._removal_deletion, self._end = ControlBatch(view), ControlBatch(view), ControlBatch(view)

    @property
    def batches(self) -> tuple[ControlBatch, ...]:
        return (
            self._unneeded,
            self._deletion,
            self._announcement,
            self._arrival,
            self._online,
            self._election,
            self._leader_moves,
            self._removal,
            self._removal_deletion,
            self._end,
        )

    def take(self, tp: TopicPartition, wanted: ReplicaAssignment) -> PlannedChange:
        view = self._view
        before = view.assignment(tp)
        leadership = view.leaderships.get(tp)
        unneeded = [b for b in before.replicas if b not in wanted.replicas]
        after = self._stop((self._unneeded, self._deletion), tp, unneeded, leadership, wanted)
        assignment = wanted
        if after is None:
            pass
        elif is_complete(wanted, after):
            assignment = ReplicaAssignment(wanted.target)
            self._bring_online(tp, after, wanted)
            after = self._move_leader(tp, after, assignment)
            after = self._stop((self._removal, self._removal_deletion), tp, wanted.removing, after, assignment)
            self._end.add_update_metadata_for_all([tp])
        else:
            after = self._raise_epoch(tp, after)
            self._announcement.add_leader_and_isr(wanted.original, tp, after, wanted, is_new=False)
            self._announcement.add_leader_and_isr(wanted.adding, tp, after, wanted, is_new=True)
            # The move to NewReplica says it to the new ones once more, as in Kafka.
            fresh = [b for b in wanted.adding if view.replica_state(b, tp) is ReplicaState.NON_EXISTENT]
            if fresh:
                self._arrival.add_leader_and_isr(fresh, tp, after, wanted, is_new=True)
        return PlannedChange(
            tp.topic,
            described_partition(view, tp, leadership, before),
            described_partition(view, tp, after, assignment),
        )

    def _move_leader(self, tp: TopicPartition, leadership: LeaderAndIsr, target: ReplicaAssignment) -> LeaderAndIsr:
        online = self._view.online_brokers(tp)
        if leadership.leader in target.replicas and leadership.leader in online:
            batch, moved = self._leader_moves, self._raise_epoch(tp, leadership)
        else:
            choice = choose_reassigned_leader(target.replicas, leadership.isr, online)
            if choice is None:
                return leadership
            recovery_state = leadership.leader_recovery_state
            batch = self._election
            moved = next_leadership(leadership, choice.leader, choice.isr, self._view.epoch, recovery_state)
        batch.add_leader_and_isr(target.replicas, tp, moved, target, is_new=False)
        return moved

    def _bring_online(self, tp: TopicPartition, leadership: LeaderAndIsr, wanted: ReplicaAssignment) -> None:
        """Replicas that arrived under an earlier order, and are no new ones any more, hear what there is."""
        for broker in wanted.adding:
            if self._view.replica_state(broker, tp) in (ReplicaState.ONLINE, ReplicaState.OFFLINE):
                self._online.add_leader_and_isr((broker,), tp, leadership, wanted, is_new=False)

    def _raise_epoch(self, tp: TopicPartition, leadership: LeaderAndIsr) -> LeaderAndIsr:
        return plan_epoch_raises(self._view, {tp: leadership}).writes.get(tp, leadership)

    def _stop(
        self,
        batches: tuple[ControlBatch, ControlBatch],
        tp: TopicPartition,
        brokers: list[BrokerId] | tuple[BrokerId, ...],
        leadership: LeaderAndIsr | None,
        assignment: ReplicaAssignment,
    ) -> LeaderAndIsr | None:
        removal, deletion = batches
        for broker in sorted(brokers):
            removal.add_stop_replica(broker, tp, delete=False)
            deletion.add_stop_replica(broker, tp, delete=True)
            if leadership is not None:
                leadership = remove_from_isr(leadership, broker, self._view.epoch) or leadership
                removal.add_leader_and_isr(assignment.replicas, tp, leadership, assignment, is_new=False)
        return leadership
