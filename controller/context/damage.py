"""The damaged replicas that brokers have named, and which of them are not to be elected at present."""

from collections.abc import Iterable, Mapping
from typing import assert_never

from msgspec import Struct, field

from cluster.model.broker import BrokerEpoch, BrokerId
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import ReplicaState
from controller import changes
from controller.context.brokers import BrokerControl
from controller.decisions.brokers.known_damage import AwaitedReport, HeldReplica


class DamageReport(Struct):
    """Holds what the incarnation `broker_epoch` of a broker reported. `held`: replicas that are not to be elected.

    `replaced`: those that left their ISRs, and are not in sync again yet.
    """

    broker_epoch: BrokerEpoch
    held: dict[TopicPartition, HeldReplica]
    replaced: set[TopicPartition] = field(default_factory=set)


class DamageControl:
    """Damaged replicas by broker (D-41)."""

    def __init__(self, brokers: BrokerControl) -> None:
        self._brokers = brokers
        self.reports: dict[BrokerId, DamageReport] = {}
        """The last report of each broker that has named damaged replicas."""
        self.awaited_reports: dict[BrokerId, AwaitedReport] = {}
        """Registered brokers that have not joined, because they have not named their damaged replicas yet (D-42)."""

    def apply(self, change: changes.DamageChange) -> None:
        """Take a change into memory."""
        match change:
            case changes.DamagedReplicasReported(broker, epoch, held, until_ms=until_ms):
                self._hold(broker, epoch, {tp: HeldReplica(damage, until_ms) for tp, damage in held.items()})
            case changes.DamagedReplicasReplaced(broker, partitions):
                self.reports[broker].replaced.update(partitions)
            case changes.DamagedReplicasHealed(broker, partitions):
                self.reports[broker].replaced.difference_update(partitions)
            case changes.DamagedReplicasReleased(broker, partitions):
                for tp in partitions:
                    self._release(broker, tp)
            case changes.BrokersNotAdmitted(awaited=awaited):
                self.awaited_reports = dict(awaited)
            case changes.BrokersJoined(registered) | changes.BrokersBounced(registered):
                # The next incarnation may have reported already: it joins after that.
                self._forget(r.broker.id for r in registered if not self.has_reported(r.broker.id, r.epoch))
            case changes.BrokersDied(brokers):
                self._forget(brokers)
            case changes.LeadershipsRead() | changes.LeadershipsWritten() | changes.LeadersElected():
                self._release_replaced(change.leaderships)
            case changes.ReplicasMoved() | changes.TopicsRemoved():
                self._forget_deleted(change)
            case _:
                assert_never(change)

    def has_reported(self, broker: BrokerId, epoch: BrokerEpoch) -> bool:
        """Whether this incarnation of the broker has named its damaged replicas."""
        report = self.reports.get(broker)
        return report is not None and report.broker_epoch == epoch

    def held_on(self, broker: BrokerId) -> Mapping[TopicPartition, HeldReplica]:
        """Damaged replicas on the broker that are not to be elected at present."""
        report = self.reports.get(broker)
        return {} if report is None else report.held

    def electable_brokers(self, tp: TopicPartition) -> frozenset[BrokerId]:
        """The brokers of `brokers.online_for` whose replica is not held back because it is damaged (D-41)."""
        online = self._brokers.online_for(tp)
        if not self.reports:
            return online
        return online - {broker for broker, report in self.reports.items() if tp in report.held}

    def healed_replicas(self, tp: TopicPartition, isr: Iterable[BrokerId]) -> list[BrokerId]:
        """Brokers in the ISR whose replica was damaged and has been replaced."""
        reports = ((broker, self.reports.get(broker)) for broker in isr)
        return [broker for broker, report in reports if report is not None and tp in report.replaced]

    def _hold(self, broker: BrokerId, epoch: BrokerEpoch, held: Mapping[TopicPartition, HeldReplica]) -> None:
        """The end of a wait does not move when the broker reports again."""
        self.awaited_reports.pop(broker, None)
        if not self.has_reported(broker, epoch):
            self.reports[broker] = DamageReport(epoch, dict(held))
            return
        known = self.reports[broker].held
        for tp, replica in held.items():
            before = known.get(tp)
            is_timed = before is not None and before.is_scheduled
            known[tp] = HeldReplica(replica.damage, before.until_ms) if before and is_timed else replica

    def _release(self, broker: BrokerId, tp: TopicPartition) -> None:
        if broker in self.reports:
            self.reports[broker].held.pop(tp, None)

    def _forget(self, brokers: Iterable[BrokerId]) -> None:
        for broker in brokers:
            self.reports.pop(broker, None)

    def _forget_deleted(self, change: changes.ReplicasMoved | changes.TopicsRemoved) -> None:
        """Forget the damage of deleted replicas: nothing of it is in a replica that is created later."""
        for broker, report in self.reports.items():
            known = report.held.keys() | report.replaced
            if isinstance(change, changes.TopicsRemoved):
                deleted = {tp for tp in known if tp.topic in change.topics}
            elif change.broker == broker and change.target is ReplicaState.NON_EXISTENT:
                deleted = known.intersection(change.partitions)
            else:
                continue
            for tp in deleted:
                report.held.pop(tp, None)
            report.replaced -= deleted

    def _release_replaced(self, leaderships: changes.Leaderships) -> None:
        """Release replicas that lead, or that have to catch up before they can be elected."""
        for broker, report in self.reports.items():
            for tp in report.held.keys() & leaderships.keys():
                if leaderships[tp].leader == broker or broker not in leaderships[tp].isr:
                    del report.held[tp]

    def copy_to(self, copy: "DamageControl") -> None:
        """Copy everything into the context of a rehearsal."""
        copy.reports = {
            broker: DamageReport(report.broker_epoch, dict(report.held), set(report.replaced))
            for broker, report in self.reports.items()
        }
        copy.awaited_reports = dict(self.awaited_reports)
