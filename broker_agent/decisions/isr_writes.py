"""ISR changes that a leader writes to the state znode itself: what is written, what each result means, and when the
changes are announced.

A write is conditional on the partition epoch, the version of the znode. Every election writes the znode, so a leader
that was replaced holds an older version and cannot write (R8.21). Source: Kafka ZkAlterPartitionManager,
ReplicationUtils.updateLeaderAndIsr; KIP-497.
"""

from typing import Final

from cluster.model.broker import BrokerId, ControllerEpoch, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.model.partition import LeaderAndIsr
from cluster.requests.agents import AlterPartitionItem, AlterPartitionResult
from cluster.zookeeper.port import OpResult, ZkError

PROPAGATION_CHECK_MS: Final = 2500
"""Interval at which a leader checks whether its ISR changes are to be announced."""
QUIET_MS: Final = 5000
PROPAGATION_MAX_MS: Final = 60_000
PARTITIONS_PER_NOTIFICATION: Final = 3000
"""So many of the longest names are below ZooKeeper's default limit of 1 MiB for a znode."""


def leadership_to_write(item: AlterPartitionItem, leader: BrokerId, controller_epoch: ControllerEpoch) -> LeaderAndIsr:
    """The content of the state znode with the proposed ISR, as it is once the write has succeeded.

    `controller_epoch`: of the controller that decided upon the leadership, not the newest known (R8.22).
    """
    return LeaderAndIsr(
        leader,
        item.leader_epoch,
        item.new_isr,
        controller_epoch,
        PartitionEpoch(item.partition_epoch + 1),
        item.leader_recovery_state,
    )


def classify_write(item: AlterPartitionItem, written: LeaderAndIsr, result: OpResult) -> AlterPartitionResult | None:
    """The answer to a proposal by the result of its conditional write; None where the znode must be read (R8.19).

    That is where it has another version: an earlier attempt, whose response was lost, may have written it.
    """
    match result.error:
        case ZkError.OK:
            assert result.stat is not None, "a successful SetData has a stat"
            return _success(item, written, PartitionEpoch(result.stat.version))
        case ZkError.BAD_VERSION:
            return None
        case ZkError.NO_NODE:
            return failed(item, ErrorCode.INVALID_UPDATE_VERSION)
        case _:
            return failed(item, ErrorCode.UNKNOWN_SERVER_ERROR)


def compare_with_znode(
    item: AlterPartitionItem, written: LeaderAndIsr, found: LeaderAndIsr | None
) -> AlterPartitionResult:
    """The answer to a proposal whose write found another version; `found`: the znode as read, None if there is none.

    It is a success if the znode is what was to be written. Otherwise somebody else has written it, so that this
    proposal never takes effect (R8.19).
    """
    if found is None or _content(found) != _content(written):
        return failed(item, ErrorCode.INVALID_UPDATE_VERSION)
    return _success(item, written, found.partition_epoch)


def failed(item: AlterPartitionItem, code: ErrorCode) -> AlterPartitionResult:
    """The answer to a proposal that was not written, or not as far as is known."""
    return AlterPartitionResult(item.topic_name, item.topic_id, item.partition_index, code)


def _content(state: LeaderAndIsr) -> tuple[object, ...]:
    return state.leader, state.leader_epoch, state.controller_epoch, state.isr


def _success(item: AlterPartitionItem, written: LeaderAndIsr, partition_epoch: PartitionEpoch) -> AlterPartitionResult:
    return AlterPartitionResult(
        item.topic_name,
        item.topic_id,
        item.partition_index,
        ErrorCode.NONE,
        written.leader,
        written.leader_epoch,
        written.isr,
        written.leader_recovery_state,
        partition_epoch,
    )


def is_propagation_due(now_ms: float, *, last_change_ms: float, last_propagation_ms: float) -> bool:
    """Whether ISR changes that wait are to be announced now: none was added for 5 s, or 60 s have passed (R8.23).

    So a lone change is announced soon after it was made, and many in a row, as when a broker fails, together. Both
    times begin with the process.
    """
    return last_change_ms + QUIET_MS < now_ms or last_propagation_ms + PROPAGATION_MAX_MS < now_ms
