"""The producer id block of a restored ZooKeeper, raised above the ids that brokers have seen."""

from cluster.model.broker import BrokerId
from cluster.znodes.cluster_wide import ProducerIdBlock
from controller.decisions.brokers.producer_ids import BLOCK_SIZE


def block_above(last: ProducerIdBlock | None, seen: int, broker: BrokerId) -> ProducerIdBlock | None:
    """The block that holds the id `seen` (-1: none), to be recorded as the last one allocated; None if `last` is not
    before it. The rest of that block may have been used without being seen.
    """
    if seen < 0 or (last is not None and last.end >= seen):
        return None
    start = seen - seen % BLOCK_SIZE
    return ProducerIdBlock(broker, start, start + BLOCK_SIZE - 1)
