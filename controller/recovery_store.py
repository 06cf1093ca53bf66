"""Reads and fenced writes of a recovery by one active controller. The last write raises the fence itself."""

from collections.abc import Sequence

from cluster.model.broker import ControllerEpoch, ZkVersion
from cluster.znodes.cluster_wide import ProducerIdBlock, encode_producer_id_block
from cluster.znodes.controller import encode_controller_epoch
from cluster.znodes.paths import CONTROLLER, CONTROLLER_EPOCH, PRODUCER_ID_BLOCK
from cluster.zookeeper.port import Delete, SetData, ZooKeeper
from controller.decisions.recovery.plan import TopicRecovery
from controller.decisions.recovery.writes import paths_of, units_of
from controller.fenced_writes import FencedWriter, Written


class RecoveryStore:
    """Writes topics and their partition states, the producer id block, and at last `/controller_epoch`."""

    def __init__(self, zookeeper: ZooKeeper, writer: FencedWriter, epoch_zk_version: ZkVersion) -> None:
        self._zookeeper = zookeeper
        self._writer = writer
        self._epoch_zk_version = epoch_zk_version

    async def write_topics(self, topics: Sequence[TopicRecovery]) -> list[str]:
        """Write everything in order; returns the topics of which something was not written."""
        failed: list[str] = []
        for topic in topics:
            paths = paths_of(topic)
            znodes = await self._zookeeper.get_many(paths)
            versions = {p: z.stat.version for p, z in zip(paths, znodes, strict=True) if z is not None}
            outcomes = await self._writer.write(units_of(topic, versions))
            if not all(isinstance(outcome, Written) for outcome in outcomes):
                failed.append(topic.topic)
        return failed

    async def write_producer_ids(self, block: ProducerIdBlock, version: int) -> bool:
        """Write the last allocated block at this version of its znode; whether it was written."""
        (outcome,) = await self._writer.write([(SetData(PRODUCER_ID_BLOCK, encode_producer_id_block(block), version),)])
        return isinstance(outcome, Written)

    async def resign_above(self, epoch: ControllerEpoch) -> bool:
        """Raise `/controller_epoch` and delete `/controller`, in one transaction; the next epoch is above it.

        Afterwards this controller cannot write any more. Returns whether it was written.
        """
        raised = SetData(CONTROLLER_EPOCH, encode_controller_epoch(epoch), self._epoch_zk_version)
        (outcome,) = await self._writer.write([(raised, Delete(CONTROLLER))])
        return isinstance(outcome, Written)
