"""Replays what controllers of Apache Kafka decided, from their state-change.log.

The log does not say which brokers were live, nor why a leader was elected. So the code makes a decision if it does so
under some liveness and strategy that the decision itself leaves open: an election keeps the live members of the ISR, so
who stays in it was live, and who leaves it was not.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cluster.model.bounds import LEADER_EPOCH_IN_ZNODE
from cluster.model.broker import (
    NO_LEADER,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    PartitionEpoch,
    RegisteredBroker,
    ZkVersion,
)
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from cluster.model.state_machines import PartitionState
from controller import changes
from controller.context.controller_context import ControllerContext
from controller.decisions.partitions.leader_election import (
    ControlledShutdown,
    Offline,
    Preferred,
    Reassign,
    Strategy,
    plan_elections,
)
from controller.decisions.partitions.partition_states import plan_initialisations
from controller.decisions.partitions.replica_states import plan_isr_removals
from controller.replay.case import DecisionCase
from controller.replay.replay import Replayed
from controller.replay.term import ReplayedTerm, has_leadership, leadership_of
from controller.replay.verdicts import NO_STATE_BEFORE, OtherDecision, Undecided, Verdict, with_deviation
from state_log.kafka.files import KafkaFiles, is_compressed, is_kafka_name
from state_log.kafka.lines import CONTROLLER, HEADER, line_of, record_of
from state_log.kafka.local_time import LocalTimes
from state_log.kafka.message_fields import UnclearMessageError
from state_log.reader import files_below, numbered_lines
from state_log.record import Kind, LoggedStateChange

LIVENESS: Final = "which brokers were live, and why leaders were elected: Kafka's log leaves that to its decisions"
_ANY_EPOCH: Final = ControllerEpoch(0)
_REMOVED: Final = re.compile(r"replica (-?\d+) leaves the ISR")
_REPLICAS: Final = "the replicas of the partition"
_EPOCHS_WRAP: Final = "D-43"
"""Kafka's leader epoch wraps; klamm elects nobody above the highest."""


class KafkaStates:
    """What logs of a cluster say of the states of partitions, and of their replicas.

    Topics have no ids there: where one was created again under its name, its controller's own last lines count.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[TopicPartition, int], LeaderAndIsr | None] = {}
        self._replicas: dict[TopicPartition, tuple[BrokerId, ...] | None] = {}
        self._own_states: dict[tuple[str, TopicPartition], LeaderAndIsr] = {}
        self._own_replicas: dict[tuple[str, TopicPartition], tuple[BrokerId, ...]] = {}

    def add(self, record: LoggedStateChange) -> None:
        """Take over a record of any log. Of what logs contradict one another in, nothing is known."""
        if (tp := partition_of(record)) is None:
            return
        if record.replicas is not None and self._replicas.setdefault(tp, record.replicas) != record.replicas:
            self._replicas[tp] = None
        if has_leadership(record) and record.isr is not None:
            state = leadership_of(record, _ANY_EPOCH)
            if self._states.setdefault((tp, state.partition_epoch), state) != state:
                self._states[tp, state.partition_epoch] = None

    def follow(self, record: LoggedStateChange) -> None:
        """Take over the next record of the log that is being replayed."""
        if (tp := partition_of(record)) is None:
            return
        if record.replicas is not None:
            self._own_replicas[record.node, tp] = record.replicas
        if has_leadership(record) and record.isr is not None:
            self._own_states[record.node, tp] = leadership_of(record, _ANY_EPOCH)

    def before(self, node: str, tp: TopicPartition, state: LeaderAndIsr) -> LeaderAndIsr | None:
        """The state that `state` replaced, or that it is, where nothing was written; None if no log has it."""
        own = self._own_states.get((node, tp))
        if own is not None and own.partition_epoch in {state.partition_epoch - 1, state.partition_epoch}:
            return own
        return self._states.get((tp, PartitionEpoch(state.partition_epoch - 1)))

    def replicas(self, node: str, tp: TopicPartition) -> tuple[BrokerId, ...] | None:
        return self._own_replicas.get((node, tp)) or self._replicas.get(tp)


def partition_of(record: LoggedStateChange) -> TopicPartition | None:
    """The partition that a record is about; None if it is about none."""
    if record.topic is None or record.partition is None:
        return None
    return TopicPartition(record.topic, record.partition)


class _Given(NamedTuple):
    """What is assumed for a decision. `leaving`: brokers that are shutting down."""

    epoch: ControllerEpoch
    tp: TopicPartition
    replicas: tuple[BrokerId, ...]

    def view(self, live: Iterable[BrokerId], leaving: Sequence[BrokerId] = ()) -> ControllerContext:
        context = ControllerContext(self.epoch, ZkVersion(0))
        registered = tuple(RegisteredBroker(Broker(b, ()), BrokerEpoch(0)) for b in dict.fromkeys((*live, *leaving)))
        context.apply(changes.TopicsListed((self.tp.topic,)))
        context.apply(changes.AssignmentsRead({self.tp: ReplicaAssignment(tuple(dict.fromkeys(self.replicas)))}))
        context.apply(changes.BrokersJoined(registered))
        for broker in leaving:
            context.apply(changes.BrokerShuttingDown(broker, BrokerEpoch(0)))
        return context


def replay_kafka_records(records: Sequence[LoggedStateChange], replayed: Replayed) -> None:
    """Replay the records of all of Kafka's controllers; those of its brokers say what the states were."""
    states = KafkaStates()
    for record in records:
        states.add(record)
    nodes = {record.node for record in records if record.node.startswith(CONTROLLER)}
    replayed.logs += len(nodes)
    for record in (r for r in records if r.node.startswith(CONTROLLER)):
        tp = partition_of(record)
        if tp is None or record.kind not in {Kind.PARTITION, Kind.ISR} or not has_leadership(record):
            states.follow(record)
            continue
        verdict = _check(DecisionCase(ReplayedTerm(record), tp, record), states)
        states.follow(record)
        if isinstance(verdict, Undecided):
            replayed.add_undecided(verdict.missing, verdict.record)
            continue
        replayed.decisions["Kafka: ISR" if record.kind is Kind.ISR else "Kafka: election"] += 1
        if verdict is not None:
            replayed.others.append(verdict)
    if nodes:
        replayed.assumed[LIVENESS] += 1


def _check(case: DecisionCase, states: KafkaStates) -> Verdict:
    record, decided, tp = case.record, case.decided, case.tp
    replicas = record.replicas or states.replicas(record.node, tp)
    if replicas is None and record.kind is Kind.PARTITION:
        return Undecided(record.reference, case.name, _REPLICAS)
    given = _Given(case.term.epoch, tp, replicas or ())
    if record.from_state == PartitionState.NEW:
        plan = plan_initialisations(given.view(decided.isr), [tp])
        return case.against(plan.failures.get(tp) or plan.creations[tp])
    before = states.before(record.node, tp, decided)
    if before is None:
        return Undecided(record.reference, case.name, NO_STATE_BEFORE)
    verdict = _check_isr(case, given, before) if record.kind is Kind.ISR else _check_election(case, given, before)
    if isinstance(verdict, OtherDecision) and before.leader_epoch >= LEADER_EPOCH_IN_ZNODE.maximum:
        return with_deviation(verdict, _EPOCHS_WRAP)
    return verdict


def _check_isr(case: DecisionCase, given: _Given, before: LeaderAndIsr) -> Verdict:
    """The state is logged as well where the broker was not in the ISR, and nothing was written."""
    named = _REMOVED.search(case.record.reason or "")
    assert named is not None, "the reason of such a line names the replica"
    broker = BrokerId(int(named[1]))
    plan = plan_isr_removals(given.view(()), broker, {case.tp: before}, shrinks_to_last=True)
    if case.tp in plan.unchanged and before.partition_epoch != case.decided.partition_epoch:
        # Somebody else wrote the state that the line has.
        return Undecided(case.record.reference, case.name, NO_STATE_BEFORE)
    return case.against(plan.writes.get(case.tp) or plan.failures.get(case.tp) or plan.unchanged[case.tp])


def _check_election(case: DecisionCase, given: _Given, before: LeaderAndIsr) -> Verdict:
    decided, outcomes = case.decided, []
    for strategy, view in _possibilities(case, given, before):
        plan = plan_elections(view, {case.tp: before}, strategy, {case.tp.topic: True}, mark_recovering=False)
        outcomes.append(plan.failures.get(case.tp) or plan.writes[case.tp])
    return None if decided in outcomes else case.against(outcomes[0])


def _possibilities(
    case: DecisionCase, given: _Given, before: LeaderAndIsr
) -> Iterator[tuple[Strategy, ControllerContext]]:
    decided, all_brokers = case.decided, (*given.replicas, *before.isr)
    stay = [b for b in decided.isr if b in before.isr]
    unclean = [] if decided.leader == NO_LEADER or stay else [decided.leader]
    yield Offline(), given.view(stay or unclean)
    if case.record.from_state == PartitionState.OFFLINE:
        return
    yield Preferred(), given.view(all_brokers)
    yield Reassign({case.tp: (decided.leader,)}), given.view(all_brokers)
    leaving = [b for b in before.isr if b not in decided.isr]
    # Who stays in the ISR before the leader in the assignment, and does not lead, was not live.
    first = given.replicas.index(decided.leader) if decided.leader in given.replicas else 0
    yield ControlledShutdown(), given.view((b for b in all_brokers if b not in given.replicas[:first]), leaving)


def read_kafka_records(folders: Iterable[Path], zone: str, replayed: Replayed) -> Iterator[LoggedStateChange]:
    """The records of Kafka's logs in these folders. `zone`: of their local times."""
    times, files, seen = LocalTimes(zone), KafkaFiles(), set[str]()
    for path in files_below(folders, lambda name: is_kafka_name(name) and not is_compressed(name)):
        identity = files.identify(path)
        if identity is None or identity in seen:
            continue
        seen.add(identity)
        for offset, raw in numbered_lines(path):
            found = HEADER.fullmatch(raw.decode(errors="replace").removesuffix("\r"))
            try:
                line = None if found is None else line_of(offset, found, lambda second: times.moment(second).first_ms)
            except (UnclearMessageError, ValueError, OverflowError):
                replayed.add_undecided("lines that are no records", f"{path} at byte {offset}")
                continue
            record = None if line is None else record_of(line, identity)
            if record is not None:
                yield record
