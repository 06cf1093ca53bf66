"""What tools ask of the controller through ZooKeeper: moves of partitions and preferred elections.

Source: Kafka PartitionReassignmentHandler, PreferredReplicaElectionHandler.
"""

from collections.abc import Mapping, Sequence

import structlog
from msgspec import Struct

from cluster.broker import BrokerId
from cluster.partition import TopicPartition
from cluster.znodes.admin_requests import decode_partitions, decode_reassignments, encode_reassignments
from cluster.znodes.paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS
from cluster.zookeeper.decoding import decode_each
from cluster.zookeeper.port import Delete, SetData, ZooKeeper
from controller.fenced_writes import Conflict, Failed, FencedWriter, Outcome

_log = structlog.stdlib.get_logger()


class RequestedMoves(Struct, frozen=True):
    """Partition -> target replicas, and the data version of the node that says so."""

    targets: dict[TopicPartition, tuple[BrokerId, ...]]
    version: int


class AdminRequests:
    """Reads and writes these nodes. One that is in order and waits is not read again when it changes (RA-33, D-20)."""

    def __init__(self, zookeeper: ZooKeeper, writer: FencedWriter) -> None:
        self._zookeeper = zookeeper
        self._writer = writer
        self.unresolved: set[str] = set()
        """Watched nodes that are being read, or are malformed, or may not be removed: whatever becomes of one is a
        reason to read it again.
        """

    async def read_reassignments(self, *, watch: bool = False) -> RequestedMoves | None:
        """What tools ask to be moved, None without the node; `watch` also waits for its creation.

        Raises MalformedZnodeError; after a read with `watch` the node is then among the unresolved.
        """
        if watch:
            # Before the read, because the watch may fire before the answer has been looked at.
            self.unresolved.add(REASSIGN_PARTITIONS)
        znode = await self._zookeeper.get(REASSIGN_PARTITIONS, watch=watch)
        found = None if znode is None else RequestedMoves(decode_reassignments(znode.data), znode.stat.version)
        if watch:
            self.unresolved.discard(REASSIGN_PARTITIONS)
        return found

    async def write_reassignments(self, targets: Mapping[TopicPartition, Sequence[BrokerId]], version: int) -> Outcome:
        """Overwrite the node, or delete it when nothing is left; a Conflict when it is not at this version."""
        op: Delete | SetData = Delete(REASSIGN_PARTITIONS, version)
        if targets:
            op = SetData(REASSIGN_PARTITIONS, encode_reassignments(targets), version)
        return await self._write_request(op, version)

    async def read_requested_elections(self) -> tuple[list[TopicPartition], int] | None:
        """Partitions that tools want to be led by their preferred replicas, with the data version of the node.

        A watch is left. None without the node; a malformed one asks for nothing.
        """
        self.unresolved.discard(PREFERRED_REPLICA_ELECTION)
        znode = await self._zookeeper.get(PREFERRED_REPLICA_ELECTION, watch=True)
        if znode is None:
            return None
        found = decode_each([PREFERRED_REPLICA_ELECTION], [znode.data], decode_partitions)
        return found.get(PREFERRED_REPLICA_ELECTION, []), znode.stat.version

    async def delete_requested_elections(self, version: int) -> Outcome:
        """A Conflict when the node is not at this version: then it asks for something else."""
        return await self._write_request(Delete(PREFERRED_REPLICA_ELECTION, version), version)

    async def _write_request(self, op: Delete | SetData, version: int) -> Outcome:
        """Overwrite or delete a request that was read at this version; where that is refused, it is unresolved."""
        (outcome,) = await self._writer.write([(op,)])
        if isinstance(outcome, Failed):
            self.unresolved.add(op.path)
            stat = await self._zookeeper.exists(op.path, watch=True)
            if stat is None or stat.version != version:
                # It changed before that was a reason to read it again.
                return Conflict(0, exists=False)
        return outcome
