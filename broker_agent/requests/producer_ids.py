"""InitProducerId: gives each idempotent producer an id of its own, from blocks that the controller allocates.

Source: Kafka KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId without a
transactional id, RPCProducerIdManager; KIP-98, KIP-730.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import structlog

from broker_agent.ports import ClusterClient
from cluster.aio.parking import parked
from cluster.model.broker import BrokerEpoch, BrokerId, Endpoint
from cluster.model.errors import ErrorCode, PeerUnreachableError
from cluster.requests.agents import AllocateProducerIdsRequest
from cluster.requests.data import NO_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse

_RETRY_MS: Final = 50
_RESERVE: Final = 100
"""Fewer ids than this are too few: the next block is asked for."""
_RESERVE_RETRY_S: Final = 1.0
_WAIT_S: Final = 1.0
"""A client that gets no id in this time asks another broker, which may have some left."""
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
    ) -> None:
        self._own_id = own_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._client = client
        self._blocks: deque[range] = deque()
        """What is left of each block, none empty."""
        self.highest = NO_PRODUCER_ID
        """Of the ids allocated to this broker since its start; -1 if there is none."""
        self._turn = asyncio.Lock()
        self._taken = asyncio.Event()

    async def init(self, _: InitProducerIdRequest) -> InitProducerIdResponse:
        """Give the next id, with a new block where none is left; COORDINATOR_LOAD_IN_PROGRESS if there is none in time.

        Waits for a second at most.
        """
        try:
            async with asyncio.timeout(_WAIT_S):
                while not self._blocks:
                    async with parked(), self._turn:
                        if not self._blocks:
                            await self._add_block(_RETRY_MS / 1000)
        except TimeoutError:
            return InitProducerIdResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        first = self._blocks.popleft()
        if len(first) > 1:
            self._blocks.appendleft(first[1:])
        self._taken.set()
        return InitProducerIdResponse(ErrorCode.NONE, first[0], _NEW)

    async def keep_reserve(self) -> None:
        """Have a block before the first producer asks, and the next one before it is used up, until cancelled.

        So producers can start while no controller is active, or ZooKeeper is down.
        """
        while True:
            self._taken.clear()
            if sum(map(len, self._blocks)) < _RESERVE:
                async with self._turn:
                    await self._add_block(_RESERVE_RETRY_S)
            await self._taken.wait()

    async def _add_block(self, pause_s: float) -> None:
        while True:
            if block := await self._allocate():
                self._blocks.append(block)
                self.highest = max(self.highest, block[-1])
                return
            await asyncio.sleep(pause_s)

    async def _allocate(self) -> range:
        """Ask the controller for a block; it is empty when there is no answer, or a refusal."""
        controller = self._controller()
        if controller is None:
            return range(0)
        request = AllocateProducerIdsRequest(self._own_id, self._broker_epoch())
        try:
            response = await self._client.ask_controller(controller, request)
        except PeerUnreachableError as error:
            _log.debug("Producer ids cannot be had", controller=controller.address, error=str(error))
            return range(0)
        if response.error_code is not ErrorCode.NONE or response.producer_id_start < 0:
            _log.info("Controller refused producer ids", controller=controller.address, code=response.error_code.name)
            return range(0)
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)
