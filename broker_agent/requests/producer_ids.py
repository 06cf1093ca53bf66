"""InitProducerId: gives each idempotent producer an id of its own, from blocks that the controller allocates.

Source: Kafka KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId without a
transactional id, RPCProducerIdManager; KIP-98, KIP-730.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from broker_agent.ports import ClusterClient
from cluster.aio.parking import parked
from cluster.model.broker import BrokerEpoch, BrokerId, Endpoint
from cluster.model.errors import ErrorCode, PeerUnreachableError
from cluster.requests.agents import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from cluster.requests.data import InitProducerIdRequest, InitProducerIdResponse

_RETRY_MS: Final = 50
_NEW: Final = 0
"""The epoch of an id that nobody has used."""
_log = structlog.stdlib.get_logger()


class ProducerIds:
    """The ids allocated to this broker. What is left of a block when the broker stops is never given to anybody."""

    def __init__(
        self,
        own_id: BrokerId,
        *,
        broker_epoch: Callable[[], BrokerEpoch],
        controller: Callable[[], Endpoint | None],
        client: ClusterClient,
        timeout_ms: int,
    ) -> None:
        self._own_id = own_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._client = client
        self._timeout_ms = timeout_ms
        self._left = range(0)
        self._turn = asyncio.Lock()

    async def init(self, _: InitProducerIdRequest) -> InitProducerIdResponse:
        """Give the next id, with a new block where none is left; COORDINATOR_LOAD_IN_PROGRESS if there is none in time.

        Waits for `request.timeout.ms` at most.
        """
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                while not self._left:
                    async with parked(), self._turn:
                        if not self._left:
                            self._left = await self._until_allocated()
        except TimeoutError:
            return InitProducerIdResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        producer_id, self._left = self._left[0], self._left[1:]
        return InitProducerIdResponse(ErrorCode.NONE, producer_id, _NEW)

    async def _until_allocated(self) -> range:
        while True:
            if block := await self._allocate():
                return block
            await asyncio.sleep(_RETRY_MS / 1000)

    async def _allocate(self) -> range:
        """Ask the controller for a block; it is empty when there is no answer, or a refusal."""
        controller = self._controller()
        if controller is None:
            return range(0)
        request = AllocateProducerIdsRequest(self._own_id, self._broker_epoch())
        try:
            response = await self._client.ask_controller(controller, request, AllocateProducerIdsResponse)
        except PeerUnreachableError as error:
            _log.info("Producer ids cannot be had", controller=controller.address, error=str(error))
            return range(0)
        if response.error_code is not ErrorCode.NONE or response.producer_id_start < 0:
            _log.info("Controller refused producer ids", controller=controller.address, code=response.error_code.name)
            return range(0)
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)
