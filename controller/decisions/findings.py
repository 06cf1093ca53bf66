"""What is wrong in the cluster and would stay so, as far as the active controller knows: text for operators.

What `klamm cluster health` derives from topics, brokers, reassignments and deletions is not repeated here.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from cluster.model.broker import UNKNOWN_BROKER_EPOCH, BrokerId
from cluster.model.partition import TopicPartition
from cluster.model.printable import counted
from cluster.model.state_machines import ReplicaState
from cluster.requests.agents import UNCLEAN_SHUTDOWN
from cluster.requests.cluster import Finding
from cluster.znodes.paths import LEFT_REPLICAS
from controller.decisions.brokers.failures import SILENCE_MAX_S, failure_findings
from controller.decisions.brokers.known_damage import HeldReplica
from controller.decisions.brokers.refusals import ChannelState, Refusals, refusal_findings
from controller.decisions.context_view import ContextView
from controller.decisions.controller_epochs import DOUBTED_ABOVE, LAST
from controller.decisions.partitions.leader_election import has_epoch_left

AUTHORIZER_ON_BROKER: Final = "authorizer_on_broker"
_AUTHORIZER: Final = (
    "broker {} has an authorizer (authorizer.class.name), and the active controller has none: anybody could do through "
    "it what the broker forbids, so it refuses all changes at its Kafka listeners, and by gRPC from other hosts; give "
    "the controllers the authorizer.class.name and super.users of the brokers"
)
BROKER_NOT_ADMITTED: Final = "broker_not_admitted"
SHUTTING_DOWN: Final = "shutting_down"
STUCK_SHUTDOWN: Final = "stuck_shutdown"
STUCK_DELETION: Final = "stuck_deletion"
NO_LEADER_EPOCH_LEFT: Final = "no_leader_epoch_left"
FEW_CONTROLLER_EPOCHS_LEFT: Final = "few_controller_epochs_left"
UNREPORTED_DAMAGE: Final = "unreported_damage"
LEFT_REPLICAS_FOUND: Final = "left_replicas"
DAMAGED_REPLICA_WAITS: Final = "damaged_replica_waits"
_TOPICS_NAMED: Final = 3
SHUTDOWN_MAX_S: Final = 120
"""Longer than a broker tries a controlled shutdown by default; then it only closes its logs."""


def findings(
    view: ContextView,
    channels: Mapping[BrokerId, ChannelState],
    now_ms: int,
    with_authorizer: Iterable[BrokerId] = (),
) -> Iterator[Finding]:
    """Make all findings, by broker and then by topic. `now_ms`: of the wall clock. `with_authorizer`: such brokers."""
    for broker, state in sorted(channels.items()):
        refused = _of_known_topics(view, state.refusals)
        yield from refusal_findings(broker, refused, view.epoch, view.brokers.epochs.get(broker, UNKNOWN_BROKER_EPOCH))
        yield from failure_findings(broker, state.failure, state.silent_s, state.errors)
    for broker in sorted(with_authorizer):
        yield Finding(AUTHORIZER_ON_BROKER, _AUTHORIZER.format(broker), broker=broker)
    for broker, since_ms in sorted(view.brokers.shutting_down_since.items()):
        yield _shutdown(view, broker, (now_ms - since_ms) // 1000)
    for broker, why in sorted(view.brokers.not_admitted.items()):
        yield Finding(BROKER_NOT_ADMITTED, f"broker {broker} is registered, but takes no part: it {why}", broker=broker)
    yield from _left_replicas(view)
    yield from _damage(view, now_ms)
    leaderships = view.leaderships.known
    for tp in sorted(tp for tp, leadership in leaderships.items() if not has_epoch_left(leadership)):
        detail = (
            f"leader epoch {leaderships[tp].leader_epoch} is the highest there can be, so the controller elects "
            "no other leader; elections do not lead to it: somebody wrote the state znode; copy the records to a new "
            "topic and delete this one"
        )
        yield Finding(NO_LEADER_EPOCH_LEFT, detail, *tp)
    if view.epoch > DOUBTED_ABOVE:
        detail = (
            f"the controller epoch is {view.epoch}, and {LAST - view.epoch} more elections are possible; elections do "
            "not lead to it: somebody wrote /controller_epoch or a state znode; while there are some left, stop all "
            "brokers and controllers, write a lower number to /controller_epoch, and start them"
        )
        yield Finding(FEW_CONTROLLER_EPOCHS_LEFT, detail)
    for topic in sorted(view.deletions.queued - view.deletions.ineligible):
        yield from _stuck_deletion(view, topic, channels)


def _shutdown(view: ContextView, broker: BrokerId, lasting_s: int) -> Finding:
    leaderships = map(view.leaderships.known.get, view.topics.partitions_on(broker))
    led = sum(known is not None and known.leader == broker for known in leaderships)
    leads = f"still leads {counted(led, 'partition')}, as no other replica in sync can" if led else "leads nothing"
    if lasting_s > SHUTDOWN_MAX_S:
        detail = f"broker {broker} has been shutting down for {lasting_s} s and {leads}: stop or restart it"
        return Finding(STUCK_SHUTDOWN, detail, broker=broker)
    detail = (
        f"broker {broker} asked for a controlled shutdown {lasting_s} s ago: it {leads}, and new topics get no "
        "replicas on it; if it is to stay, restart it"
    )
    return Finding(SHUTTING_DOWN, detail, broker=broker)


def _left_replicas(view: ContextView) -> Iterator[Finding]:
    """Report what brokers still have of deleted topics: only the operator knows whether those that are away will
    ever be back.
    """
    for broker, topics in sorted(view.deletions.left_replicas.items()):
        names = ", ".join(sorted(topics)[:_TOPICS_NAMED]) + (", …" if len(topics) > _TOPICS_NAMED else "")
        has = (
            f"broker {broker} still has replicas of {len(topics)} topics that were deleted while it was away ({names})"
        )
        if broker in view.brokers.registered_ids:
            detail = (
                f"{has}: it has not answered that it has deleted them, and gets no newer topics of these names before"
            )
        else:
            detail = (
                f"{has}; they are deleted when it is back; if it never will be, delete the znode "
                f"{LEFT_REPLICAS}/{broker} and everything below it"
            )
        yield Finding(LEFT_REPLICAS_FOUND, detail, broker=broker)


def _damage(view: ContextView, now_ms: int) -> Iterator[Finding]:
    for broker, awaited in sorted(view.damage.awaited_reports.items()):
        lasting_s = (now_ms - awaited.since_ms) // 1000
        if lasting_s > SILENCE_MAX_S:
            detail = (
                f"broker {broker} is registered, but has not joined: for {lasting_s} s it has not named its damaged "
                "replicas (ReportDamagedReplicas); see in its log whether it reaches the control listener of the "
                "active controller, and restart it"
            )
            yield Finding(UNREPORTED_DAMAGE, detail, broker=broker)
    for broker in sorted(view.brokers.live_ids):
        for tp, held in sorted(view.damage.held_on(broker).items()):
            is_in_doubt = held.damage.found_by == UNCLEAN_SHUTDOWN
            why = (_why_it_waits_in_doubt if is_in_doubt else _why_it_waits)(view, broker, tp, held)
            yield Finding(DAMAGED_REPLICA_WAITS, why, *tp, broker)


def _why_it_waits(view: ContextView, broker: BrokerId, tp: TopicPartition, held: HeldReplica) -> str:
    at_least = "" if held.damage.is_end_known else "at least "
    damaged = f"{at_least}offsets {held.damage.from_offset}..{held.damage.to_offset - 1}"
    if not held.is_scheduled:
        return (
            f"broker {broker} has lost {damaged} and is not elected, as it is not known who else is in sync: repair "
            "the malformed znodes of the partition"
        )
    leadership = view.leaderships.known.get(tp)
    in_sync = set() if leadership is None else set(leadership.isr) - {broker}
    if not view.damage.electable_brokers(tp).isdisjoint(in_sync):
        return (
            f"the replica on broker {broker}, whose {damaged} are damaged, is to leave the ISR and to be fetched again,"
            " but ZooKeeper refused that; it is tried again"
        )
    others = set(view.topics.assignment(tp).replicas) - {broker}
    if in_sync:
        chance = f"start broker {_names(in_sync)} before: its replica is in sync, leads instead, and nothing is lost"
    elif others:
        chance = (
            f"no other replica is in sync; if broker {_names(others)} may have the records, start it before and see "
            f"`klamm elect unclean --topic {tp.topic} --partition {tp.partition} --dry-run`"
        )
    else:
        chance = "there is no other replica; if the files of the log can be restored, stop the broker before, and do so"
    until = _time_of_day(held.until_ms)
    return (
        f"broker {broker} has the only replica in sync that is online, and its {damaged} are damaged; it is elected at "
        f"{until}, and from then on they are lost; {chance}"
    )


def _why_it_waits_in_doubt(view: ContextView, broker: BrokerId, tp: TopicPartition, held: HeldReplica) -> str:
    lacks = (
        f"broker {broker} may lack records from offset {held.damage.from_offset} on, because its machine was "
        "restarted without a clean shutdown,"
    )
    if not held.is_scheduled:
        return (
            f"{lacks} and is not elected, as it is not known who else is in sync: repair the malformed znodes of the "
            "partition"
        )
    leadership = view.leaderships.known.get(tp)
    in_sync = set() if leadership is None else set(leadership.isr) - {broker}
    if not view.damage.electable_brokers(tp).isdisjoint(in_sync):
        return f"{lacks} and is to leave the ISR and to catch up, but ZooKeeper refused that; it is tried again"
    missing = in_sync - view.brokers.online_for(tp)
    chance = f"; start broker {_names(missing)} before: in sync, too, it may have them" if missing else ""
    return (
        f"{lacks} and no replica in sync that surely has them is online; at {_time_of_day(held.until_ms)} the longest "
        f"log that is there leads, and from then on what it lacks is lost{chance}"
    )


def _time_of_day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S UTC")


def _names(brokers: Iterable[BrokerId]) -> str:
    return ", ".join(map(str, sorted(brokers)))


def _of_known_topics(view: ContextView, refusals: Refusals) -> Refusals:
    """Leave out partitions of topics that were deleted since."""
    return replace(
        refusals,
        leader_epochs={tp: epochs for tp, epochs in refusals.leader_epochs.items() if tp.topic in view.topics.names},
        topic_ids=frozenset(tp for tp in refusals.topic_ids if tp.topic in view.topics.names),
    )


def _stuck_deletion(view: ContextView, topic: str, channels: Mapping[BrokerId, ChannelState]) -> Iterator[Finding]:
    """A deletion that is in progress, but waits for brokers that do not respond."""
    if view.replicas.by_state(topic).get(ReplicaState.DELETION_STARTED, 0) == 0:
        return
    waiting = {
        broker
        for tp in view.topics.partitions_of(topic)
        for broker in view.topics.assignment(tp).replicas
        if view.replicas.state(broker, tp) is ReplicaState.DELETION_STARTED
    }
    silent = sorted(b for b in waiting if channels.get(b, ChannelState()).silent_s > SILENCE_MAX_S)
    if silent:
        names = ", ".join(map(str, silent))
        yield Finding(STUCK_DELETION, f"the deletion waits for brokers {names}, which do not respond", topic)
