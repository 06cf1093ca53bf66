"""A broker wants to leave in order: what moves away from it, and what its absence would cost.

Source: Kafka KafkaController.doControlledShutdown.
"""

from collections.abc import Mapping

from msgspec import Struct

from cluster.broker import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, ControllerId
from cluster.errors import ErrorCode
from cluster.partition import LeaderAndIsr, TopicPartition
from cluster.requests.elections import PlanControlledShutdownResponse, ThreatenedPartition
from cluster.requests.plans import Plan
from controller.decisions.broker_requests import ControlBatch, RequestSettings
from controller.decisions.context_view import ContextView
from controller.decisions.partitions.leader_election import ControlledShutdown, Election, plan_elections
from controller.decisions.partitions.replica_states import IsrRemovalPlan, plan_isr_removals
from controller.decisions.plans import planned_change, planned_requests


def refuse_controlled_shutdown(view: ContextView, broker: BrokerId, broker_epoch: BrokerEpoch) -> ErrorCode:
    """Why a broker is not let go, NONE if it is (CS-2 to CS-5).

    A higher epoch than the known one is good: the broker may hear of its registration first (FN-10).
    """
    known = view.broker_epochs.get(broker)
    if known is None:
        return ErrorCode.BROKER_NOT_AVAILABLE
    if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < known:
        return ErrorCode.STALE_BROKER_EPOCH
    return ErrorCode.NONE


class Duties(Struct, frozen=True):
    """Partitions that a broker leads, and those it follows, as far as others have replicas of them too."""

    led: tuple[TopicPartition, ...]
    followed: tuple[TopicPartition, ...]


def duties_of(view: ContextView, broker: BrokerId) -> Duties:
    """What a controlled shutdown acts on (CS-7). A partition with one replica has nowhere to go (CS-14)."""
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    queued, leaderships = view.topics_to_be_deleted, view.leaderships
    for tp in view.partitions_on_broker(broker):
        leadership = leaderships.get(tp)
        if leadership is None or tp.topic in queued or len(view.assignment(tp).replicas) == 1:
            continue
        (led if leadership.leader == broker else followed).append(tp)
    return Duties(tuple(led), tuple(followed))


class Forecast(Struct, frozen=True):
    """What a controlled shutdown would write: elections where the broker leads, ISR removals where it follows."""

    elections: tuple[Election, ...]
    removals: IsrRemovalPlan


def forecast_controlled_shutdown(view: ContextView, broker: BrokerId) -> Forecast:
    """The decisions of a controlled shutdown as if it had been asked for now; the view stays as it is."""
    duties = duties_of(view, broker)
    elections = plan_elections(
        view,
        {tp: view.leaderships[tp] for tp in duties.led},
        ControlledShutdown(leaving=frozenset((broker,))),
        {},
        mark_recovering=False,
    )
    removals = plan_isr_removals(view, broker, {tp: view.leaderships[tp] for tp in duties.followed})
    return Forecast(elections.elections, removals)


def describe_controlled_shutdown(
    view: ContextView,
    broker: BrokerId,
    min_insync_replicas: Mapping[str, int],
    controller: ControllerId,
    settings: RequestSettings,
) -> PlanControlledShutdownResponse:
    """The forecast in the terms of the API. `min_insync_replicas`: what is in force per topic of this broker."""
    forecast = forecast_controlled_shutdown(view, broker)
    after = {e.topic_partition: e.leadership for e in forecast.elections} | forecast.removals.writes
    leaderless: list[ThreatenedPartition] = []
    below_min_isr: list[ThreatenedPartition] = []
    for tp in view.partitions_on_broker(broker):
        leadership = view.leaderships.get(tp)
        if leadership is None or tp.topic in view.topics_to_be_deleted:
            continue
        if leadership.leader not in view.online_brokers(tp, include_shutting_down=True):
            # It has no leader now, so nothing is lost.
            continue
        threat = _threat(view, broker, tp, leadership, min_insync_replicas[tp.topic])
        if leadership.leader == broker and tp not in after:
            leaderless.append(threat)
        elif threat.isr_after < threat.min_insync_replicas <= len(leadership.isr):
            below_min_isr.append(threat)
    return PlanControlledShutdownResponse(
        tuple(leaderless),
        tuple(below_min_isr),
        Plan(
            tuple(planned_change(view, tp, leadership) for tp, leadership in after.items()),
            planned_requests(_batches(view, broker, forecast), controller, settings),
        ),
    )


def _threat(
    view: ContextView, broker: BrokerId, tp: TopicPartition, leadership: LeaderAndIsr, min_insync_replicas: int
) -> ThreatenedPartition:
    staying = view.online_brokers(tp) - {broker}
    replicas = view.assignment(tp).replicas
    return ThreatenedPartition(
        tp.topic,
        tp.partition,
        isr_after=sum(member in staying for member in leadership.isr),
        # As agents have it: no more in-sync replicas are asked for than there are replicas.
        min_insync_replicas=min(min_insync_replicas, len(replicas)),
    )


def _batches(view: ContextView, broker: BrokerId, forecast: Forecast) -> tuple[ControlBatch, ControlBatch]:
    """The two that a controlled shutdown sends: of its elections, and of the replicas that stop."""
    moved, stopped = ControlBatch(view), ControlBatch(view)
    for election in forecast.elections:
        tp = election.topic_partition
        moved.add_leader_and_isr(election.recipients, tp, election.leadership, view.assignment(tp), is_new=False)
    for tp, leadership in (forecast.removals.writes | forecast.removals.unchanged).items():
        stopped.add_stop_replica(broker, tp, delete=False)
        others = [b for b in view.assignment(tp).replicas if b != broker]
        stopped.add_leader_and_isr(others, tp, leadership, view.assignment(tp), is_new=False)
    return moved, stopped
