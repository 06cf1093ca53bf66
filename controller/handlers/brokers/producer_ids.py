"""Allocates blocks of producer ids. Source: Kafka KafkaController.processAllocateProducerIds, ZkProducerIdManager."""

import structlog

from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.agents import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from controller.active_controller import ActiveController
from controller.decisions.brokers.producer_ids import BLOCK_SIZE, next_block, refuse_allocation

_log = structlog.stdlib.get_logger()


async def allocate_producer_ids(
    active: ActiveController, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Allocate the next block of producer ids to the broker, after it was written to ZooKeeper (AX-1 to AX-4).

    Raises ApiError if the znode is missing, which must not be created here (D-14), or if no block is left.
    """
    code = refuse_allocation(active.context, request.broker_id, request.broker_epoch)
    if code is not ErrorCode.NONE:
        _log.info("Producer id allocation refused", broker=request.broker_id, error=code.name)
        return AllocateProducerIdsResponse(code)
    while True:
        found = await active.unfenced.read_producer_id_block()
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the node of producer ids is missing")
        last, version = found
        block = next_block(last, request.broker_id)
        if await active.unfenced.write_producer_id_block(block, version):
            _log.info("Producer ids allocated", broker=block.broker, start=block.start, end=block.end)
            return AllocateProducerIdsResponse(ErrorCode.NONE, block.start, BLOCK_SIZE)
