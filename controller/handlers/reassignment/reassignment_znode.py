"""The node in which tools ask for moves: read, and cleaned entry by entry as moves are done or refused.

Source: Kafka KafkaController.maybeRemoveFromZkReassignment.
"""

from collections.abc import Callable, Iterable

import structlog

from cluster.broker import BrokerId
from cluster.errors import MalformedZnodeError
from cluster.partition import TopicPartition
from cluster.znodes.paths import REASSIGN_PARTITIONS
from controller.active_controller import ActiveController
from controller.decisions.reassignment.phases import remaining_entries
from controller.events import ZkPartitionReassignment
from controller.fenced_writes import Conflict, Missing, Written

_log = structlog.stdlib.get_logger()


async def drop_reassignment_entries(
    active: ActiveController, is_dropped: Callable[[TopicPartition, tuple[BrokerId, ...]], bool]
) -> None:
    """Take entries out of the request node; the last one takes the node with it (RA-40).

    The node is written on top of what was read, so a request that a tool puts there meanwhile is not lost.
    """
    while True:
        try:
            found = await active.admin_requests.read_reassignments()
        except MalformedZnodeError:
            if REASSIGN_PARTITIONS not in active.admin_requests.unresolved:
                # Written over one that was in order: to be reported, and watched for the next (ZK-34).
                active.enqueue(ZkPartitionReassignment())
            return
        if found is None:
            return
        remaining = remaining_entries(found.targets, is_dropped)
        if remaining and len(remaining) == len(found.targets):
            return
        outcome = await active.admin_requests.write_reassignments(remaining, found.version)
        if isinstance(outcome, Conflict | Missing):
            continue
        if not isinstance(outcome, Written):
            _log.error("Reassignment requests cannot be removed", outcome=str(outcome))
            return
        if not remaining:
            # Arms the watch again, or picks up a node that was created in between.
            active.enqueue(ZkPartitionReassignment())
        _log.info("Reassignment requests done", done=len(found.targets) - len(remaining), remaining=len(remaining))
        return


async def drop_reassignments_of_topics(active: ActiveController, topics: Iterable[str]) -> None:
    """Topics are gone: nobody will ever complete what was asked for their partitions (D-22)."""
    gone = set(topics)
    await drop_reassignment_entries(active, lambda tp, _target: tp.topic in gone)
