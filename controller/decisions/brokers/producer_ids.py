"""Allocation of producer id blocks, each handed out once. Source: Kafka ZkProducerIdManager; KIP-98, KIP-730."""

from typing import Final

from cluster.model.broker import BrokerEpoch, BrokerId
from cluster.model.errors import ApiError, ErrorCode
from cluster.znodes.cluster_wide import ProducerIdBlock
from controller.decisions.context_view import ContextView

BLOCK_SIZE: Final = 1000
_ID_MAX: Final = 2**63 - 1


def refuse_allocation(view: ContextView, broker: BrokerId, broker_epoch: BrokerEpoch) -> ErrorCode:
    """The error that refuses an allocation, NONE if granted: only a broker's current incarnation may ask (AX-1)."""
    known = view.brokers.epochs.get(broker)
    if known is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    return ErrorCode.NONE if broker_epoch == known else ErrorCode.STALE_BROKER_EPOCH


def next_block(last: ProducerIdBlock | None, broker: BrokerId) -> ProducerIdBlock:
    """The block after the last allocated one; the first one if there was none (AX-2).

    Raises ApiError if the 64-bit ids are exhausted.
    """
    if last is None:
        return ProducerIdBlock(broker, 0, BLOCK_SIZE - 1)
    if last.end > _ID_MAX - BLOCK_SIZE:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the producer ids are exhausted")
    return ProducerIdBlock(broker, last.end + 1, last.end + BLOCK_SIZE)
