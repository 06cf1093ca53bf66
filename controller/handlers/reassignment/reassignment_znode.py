"""`/admin/reassign_partitions`: read, and removed entry by entry as reassignments complete or are refused.

Source: Kafka KafkaController.maybeRemoveFromZkReassignment.
"""

from collections.abc import Callable, Iterable, Set

import structlog

from cluster.model.broker import BrokerId
from cluster.model.errors import MalformedZnodeError
from cluster.model.partition import TopicPartition
from controller.active_controller import ActiveController
from controller.decisions.reassignment.phases import remaining_entries
from controller.fenced_writes import Conflict, Missing, Written

_log = structlog.stdlib.get_logger()


async def drop_reassignment_entries(
    active: ActiveController, is_dropped: Callable[[TopicPartition, tuple[BrokerId, ...]], bool]
) -> Set[TopicPartition]:
    """Remove entries from `/admin/reassign_partitions`; with the last entry the znode is deleted (RA-40).

    The write is conditional on the version read, so a request written by a tool meanwhile is not lost. Its watch fires
    for this write too, and is armed again then. Returns the partitions whose entries ZooKeeper did not let be removed.
    """
    while True:
        try:
            found = await active.admin_requests.read_reassignments()
        except MalformedZnodeError:
            # Reported when the watch fired (ZK-34); it holds no entries.
            return frozenset()
        if found is None:
            return frozenset()
        remaining = remaining_entries(found.targets, is_dropped)
        if remaining and len(remaining) == len(found.targets):
            return frozenset()
        outcome = await active.admin_requests.write_reassignments(remaining, found.version)
        if isinstance(outcome, Conflict | Missing):
            continue
        if not isinstance(outcome, Written):
            _log.error("Removing reassignment requests failed", outcome=str(outcome))
            return found.targets.keys() - remaining.keys()
        _log.info("Reassignment requests removed", done=len(found.targets) - len(remaining), remaining=len(remaining))
        return frozenset()


async def drop_reassignments_of_topics(active: ActiveController, topics: Iterable[str]) -> None:
    """Remove the entries of deleted topics, whose reassignments can no longer complete (D-22)."""
    gone = set(topics)
    await drop_reassignment_entries(active, lambda tp, _target: tp.topic in gone)
