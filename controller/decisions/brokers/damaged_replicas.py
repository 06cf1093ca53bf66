"""What to do about replicas that a broker reports as damaged.

Source: klamm. D-40, D-41, D-119, D-120
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from itertools import chain

from msgspec import Struct

from cluster.model.broker import BrokerId
from cluster.model.partition import LeaderAndIsr, TopicPartition
from cluster.model.state_machines import PartitionState
from cluster.requests.agents import SCRUB, UNCLEAN_SHUTDOWN, ReportedDamage
from controller.decisions.context_view import ContextView


class DamagePlan(Struct, frozen=True):
    """`replaced`: by what found the damage, the partitions where another replica is to lead; `held`: those where only
    the damaged one is in sync, and nobody leads; `leading`: those which it leads alone; `unknown`: those whose znodes
    cannot be read; `alone`: those without a leader where nobody else can have what it may lack, so that it is to lead.
    For all others nothing is to be done.
    """

    replaced: dict[str, list[TopicPartition]]
    held: list[TopicPartition]
    leading: list[TopicPartition]
    unknown: list[TopicPartition]
    alone: list[TopicPartition]

    @property
    def not_to_be_elected(self) -> frozenset[TopicPartition]:
        """The partitions where the damaged replica is not to lead until another one does, or until it has waited long
        enough.
        """
        return frozenset((*self.held, *self.unknown, *chain.from_iterable(self.replaced.values())))


def partition_of(damage: ReportedDamage) -> TopicPartition:
    return TopicPartition(damage.topic_name, damage.partition_index)


def plan_damaged_replicas(
    view: ContextView, broker: BrokerId, damages: Iterable[ReportedDamage], unreadable: AbstractSet[TopicPartition]
) -> DamagePlan:
    """Another ISR member leads where one is online; without one the damaged replica waits, or continues to lead.

    `unreadable`: the partitions with a malformed znode.
    """
    plan = DamagePlan({}, [], [], [], [])
    for damage in damages:
        tp = partition_of(damage)
        leadership = view.leaderships.known.get(tp)
        if leadership is None and tp in unreadable:
            plan.unknown.append(tp)
        if leadership is None or not _concerns(view, broker, tp, damage):
            continue
        if not view.damage.electable_brokers(tp).isdisjoint(set(leadership.isr) - {broker}):
            # A scrubbed replica fetches again in the next leader epoch only: until then the leader may still have an
            # expansion of the ISR by it in flight. A restarted one is told apart by its broker epoch (KIP-903).
            if broker in leadership.isr or damage.found_by == SCRUB:
                plan.replaced.setdefault(damage.found_by, []).append(tp)
        elif broker in leadership.isr:
            is_all_there_is = damage.found_by == UNCLEAN_SHUTDOWN and set(leadership.isr) == {broker}
            waits = plan.alone if is_all_there_is else plan.held
            (plan.leading if _leads(view, broker, tp, leadership) else waits).append(tp)
    return plan


def choose_longest(view: ContextView, tp: TopicPartition, *, of_those_online: bool = False) -> BrokerId | None:
    """The member of the ISR to lead where no sound one can: of those in doubt the one with the newest and longest log.

    Only once every member is there, and in doubt; `of_those_online`: whoever else may come.
    """
    leadership = view.leaderships.known.get(tp)
    if leadership is None or not view.damage.electable_brokers(tp).isdisjoint(leadership.isr):
        return None
    online = view.brokers.online_for(tp)
    held = {b: view.damage.held_on(b).get(tp) for b in view.topics.assignment(tp).replicas if b in leadership.isr}
    logs = {
        broker: (replica.damage.log_epoch, replica.damage.from_offset)
        for broker, replica in held.items()
        if replica is not None and replica.damage.found_by == UNCLEAN_SHUTDOWN and broker in online
    }
    if not logs or not (of_those_online or logs.keys() == set(leadership.isr)):
        return None
    # The first of equals is the preferred one.
    return max(logs, key=logs.__getitem__)


def is_decided(view: ContextView, broker: BrokerId, tp: TopicPartition) -> bool:
    """Whether the replica leads, or has to catch up before it can."""
    leadership = view.leaderships.known[tp]
    return broker not in leadership.isr or _leads(view, broker, tp, leadership)


def _concerns(view: ContextView, broker: BrokerId, tp: TopicPartition, damage: ReportedDamage) -> bool:
    """Whether the replica is one of this topic, not of an earlier one with its name, and is to stay."""
    is_same = damage.topic_id is None or view.topics.ids.get(tp.topic) in (None, damage.topic_id)
    return is_same and broker in view.topics.assignment(tp).replicas and tp.topic not in view.deletions.queued


def _leads(view: ContextView, broker: BrokerId, tp: TopicPartition, leadership: LeaderAndIsr) -> bool:
    return leadership.leader == broker and view.leaderships.partition_state(tp) is PartitionState.ONLINE
