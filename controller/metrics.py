"""Metrics of a controller under Kafka's names, and the phases of a failover.

Gauges are copied from counters kept by the context; nothing is counted at scrape time.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from cluster.metrics.registry import Metrics, Samples
from cluster.model.broker import NO_CONTROLLER, ControllerEpoch, ControllerId
from cluster.model.partition import TopicPartition
from cluster.model.state_machines import ReplicaState
from controller.context.controller_context import ControllerContext
from controller.context.since import AddedSince
from controller.controller_state import TIMER_OF_STATE, ControllerState
from controller.known_partitions import KnownPartitions

DOMAIN: Final = "kafka.controller"
_OWN_DOMAIN: Final = "klamm.controller"
_OLDEST_EVENT: Final = (_OWN_DOMAIN, "ControllerEventManager", "OldestEventAgeMs")
_GAUGES: Final = (
    "ActiveControllerCount",
    "ControllerState",
    "OfflinePartitionsCount",
    "PreferredReplicaImbalanceCount",
    "GlobalTopicCount",
    "GlobalPartitionCount",
    "TopicsToDeleteCount",
    "ReplicasToDeleteCount",
    "TopicsIneligibleToDeleteCount",
    "ReplicasIneligibleToDeleteCount",
    "ActiveBrokerCount",
    "FencedBrokerCount",
)


class ControllerMetrics:
    """The KafkaController gauges, the ControllerStats timers and the event queue metrics."""

    def __init__(self, registry: Metrics) -> None:
        self.registry = registry
        self._gauges = {name: registry.gauge(DOMAIN, "KafkaController", name) for name in _GAUGES}
        self._timers = {
            state: registry.timer(DOMAIN, "ControllerStats", name) for state, name in TIMER_OF_STATE.items()
        }
        self.unclean_elections = registry.meter(DOMAIN, "ControllerStats", "UncleanLeaderElectionsPerSec")
        self.queue_size = registry.gauge(DOMAIN, "ControllerEventManager", "EventQueueSize")
        self.queue_time_ms = registry.histogram(DOMAIN, "ControllerEventManager", "EventQueueTimeMs")
        self.oldest_event_at: float | None = None
        """When the oldest event that is queued or being processed arrived, in event loop time."""
        self._deletions: AddedSince[str] = AddedSince()
        self._reassignments: AddedSince[TopicPartition] = AddedSince()
        self._register_ages()
        # Counted by the channels of an active controller; registered here so that the other candidates expose 0.
        registry.gauge(DOMAIN, "ControllerChannelManager", "TotalQueueSize")
        self.current_controller_id = registry.gauge("kafka.server", "MetadataLoader", "CurrentControllerId")
        self.current_controller_id.set(NO_CONTROLLER)
        self._epoch = registry.gauge(_OWN_DOMAIN, "Election", "ControllerEpoch")

    def show_state(self, state: ControllerState) -> None:
        self._gauges["ControllerState"].set(state)

    def time_state(self, state: ControllerState, duration_ms: float) -> None:
        timer = self._timers.get(state)
        if timer is not None:
            timer.update_ms(duration_ms)

    def show_active_controller(self, active_controller_id: ControllerId, epoch: ControllerEpoch | None) -> None:
        """Set the active controller's id and, if it is this candidate, its epoch; None if it is not.

        Set at the election, not after its event: a failover may take long, and the controller is active from the start.
        """
        self.current_controller_id.set(active_controller_id)
        self._gauges["ActiveControllerCount"].set(epoch is not None)
        self._epoch.set(0 if epoch is None else epoch)

    def show(self, context: ControllerContext | None) -> None:
        """Set the gauges from the context; zeros for a candidate that is not active (INV-11)."""
        for name, value in _counts(context).items():
            self._gauges[name].set(value)
        self._deletions = AddedSince() if context is None else context.deletions.queued_since
        self._reassignments = AddedSince() if context is None else context.topics.reassigned_since

    def _register_ages(self) -> None:
        """A scrape subtracts two numbers; what is the oldest is known by then."""
        clock = asyncio.get_running_loop().time

        def age(since: Callable[[], float | None]) -> Callable[[], Samples]:
            def read() -> Samples:
                began = since()
                yield {}, 0 if began is None else max(0.0, clock() - began) * 1000

            return read

        def show(type_: str, members: Callable[[], AddedSince[Any]]) -> None:
            self.registry.readings(_OWN_DOMAIN, type_, "OldestAgeMs", age(lambda: members().oldest))
            self.registry.readings(_OWN_DOMAIN, type_, "InProgressCount", lambda: [({}, len(members()))])

        self.registry.readings(*_OLDEST_EVENT, age(lambda: self.oldest_event_at))
        show("TopicDeletion", lambda: self._deletions)
        show("PartitionReassignment", lambda: self._reassignments)

    def show_standby(self, known: KnownPartitions) -> None:
        """Show from now on how much of the cluster is known while this candidate stands by."""
        self.registry.readings(_OWN_DOMAIN, "Standby", "KnownPartitions", lambda: [({}, len(known.states))])
        self.registry.readings(_OWN_DOMAIN, "Standby", "UnreadZnodes", lambda: [({}, known.unread)])

    def remove_event_loop(self) -> None:
        """Remove the metrics of the event loop (EV-7)."""
        self.registry.remove(*_OLDEST_EVENT)
        self.registry.remove(DOMAIN, "ControllerEventManager", "EventQueueSize")
        self.registry.remove(DOMAIN, "ControllerEventManager", "EventQueueTimeMs")

    def remove_gauges(self) -> None:
        for name in _GAUGES:
            self.registry.remove(DOMAIN, "KafkaController", name)


def _counts(context: ControllerContext | None) -> dict[str, int]:
    if context is None:
        return {name: 0 for name in _GAUGES if name not in {"ActiveControllerCount", "ControllerState"}}
    deleting = _replicas_to_delete(context)
    return {
        "OfflinePartitionsCount": context.leaderships.offline_partition_count,
        "PreferredReplicaImbalanceCount": context.leaderships.preferred_replica_imbalance_count,
        "GlobalTopicCount": len(context.topics.names),
        "GlobalPartitionCount": len(context.leaderships.known),
        "TopicsToDeleteCount": len(context.deletions.queued),
        "ReplicasToDeleteCount": deleting.total() - deleting[ReplicaState.DELETION_SUCCESSFUL],
        "TopicsIneligibleToDeleteCount": len(context.deletions.ineligible),
        "ReplicasIneligibleToDeleteCount": deleting[ReplicaState.DELETION_INELIGIBLE],
        "ActiveBrokerCount": len(context.brokers.registered_ids),
    }


def _replicas_to_delete(context: ControllerContext) -> Counter[ReplicaState]:
    """Number of replicas in each state, over all topics marked for deletion."""
    total: Counter[ReplicaState] = Counter()
    for topic in context.deletions.queued:
        total.update(context.replicas.by_state(topic))
    return total


class FailoverTimings:
    """Gauges of the phases of one failover, in ms. Load, ReplicaMachine and PartitionMachine are durations; Sent,
    FirstAcknowledgement and LastAcknowledgement are times since the election. -1: not yet.
    """

    PHASES: Final = (
        "Load",
        "ReplicaMachine",
        "PartitionMachine",
        "Sent",
        "FirstAcknowledgement",
        "LastAcknowledgement",
    )

    def __init__(self, registry: Metrics, elected_at: float, vacant_since: float | None = None) -> None:
        """Time a failover. `elected_at` and all times passed to this class are those of the event loop, in seconds.

        `vacant_since`: when this controller first saw that none was active; None: another one was.
        """
        self._gauges = {name: registry.gauge(_OWN_DOMAIN, "Failover", f"{name}Ms") for name in self.PHASES}
        for gauge in self._gauges.values():
            gauge.set(-1)
        self._elected_at, self._vacant_since = elected_at, vacant_since
        self._phase_began = elected_at
        self._requests = self._answers = 0
        self._sending = True

    def vacant_ms(self, now: float) -> int | None:
        """Find for how long this controller has seen that no other one was active, in ms; None: another one was."""
        return None if self._vacant_since is None else round((now - self._vacant_since) * 1000)

    def end_phase(self, name: str, now: float) -> None:
        self._gauges[name].set((now - self._phase_began) * 1000)
        self._phase_began = now

    def sent(self, now: float) -> None:
        """Record that all requests of the failover were queued."""
        self._sending = False
        self._gauges["Sent"].set((now - self._elected_at) * 1000)
        self._see_last(now)

    def request_queued(self) -> bool:
        """Count a request if the failover is still sending; returns whether it was counted."""
        self._requests += self._sending
        return self._sending

    def request_answered(self, now: float) -> None:
        self._answers += 1
        if self._answers == 1:
            self._gauges["FirstAcknowledgement"].set((now - self._elected_at) * 1000)
        self._see_last(now)

    def as_fields(self) -> dict[str, float]:
        return {f"{name}_ms": round(gauge.value, 1) for name, gauge in self._gauges.items()}

    def _see_last(self, now: float) -> None:
        if not self._sending and self._answers == self._requests:
            self._gauges["LastAcknowledgement"].set((now - self._elected_at) * 1000)
