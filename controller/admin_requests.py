"""Requests that tools write to ZooKeeper: partition reassignments and preferred leader elections.

Source: Kafka PartitionReassignmentHandler, PreferredReplicaElectionHandler.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from cluster.broker import BrokerId
from cluster.partition import TopicPartition
from cluster.znodes.admin_requests import decode_partitions, decode_reassignments, encode_reassignments
from cluster.znodes.paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.port import Delete, SetData, ZooKeeper
from controller.fenced_writes import Conflict, Failed, FencedWriter, Outcome


class RequestedMoves(Struct, frozen=True):
    """Partition -> target replicas, and the data version of the znode."""

    targets: dict[TopicPartition, tuple[BrokerId, ...]]
    version: int


class AdminRequests:
    """Reads and writes the request znodes. A valid pending one is not read again when it changes (RA-33, D-20)."""

    def __init__(self, zookeeper: ZooKeeper, writer: FencedWriter) -> None:
        self._zookeeper = zookeeper
        self._writer = writer
        self.unresolved: set[str] = set()
        """Watched znodes that are being read, are malformed or could not be deleted; any change of such a znode makes
        the controller read it again.
        """

    async def read_reassignments(self, *, watch: bool = False) -> RequestedMoves | None:
        """The requested reassignments, None if the znode is missing; `watch` also arms a watch for its creation.

        Raises MalformedZnodeError; after a read with `watch` the znode is then in `unresolved`.
        """
        if watch:
            # Before the read, because the watch may fire before the response was processed.
            self.unresolved.add(REASSIGN_PARTITIONS)
        znode = await self._zookeeper.get(REASSIGN_PARTITIONS, watch=watch)
        found = None if znode is None else RequestedMoves(decode_reassignments(znode.data), znode.stat.version)
        if watch:
            self.unresolved.discard(REASSIGN_PARTITIONS)
        return found

    async def write_reassignments(self, targets: Mapping[TopicPartition, Sequence[BrokerId]], version: int) -> Outcome:
        """Overwrite the znode, or delete it if `targets` is empty; Conflict if its version is not `version`."""
        op: Delete | SetData = Delete(REASSIGN_PARTITIONS, version)
        if targets:
            op = SetData(REASSIGN_PARTITIONS, encode_reassignments(targets), version)
        return await self._write_request(op, version)

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
