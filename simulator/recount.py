"""Counts from scratch what the controller's context counts as it changes."""

from cluster.model.broker import NO_LEADER
from cluster.model.state_machines import PartitionState
from controller.context import ControllerContext
from controller.preferred_leaders import is_imbalanced


def recount(context: ControllerContext) -> tuple[int, int]:
    """Offline partitions and preferred-replica imbalance; the counters of the context must equal them."""
    leaderless = {tp for tp, leadership in context.leaderships.items() if leadership.leader == NO_LEADER}
    offline = sum(
        (state is PartitionState.OFFLINE or (state is PartitionState.ONLINE and tp in leaderless))
        and tp.topic not in context.topics_with_deletion_started
        for tp, state in context.partition_states.items()
    )
    imbalanced = sum(
        tp.topic not in context.topics_to_be_deleted and is_imbalanced(context.assignment(tp), leadership)
        for tp, leadership in context.leaderships.items()
    )
    return offline, imbalanced
