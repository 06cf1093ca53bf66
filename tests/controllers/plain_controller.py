"""A controller written the plain way, to compare the real one with.

It takes one partition after the other, in the order of the rules, over dicts that stand for ZooKeeper: no transactions,
no indexes, no waiting. So little can go wrong in it that what it writes, and what it tells each broker of each
partition, is what the real one must write and tell. Deleting topics is left out, and so is what ZooKeeper refuses.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from cluster.model.broker import NO_LEADER, BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from cluster.model.hash_order import in_hash_order
from cluster.model.partition import RECOVERED, RECOVERING, LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import (
    PREVIOUS_PARTITION_STATES,
    PREVIOUS_REPLICA_STATES,
    PartitionState,
    ReplicaState,
)
from cluster.requests.control import LeaderAndIsrPartitionState, StopReplicaPartitionState, UpdateMetadataPartitionState

P, R = PartitionState, ReplicaState
SentState = LeaderAndIsrPartitionState | StopReplicaPartitionState | UpdateMetadataPartitionState
Choice = tuple[BrokerId, tuple[BrokerId, ...], tuple[BrokerId, ...], bool] | None
"""Leader, ISR, who is told, and whether the leader was out of sync."""
Choose = Callable[[TopicPartition, LeaderAndIsr], Choice]


class _Letters:
    """What brokers are told at once: LeaderAndIsr, then UpdateMetadata, then StopReplica."""

    def __init__(self, sender: "PlainController") -> None:
        self._sender = sender
        self._leaders: dict[BrokerId, dict[TopicPartition, SentState]] = defaultdict(dict)
        self._metadata: dict[TopicPartition, SentState] = {}
        self._metadata_for: set[BrokerId] = set()
        self._stops: dict[BrokerId, dict[TopicPartition, SentState]] = defaultdict(dict)

    def lead(self, brokers: Iterable[BrokerId], tp: TopicPartition, new: bool = False) -> None:
        now, assigned = self._sender.leaderships[tp], self._sender.assignments[tp]
        for broker in brokers:
            earlier = self._leaders[broker].get(tp)
            self._leaders[broker][tp] = LeaderAndIsrPartitionState(
                tp.partition,
                now.controller_epoch,
                now.leader,
                now.leader_epoch,
                now.isr,
                now.partition_epoch,
                assigned.replicas,
                assigned.adding,
                assigned.removing,
                new or (isinstance(earlier, LeaderAndIsrPartitionState) and earlier.is_new),
                now.leader_recovery_state,
            )
        self.announce(self._sender.known, [tp])

    def announce(self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition]) -> None:
        self._metadata_for.update(brokers)
        for tp in partitions:
            now = self._sender.leaderships.get(tp)
            if now is not None:
                replicas = self._sender.assignments[tp].replicas
                self._metadata[tp] = UpdateMetadataPartitionState(
                    tp.partition,
                    now.controller_epoch,
                    now.leader,
                    now.leader_epoch,
                    now.isr,
                    now.partition_epoch,
                    replicas,
                    tuple(b for b in replicas if b not in self._sender.live),
                )

    def stop(self, broker: BrokerId, tp: TopicPartition, delete: bool) -> None:
        now = self._sender.leaderships.get(tp)
        epoch = LeaderEpoch(-1) if now is None else now.leader_epoch
        self._stops[broker][tp] = StopReplicaPartitionState(tp.topic, tp.partition, epoch, delete)

    def send(self) -> None:
        for letters in (self._leaders, dict.fromkeys(self._metadata_for, self._metadata), self._stops):
            for broker in self._sender.channels & letters.keys() & self._sender.known.keys():
                for tp, sent in letters[broker].items():
                    self._sender.sent[broker, tp].append(sent)


class PlainController:
    """Change `brokers` and `topics` as tools and brokers would, then call what the controller does about it."""

    def __init__(self) -> None:
        self.brokers: dict[BrokerId, BrokerEpoch] = {}
        self.topics: dict[str, dict[int, ReplicaAssignment]] = {}
        self.states: dict[TopicPartition, LeaderAndIsr] = {}
        self.epoch = ControllerEpoch(0)
        self.become_active()

    def become_active(self) -> None:
        """Make anew whatever was in memory (FO-6 to FO-12)."""
        self.epoch = ControllerEpoch(self.epoch + 1)
        self.sent: dict[tuple[BrokerId, TopicPartition], list[SentState]] = defaultdict(list)
        self.known, self.channels = dict(self.brokers), set(self.brokers)
        self.shutting_down: set[BrokerId] = set()
        self.assignments = {TopicPartition(t, p): a for t, of_topic in self.topics.items() for p, a in of_topic.items()}
        self.leaderships = dict(self.states)
        self.moving = {tp for tp, a in self.assignments.items() if a.is_being_reassigned}
        replicas = [(b, tp) for tp, a in self.assignments.items() for b in a.replicas]
        self.replica_states = {(b, tp): R.ONLINE if b in self.live else R.DELETION_INELIGIBLE for b, tp in replicas}
        self.move_replicas([r for r in replicas if r[0] in self.live], R.ONLINE)
        self.move_replicas([r for r in replicas if r[0] not in self.live], R.OFFLINE)
        self.partition_states = {tp: self._first_state(tp) for tp in self.assignments}
        self.elect_where_needed()
        for tp in sorted(self.moving):
            self.reassign(tp, self.assignments[tp])

    @property
    def live(self) -> set[BrokerId]:
        return self.known.keys() - self.shutting_down

    # The two machines

    def move_partitions(self, partitions: Iterable[TopicPartition], target: P, choose: Choose | None = None) -> None:
        letters = _Letters(self)
        for tp in list(partitions):
            state = self.partition_states.get(tp, P.NON_EXISTENT)
            if state not in PREVIOUS_PARTITION_STATES[target]:
                continue
            if target is not P.ONLINE:
                self.partition_states[tp] = target
            elif state is P.NEW:
                self._initialise(letters, tp)
            elif choose is not None:
                self._elect(letters, tp, choose(tp, self.states[tp]))
        letters.send()

    def move_replicas(self, replicas: Iterable[tuple[BrokerId, TopicPartition]], target: R) -> None:
        letters = _Letters(self)
        by_broker: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
        for broker, tp in replicas:
            by_broker[broker].append(tp)
        for broker in in_hash_order(by_broker):
            for tp in by_broker[broker]:
                state = self.replica_states.get((broker, tp), R.NON_EXISTENT)
                if state in PREVIOUS_REPLICA_STATES[target]:
                    self.replica_states[broker, tp] = target
                    self._tell_of_move(letters, broker, tp, state, target)
        letters.send()

    def _tell_of_move(self, letters: _Letters, broker: BrokerId, tp: TopicPartition, before: R, target: R) -> None:
        led = tp in self.leaderships
        match target:
            case R.NEW if led:
                letters.lead([broker], tp, new=True)
            case R.ONLINE if led and before is not R.NEW:
                letters.lead([broker], tp)
            case R.OFFLINE:
                letters.stop(broker, tp, delete=False)
                if led:
                    self._leave_isr(broker, tp)
                    letters.lead([b for b in self.assignments[tp].replicas if b != broker], tp)
                else:
                    letters.announce(self.known, [tp])
            case R.DELETION_STARTED:
                letters.stop(broker, tp, delete=True)
            case R.NON_EXISTENT:
                del self.replica_states[broker, tp]

    def _initialise(self, letters: _Letters, tp: TopicPartition) -> None:
        live = tuple(b for b in self.assignments[tp].replicas if b in self.live)
        if live:
            self._write(tp, LeaderAndIsr(live[0], LeaderEpoch(0), live, self.epoch, PartitionEpoch(0)))
            letters.lead(live, tp, new=True)
            self.partition_states[tp] = P.ONLINE

    def _elect(self, letters: _Letters, tp: TopicPartition, choice: Choice) -> None:
        if choice is not None:
            leader, isr, sent, unclean = choice
            self._write_next(tp, leader, isr, recovering=unclean)
            letters.lead(sent, tp)
            self.partition_states[tp] = P.ONLINE

    def _leave_isr(self, broker: BrokerId, tp: TopicPartition) -> None:
        now = self.states[tp]
        if broker in now.isr and self._stays_in_isr(broker, tp):
            if broker == now.leader:
                self._write_next(tp, NO_LEADER, now.isr)
            else:
                self.leaderships[tp] = replace(now, controller_epoch=self.epoch)
        elif broker in now.isr:
            leader = NO_LEADER if now.leader == broker else now.leader
            self._write_next(tp, leader, tuple(b for b in now.isr if b != broker) or now.isr)
        else:
            self.leaderships[tp] = replace(now, controller_epoch=self.epoch)

    def _stays_in_isr(self, broker: BrokerId, tp: TopicPartition) -> bool:
        """Whether no broker is registered at all, so that none of the members is the last one (D-120)."""
        has_others = set(self.states[tp].isr) != {broker}
        return has_others and not self.known and broker not in self.assignments[tp].removing

    def _write_next(
        self, tp: TopicPartition, leader: BrokerId, isr: tuple[BrokerId, ...], *, recovering: bool = False
    ) -> None:
        now = self.states[tp]
        epochs = LeaderEpoch(now.leader_epoch + 1), PartitionEpoch(now.partition_epoch + 1)
        recovery = RECOVERING if recovering else now.leader_recovery_state
        self._write(tp, LeaderAndIsr(leader, epochs[0], isr, self.epoch, epochs[1], recovery))

    def _write(self, tp: TopicPartition, leadership: LeaderAndIsr) -> None:
        self.states[tp] = self.leaderships[tp] = leadership

    def _first_state(self, tp: TopicPartition) -> P:
        if tp not in self.leaderships:
            return P.NEW
        return P.ONLINE if self.leaderships[tp].leader in self.live else P.OFFLINE

    # Who shall lead

    def offline(self, tp: TopicPartition, now: LeaderAndIsr, *, allow_unclean: bool = False) -> Choice:
        live = tuple(b for b in self.assignments[tp].replicas if b in self.live)
        isr = tuple(b for b in now.isr if b in self.live)
        if isr or not (allow_unclean and live):
            return next(((b, isr, live, False) for b in live if b in isr), None)
        return live[0], live[:1], live, True

    def unclean(self, tp: TopicPartition, now: LeaderAndIsr) -> Choice:
        return self.offline(tp, now, allow_unclean=True)

    def preferred(self, tp: TopicPartition, now: LeaderAndIsr) -> Choice:
        replicas = self.assignments[tp].replicas
        first = replicas[0]
        return (first, now.isr, replicas, False) if first in self.live and first in now.isr else None

    def reassigned(self, tp: TopicPartition, now: LeaderAndIsr) -> Choice:
        target = self.assignments[tp].target
        return next(((b, now.isr, target, False) for b in target if b in self.live and b in now.isr), None)

    def _one_of(self, staying: Sequence[BrokerId], tp: TopicPartition, now: LeaderAndIsr) -> Choice:
        recipients = self.assignments[tp].replicas
        return next(((b, now.isr, recipients, False) for b in staying if b in self.live and b in now.isr), None)

    def staying(self, tp: TopicPartition, now: LeaderAndIsr) -> Choice:
        there = tuple(b for b in self.assignments[tp].replicas if b in self.known)
        isr = tuple(b for b in now.isr if b not in self.shutting_down)
        return next(((b, isr, there, False) for b in there if b in isr), None)

    def elect_where_needed(self) -> None:
        waiting = [tp for tp, state in self.partition_states.items() if state in (P.OFFLINE, P.NEW)]
        self.move_partitions(waiting, P.ONLINE, self.offline)

    # What happens

    def brokers_changed(self) -> None:
        new = [b for b in sorted(self.brokers) if b not in self.known]
        bounced = [b for b in sorted(self.brokers) if b in self.known and self.brokers[b] > self.known[b]]
        dead = [b for b in sorted(self.known) if b not in self.brokers]
        self.channels = set(self.brokers)
        if new:
            self._brokers_started(new)
        if bounced:
            self._brokers_failed(bounced)
            self._brokers_started(bounced)
        if dead:
            self._brokers_failed(dead)

    def _brokers_started(self, brokers: Sequence[BrokerId]) -> None:
        self.known |= {b: self.brokers[b] for b in brokers}
        letters = _Letters(self)
        letters.announce(brokers, self.leaderships)
        letters.send()
        self.move_replicas([(b, tp) for b in brokers for tp in self._hosted(b)], R.ONLINE)
        self.elect_where_needed()
        for tp in sorted(self.moving):
            if not set(brokers).isdisjoint(self.assignments[tp].target):
                self.reassign(tp, self.assignments[tp])

    def _brokers_failed(self, brokers: Sequence[BrokerId]) -> None:
        for broker in brokers:
            del self.known[broker]
        self.shutting_down.difference_update(brokers)
        self.move_partitions([tp for tp, now in self.leaderships.items() if now.leader not in self.live], P.OFFLINE)
        self.elect_where_needed()
        self.move_replicas([(b, tp) for b in brokers for tp in self._hosted(b)], R.OFFLINE)

    def shut_down(self, broker: BrokerId) -> None:
        self.shutting_down.add(broker)
        hosted = [
            tp for tp in self._hosted(broker) if tp in self.leaderships and len(self.assignments[tp].replicas) > 1
        ]
        led = [tp for tp in hosted if self.leaderships[tp].leader == broker]
        self.move_partitions(led, P.ONLINE, self.staying)
        self.move_replicas([(broker, tp) for tp in hosted if tp not in led], R.OFFLINE)

    def partitions_added(self) -> None:
        """Topics are new, or have grown."""
        listed = {TopicPartition(t, p): a for t, of_topic in self.topics.items() for p, a in of_topic.items()}
        added = [tp for tp in listed if tp not in self.assignments]
        self.assignments |= {tp: listed[tp] for tp in added}
        replicas = [(b, tp) for tp in added for b in listed[tp].replicas]
        self.move_partitions(added, P.NEW)
        self.move_replicas(replicas, R.NEW)
        self.move_partitions(added, P.ONLINE, self.offline)
        self.move_replicas(replicas, R.ONLINE)

    def isr_asked_for(self, tp: TopicPartition, isr: tuple[BrokerId, ...]) -> None:
        """Its leader asks, which has recovered if there was something to recover from."""
        now = self.states[tp]
        if (isr, RECOVERED) != (now.isr, now.leader_recovery_state):
            epoch = PartitionEpoch(now.partition_epoch + 1)
            self._write(tp, LeaderAndIsr(now.leader, now.leader_epoch, isr, self.epoch, epoch))
        letters = _Letters(self)
        letters.announce(self.known, [tp])
        letters.send()
        if tp in self.moving and self._is_complete(tp, self.assignments[tp]):
            self.reassign(tp, self.assignments[tp])

    def reassign(self, tp: TopicPartition, wanted: ReplicaAssignment) -> None:
        unneeded = [b for b in self.assignments[tp].replicas if b not in wanted.replicas]
        known = self.leaderships.get(tp)
        if known is not None and known.leader in unneeded:
            self.move_partitions([tp], P.ONLINE, lambda tp, now: self._one_of(wanted.replicas, tp, now))
        self._assign(tp, wanted)
        leave_isr = not set(unneeded).isdisjoint(self.states[tp].isr)
        if leave_isr:
            self._remove_replicas(tp, unneeded)
        self._start_or_complete(tp, wanted)
        if not leave_isr:
            # Under the epoch that was raised just now.
            self._remove_replicas(tp, unneeded)

    def _start_or_complete(self, tp: TopicPartition, wanted: ReplicaAssignment) -> None:
        self.moving.add(tp)
        adding = [(b, tp) for b in wanted.adding]
        if self._is_complete(tp, wanted):
            self.move_replicas(adding, R.ONLINE)
            self._complete(tp, wanted)
            return
        now = self.states[tp]
        self._write_next(tp, now.leader, now.isr)
        letters = _Letters(self)
        letters.lead(wanted.original, tp)
        letters.lead(wanted.adding, tp, new=True)
        letters.send()
        self.move_replicas(adding, R.NEW)

    def _complete(self, tp: TopicPartition, done: ReplicaAssignment) -> None:
        self.assignments[tp] = ReplicaAssignment(done.target)
        now = self.leaderships[tp]
        if now.leader in done.target and now.leader in self.live:
            self._write_next(tp, now.leader, now.isr)
            letters = _Letters(self)
            letters.lead(done.target, tp)
            letters.send()
        else:
            self.move_partitions([tp], P.ONLINE, self.reassigned)
        self._remove_replicas(tp, done.removing)
        self._assign(tp, ReplicaAssignment(done.target))
        self.moving.remove(tp)
        letters = _Letters(self)
        letters.announce(self.known, [tp])
        letters.send()

    def _remove_replicas(self, tp: TopicPartition, brokers: Sequence[BrokerId]) -> None:
        for state in (R.OFFLINE, R.DELETION_STARTED, R.DELETION_SUCCESSFUL, R.NON_EXISTENT):
            self.move_replicas([(b, tp) for b in brokers], state)

    def _assign(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.topics[tp.topic][tp.partition] = self.assignments[tp] = assignment

    def _is_complete(self, tp: TopicPartition, assignment: ReplicaAssignment) -> bool:
        return not assignment.is_being_reassigned or set(assignment.target) <= set(self.states[tp].isr)

    def _hosted(self, broker: BrokerId) -> list[TopicPartition]:
        return [tp for tp, assignment in self.assignments.items() if broker in assignment.replicas]


def sent_by_partition(
    sent: Mapping[tuple[BrokerId, TopicPartition], Sequence[SentState]],
) -> dict[str, list[SentState]]:
    """For comparing: by broker and partition in words, without those that were told nothing."""
    return {f"broker {broker} of {tp}": list(states) for (broker, tp), states in sent.items() if states}
