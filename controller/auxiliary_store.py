"""Writes of the active controller that are not fenced by its epoch: finalized features and producer id blocks.

As in Kafka. Two controllers that become active at once write the same features, and a producer id block is protected
by the version of its znode. Source: Kafka KafkaController.setupFeatureVersioning, ZkProducerIdManager.
"""

from cluster.model.errors import OutcomeUnknownError, ZooKeeperError
from cluster.znodes.cluster_wide import (
    FinalizedFeatures,
    ProducerIdBlock,
    decode_features,
    decode_producer_id_block,
    encode_features,
    encode_producer_id_block,
)
from cluster.znodes.paths import FEATURE, PRODUCER_ID_BLOCK
from cluster.zookeeper.port import Create, Op, SetData, ZkError, ZooKeeper, refusal


class AuxiliaryStore:
    """Reads and writes `/feature` and the producer id block."""

    def __init__(self, zookeeper: ZooKeeper) -> None:
        self._zookeeper = zookeeper

    async def read_features(self) -> FinalizedFeatures | None:
        """The finalized features; None if the znode is missing. Raises MalformedZnodeError."""
        znode = await self._zookeeper.get(FEATURE)
        return None if znode is None else decode_features(znode.data)

    async def write_features(self, features: FinalizedFeatures, *, exists: bool) -> None:
        """Write `/feature`, again after each lost response. Raises ZooKeeperError if somebody else writes it, too."""
        data = encode_features(features)
        op: Op = SetData(FEATURE, data) if exists else Create(FEATURE, data)
        while True:
            try:
                (result,) = await self._zookeeper.multi([op])
            except OutcomeUnknownError:
                continue
            if result.error is ZkError.NODE_EXISTS:
                znode = await self._zookeeper.get(FEATURE)
                if znode is None or znode.data != data:
                    raise ZooKeeperError(f"{FEATURE} was not written or is contested")
            elif not result.ok:
                raise refusal(f"{FEATURE} cannot be written", result.error)
            return

    async def read_producer_id_block(self) -> tuple[ProducerIdBlock | None, int] | None:
        """The last allocated block, None if there was none, and the version of its znode; None if the znode is missing.

        Raises MalformedZnodeError.
        """
        znode = await self._zookeeper.get(PRODUCER_ID_BLOCK)
        return None if znode is None else (decode_producer_id_block(znode.data), znode.stat.version)

    async def write_producer_id_block(self, block: ProducerIdBlock, version: int) -> bool:
        """Write the block unless another one was allocated since; whether it was written (FN-1).

        False after a lost response: a block that was written but not handed out is merely skipped.
        """
        op = SetData(PRODUCER_ID_BLOCK, encode_producer_id_block(block), version)
        try:
            (result,) = await self._zookeeper.multi([op])
        except OutcomeUnknownError:
            return False
        if not result.ok and result.error is not ZkError.BAD_VERSION:
            raise refusal(f"{PRODUCER_ID_BLOCK} cannot be written", result.error)
        return result.ok
