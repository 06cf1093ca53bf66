"""Counts from scratch what the controller's context counts as it changes."""

from cluster.model.broker import NO_LEADER
from cluster.model.state_machines import PartitionState
from controller.context.controller_context import ControllerContext
from controller.context.leaderships import is_imbalanced


def recount(context: ControllerContext) -> tuple[int, int]:
    """Offline partitions and preferred-replica imbalance; the counters of the context must equal them."""
    leaderless = {tp for tp, leadership in context.leaderships.known.items() if leadership.leader == NO_LEADER}
    offline = sum(
        (state is PartitionState.OFFLINE or (state is PartitionState.ONLINE and tp in leaderless))
        and tp.topic not in context.deletions.started
        for tp, state in context.leaderships.partition_states.items()
    )
    imbalanced = sum(
        tp.topic not in context.deletions.queued and is_imbalanced(context.topics.assignment(tp), leadership)
        for tp, leadership in context.leaderships.known.items()
    )
    return offline, imbalanced
