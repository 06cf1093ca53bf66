"""The brokers of the controller context: registrations, liveness, offline log directories and damaged replicas.

A broker is live if it is registered and not shutting down (CX-1). A replica is online if its broker is live and its log
directory is not offline (CX-2). Source: Kafka ControllerContext.
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

from msgspec import Struct, field

from cluster.model.broker import Broker, BrokerEpoch, BrokerId
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.znodes.left_replicas import LeftReplicas
from controller import changes
from controller.decisions.brokers.known_damage import AwaitedReport, HeldReplica


class DamageReport(Struct):
    """What the incarnation `broker_epoch` of a broker reported. `held`: replicas that are not to be elected.

    `replaced`: those that left their ISRs, and are not in sync again yet.
    """

    broker_epoch: BrokerEpoch
    held: dict[TopicPartition, HeldReplica]
    replaced: set[TopicPartition] = field(default_factory=set)


class BrokerImage:
    """The brokers known to the active controller. `_apply_to_brokers` keeps both sets of ids consistent with them."""

    def __init__(self) -> None:
        self.brokers: dict[BrokerId, Broker] = {}
        self.broker_epochs: dict[BrokerId, BrokerEpoch] = {}
        self.shutting_down: set[BrokerId] = set()
        self.shutting_down_since: dict[BrokerId, int] = {}
        """Broker that is shutting down -> when it asked, in ms of the wall clock."""
        self.offline_directories: dict[BrokerId, set[TopicPartition]] = {}
        """Broker -> partitions whose replica on it is in an offline log directory."""
        self.damage_reports: dict[BrokerId, DamageReport] = {}
        """The last report of each broker that has named damaged replicas."""
        self.awaited_reports: dict[BrokerId, AwaitedReport] = {}
        """Registered brokers that have not joined, because they have not named their damaged replicas yet."""
        self.not_admitted: dict[BrokerId, str] = {}
        """Registered brokers that cannot join, each with why."""
        self.registered_controllers: frozenset[BrokerId] = frozenset()
        self.former_controllers: frozenset[BrokerId] = frozenset()
        self.brokers_given_up: set[BrokerId] = set()
        """Brokers that have been away for so long that topic deletions do not wait for them (D-98)."""
        self.left_replicas: dict[BrokerId, dict[str, LeftReplicas]] = {}
        """Broker -> deleted topic -> what it still has of it, until it has answered that it has deleted that."""
        self._with_left_replicas: dict[str, frozenset[BrokerId]] = {}
        """The same by topic."""
        self._live: frozenset[BrokerId] = frozenset()
        self._registered: frozenset[BrokerId] = frozenset()

    @property
    def controllers(self) -> frozenset[BrokerId]:
        return self.registered_controllers | (self.former_controllers - self._registered)

    @property
    def live_broker_ids(self) -> frozenset[BrokerId]:
        return self._live

    @property
    def live_or_shutting_down_ids(self) -> frozenset[BrokerId]:
        return self._registered

    def _apply_to_brokers(self, change: changes.BrokersChange) -> None:
        match change:
            case changes.BrokersJoined(registered):
                for broker, epoch in ((r.broker, r.epoch) for r in registered):
                    self.brokers[broker.id] = broker
                    self.broker_epochs[broker.id] = epoch
                    self.offline_directories.pop(broker.id, None)
                    if self._report_of(broker.id, epoch) is None:
                        self.damage_reports.pop(broker.id, None)
                    self.brokers_given_up.discard(broker.id)
            case changes.BrokersBounced(registered):
                # The next incarnation may have reported already: it joins after that.
                reports = {r.broker.id: self._report_of(r.broker.id, r.epoch) for r in registered}
                self._remove_brokers(list(reports))
                self.damage_reports |= {broker: report for broker, report in reports.items() if report is not None}
            case changes.BrokersDied(brokers):
                self._remove_brokers(brokers)
            case changes.BrokerModified(registered):
                assert registered.broker.id in self.broker_epochs, f"broker {registered.broker.id} is not registered"
                self.brokers[registered.broker.id] = registered.broker
            case changes.BrokersNotAdmitted(reasons):
                self.not_admitted = dict(reasons)
            case changes.ControllersListed(registered, former):
                self.registered_controllers, self.former_controllers = registered, former
            case changes.BrokerShuttingDown(broker, since_ms=since_ms):
                self.shutting_down.add(broker)
                self.shutting_down_since[broker] = since_ms
            case changes.OfflineReplicasReported(broker, partitions):
                self._set_offline_directory(broker, partitions)
            case _:
                assert_never(change)
        self._registered = frozenset(self.broker_epochs)
        self._live = self._registered - self.shutting_down

    def _apply_to_damage(self, change: changes.DamageChange) -> None:
        match change:
            case changes.DamagedReplicasReported(broker, epoch, held, until_ms=until_ms):
                self._hold(broker, epoch, {tp: HeldReplica(damage, until_ms) for tp, damage in held.items()})
            case changes.DamagedReplicasReplaced(broker, partitions):
                self.damage_reports[broker].replaced.update(partitions)
            case changes.DamagedReplicasHealed(broker, partitions):
                self.damage_reports[broker].replaced.difference_update(partitions)
            case changes.DamageReportsAwaited(reports):
                self.awaited_reports = dict(reports)
            case changes.DamagedReplicasReleased(broker, partitions):
                self._release(broker, partitions)
            case _:
                assert_never(change)

    def _remove_brokers(self, brokers: Iterable[BrokerId]) -> None:
        for broker in brokers:
            self.brokers.pop(broker, None)
            self.broker_epochs.pop(broker, None)
            self.offline_directories.pop(broker, None)
            self.damage_reports.pop(broker, None)
            self.shutting_down.discard(broker)
            self.shutting_down_since.pop(broker, None)

    def _set_offline_directory(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        offline = set(partitions)
        if offline:
            self.offline_directories[broker] = offline
        else:
            self.offline_directories.pop(broker, None)

    def forget_disk(self, broker: BrokerId, tp: TopicPartition) -> None:
        """Forget the damage of a deleted replica, and its offline log directory: a new one may be in another one."""
        report = self.damage_reports.get(broker)
        if report is not None:
            report.held.pop(tp, None)
            report.replaced.discard(tp)
        failed = self.offline_directories.get(broker)
        if failed is not None:
            failed.discard(tp)
            if not failed:
                del self.offline_directories[broker]

    def online_brokers(self, tp: TopicPartition, *, include_shutting_down: bool = False) -> frozenset[BrokerId]:
        """Brokers on which a replica of `tp` is online, or would be (CX-2, D-99)."""
        brokers = self._registered if include_shutting_down else self._live
        if self._with_left_replicas:
            brokers -= self._with_left_replicas.get(tp.topic, frozenset())
        if not self.offline_directories:
            return brokers
        return brokers - {b for b, failed in self.offline_directories.items() if tp in failed}

    # Replicas of deleted topics

    def has_left_replicas(self, broker: BrokerId, topic: str) -> bool:
        """Whether the broker still has replicas of a deleted topic of this name: it gets no others before it has
        deleted those (D-99).
        """
        return broker in self._with_left_replicas.get(topic, ())

    def _apply_to_left_replicas(self, change: changes.LeftReplicasChange) -> None:
        match change:
            case changes.BrokersGivenUp(brokers):
                self.brokers_given_up.update(brokers)
            case changes.LeftReplicasRecorded(left):
                for broker, topics in left.items():
                    self.left_replicas.setdefault(broker, {}).update(topics)
                    for topic in topics:
                        others = self._with_left_replicas.get(topic, frozenset())
                        self._with_left_replicas[topic] = others | {broker}
            case changes.LeftReplicasDeleted(broker, names):
                for topic in names:
                    self._forget_left_replicas(broker, topic)
            case _:
                assert_never(change)

    def _forget_left_replicas(self, broker: BrokerId, topic: str) -> None:
        of_broker = self.left_replicas.get(broker, {})
        of_broker.pop(topic, None)
        if not of_broker:
            self.left_replicas.pop(broker, None)
        others = self._with_left_replicas.pop(topic, frozenset()) - {broker}
        if others:
            self._with_left_replicas[topic] = others

    # Damaged replicas

    def has_reported_damage(self, broker: BrokerId, epoch: BrokerEpoch) -> bool:
        """Whether this incarnation of the broker has named its damaged replicas."""
        return self._report_of(broker, epoch) is not None

    def held_replicas(self, broker: BrokerId) -> Mapping[TopicPartition, HeldReplica]:
        """Damaged replicas on the broker that are not to be elected at present."""
        report = self.damage_reports.get(broker)
        return {} if report is None else report.held

    def electable_brokers(self, tp: TopicPartition) -> frozenset[BrokerId]:
        """Those of `online_brokers` whose replica is not held back because it is damaged (D-41)."""
        online = self.online_brokers(tp)
        if not self.damage_reports:
            return online
        return online - {broker for broker, report in self.damage_reports.items() if tp in report.held}

    def healed_replicas(self, tp: TopicPartition, isr: Iterable[BrokerId]) -> list[BrokerId]:
        """Brokers in the ISR whose replica was damaged and has been replaced."""
        reports = ((broker, self.damage_reports.get(broker)) for broker in isr)
        return [broker for broker, report in reports if report is not None and tp in report.replaced]

    def _hold(self, broker: BrokerId, epoch: BrokerEpoch, held: Mapping[TopicPartition, HeldReplica]) -> None:
        """The end of a wait does not move when the broker reports again."""
        self.awaited_reports.pop(broker, None)
        known = self._report_of(broker, epoch)
        if known is None:
            self.damage_reports[broker] = DamageReport(epoch, dict(held))
            return
        for tp, replica in held.items():
            before = known.held.get(tp)
            is_timed = before is not None and before.is_scheduled
            known.held[tp] = HeldReplica(replica.damage, before.until_ms) if before and is_timed else replica

    def _report_of(self, broker: BrokerId, epoch: BrokerEpoch) -> DamageReport | None:
        report = self.damage_reports.get(broker)
        return report if report is not None and report.broker_epoch == epoch else None

    def _release(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        report = self.damage_reports.get(broker)
        if report is not None:
            for tp in partitions:
                report.held.pop(tp, None)

    def _release_replaced(self, tp: TopicPartition, leadership: LeaderAndIsr) -> None:
        """Release a replica that leads, or that has to catch up before it can be elected."""
        for broker, report in self.damage_reports.items():
            if tp in report.held and (broker == leadership.leader or broker not in leadership.isr):
                del report.held[tp]
