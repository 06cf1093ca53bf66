"""Entries of `/admin/reassign_partitions`: which of them begin, and which leave the znode without a move.

The znode is read again after every change, so most of what is read began before. Source: KAFKA-9478, which Kafka's
controller never had fixed: there an entry that is added to a pending request neither begins nor leaves.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from cluster.model.broker import BrokerId
from cluster.model.errors import ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicPartition
from controller.decisions.context_view import ContextView
from controller.decisions.reassignment.phases import RefusedMove, plan_znode_submission, refuse_trigger

IN_PLACE: Final = RefusedMove(ErrorCode.NONE, "The replicas are in place already.")


class RequestedMovesPlan(Struct, frozen=True):
    """`moves`: to begin, or to replace another one. `dropped`: entries to remove from the znode, each with the reason.

    Entries in neither ask for a move that is under way; they leave when it is complete.
    """

    moves: dict[TopicPartition, ReplicaAssignment]
    dropped: dict[TopicPartition, RefusedMove]


def plan_requested_moves(
    view: ContextView, targets: Mapping[TopicPartition, tuple[BrokerId, ...]], *, is_new: bool
) -> RequestedMovesPlan:
    """Begin only what differs from the assignment and from the move under way (D-95).

    `is_new`: the znode was not read before. A request for the replicas in place is then carried out like any other
    (RA-62); in a znode that was read before it is what a completed move, or whoever rewrote the znode, has left.
    """
    moves: dict[TopicPartition, ReplicaAssignment] = {}
    dropped: dict[TopicPartition, RefusedMove] = {}
    for tp, target in targets.items():
        wanted, current = plan_znode_submission(view, tp, target), view.topics.assignment(tp)
        if isinstance(wanted, RefusedMove):
            dropped[tp] = wanted
        elif wanted == current and current.is_being_reassigned:
            continue
        elif (refusal := refuse_trigger(view, tp, wanted)) is not None:
            dropped[tp] = refusal
        elif wanted == current and not is_new:
            dropped[tp] = IN_PLACE
        else:
            moves[tp] = wanted
    return RequestedMovesPlan(moves, dropped)
