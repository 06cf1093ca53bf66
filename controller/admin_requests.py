"""Requests that tools write to ZooKeeper: partition reassignments and preferred leader elections.

Source: Kafka PartitionReassignmentHandler, PreferredReplicaElectionHandler.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from cluster.model.broker import BrokerId
from cluster.model.partition import TopicPartition
from cluster.znodes.admin_requests import decode_partitions, decode_reassignments, encode_reassignments
from cluster.znodes.paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.port import Delete, SetData, Stat, ZooKeeper
from controller.fenced_writes import Conflict, Failed, FencedWriter, Outcome, Written


class RequestedMoves(Struct, frozen=True):
    """Partition -> target replicas, and the data version of the znode. `is_new`: none of it was read before."""

    targets: dict[TopicPartition, tuple[BrokerId, ...]]
    version: int
    is_new: bool = False


class ReadUpTo(NamedTuple):
    """Names which content of a request znode was processed: `created` (czxid) tells it from a later one at the same
    path.

    `version`: its data version, -1 if it has to be processed again.
    """

    created: int
    version: int


class AdminRequests:
    """Reads and writes the request znodes. A pending request for elections is not read again when it changes."""

    def __init__(self, zookeeper: ZooKeeper, writer: FencedWriter) -> None:
        self._zookeeper = zookeeper
        self._writer = writer
        self.unresolved: set[str] = set()
        """Znodes that could not be written or deleted; any change makes the controller read them again."""
        self.reassignments_read: ReadUpTo | None = None
        """What of `/admin/reassign_partitions` was processed."""

    async def next_reassignments(self) -> RequestedMoves | None:
        """The requested reassignments; None if the znode is missing, or has only what was returned before (D-95).

        Arms a watch for every change of the znode, also if it raises MalformedZnodeError.
        """
        znode = await self._zookeeper.get(REASSIGN_PARTITIONS, watch=True)
        if znode is None:
            return None
        before, now = self.reassignments_read, _read_up_to(znode.stat)
        if now == before:
            return None
        targets = decode_reassignments(znode.data)
        self.reassignments_read = now
        return RequestedMoves(targets, now.version, is_new=before is None or before.created != now.created)

    async def read_reassignments(self) -> RequestedMoves | None:
        """The same without a watch, whether they were processed or not."""
        znode = await self._zookeeper.get(REASSIGN_PARTITIONS)
        return None if znode is None else RequestedMoves(decode_reassignments(znode.data), znode.stat.version)

    async def write_reassignments(self, targets: Mapping[TopicPartition, Sequence[BrokerId]], version: int) -> Outcome:
        """Overwrite the znode, or delete it if `targets` is empty; Conflict if its version is not `version`."""
        op: Delete | SetData = Delete(REASSIGN_PARTITIONS, version)
        if targets:
            op = SetData(REASSIGN_PARTITIONS, encode_reassignments(targets), version)
        outcome = await self._write_request(op, version)
        read = self.reassignments_read
        if read is not None and isinstance(outcome, Failed):
            self.reassignments_read = read._replace(version=-1)
        elif read is not None and read.version == version and isinstance(outcome, Written):
            # What is left was processed, so it is not processed again when the watch fires for this write.
            self.reassignments_read = read._replace(version=version + 1)
        return outcome

    async def read_requested_elections(self) -> tuple[list[TopicPartition], int] | None:
        """Partitions with a requested preferred election, and the data version of the znode; arms a watch.

        None if the znode is missing; a malformed one requests nothing.
        """
        self.unresolved.discard(PREFERRED_REPLICA_ELECTION)
        znode = await self._zookeeper.get(PREFERRED_REPLICA_ELECTION, watch=True)
        if znode is None:
            return None
        found = decode_each([PREFERRED_REPLICA_ELECTION], [znode.data], decode_partitions)
        return found.get(PREFERRED_REPLICA_ELECTION, []), znode.stat.version

    async def delete_requested_elections(self, version: int) -> Outcome:
        """Delete the znode; Conflict if its version is not `version`, because it then holds another request."""
        return await self._write_request(Delete(PREFERRED_REPLICA_ELECTION, version), version)

    async def _write_request(self, op: Delete | SetData, version: int) -> Outcome:
        """Overwrite or delete a request at the version read; if that is refused, the znode is added to `unresolved`."""
        (outcome,) = await self._writer.write([(op,)])
        if isinstance(outcome, Failed):
            self.unresolved.add(op.path)
            stat = await self._zookeeper.exists(op.path, watch=True)
            if stat is None or stat.version != version:
                # It changed before the watch was armed: read it again.
                return Conflict(0, exists=False)
        return outcome


def _read_up_to(stat: Stat) -> ReadUpTo:
    return ReadUpTo(stat.czxid, stat.version)
