"""Requests a controlled shutdown from the controller before the agent stops.

Source: Kafka KafkaServer.controlledShutdown.
"""

import asyncio
from collections.abc import Callable

import structlog

from broker_agent.ports import ClusterClient
from cluster.config.settings import Settings
from cluster.model.broker import BrokerEpoch, BrokerId, Endpoint
from cluster.model.errors import ErrorCode, PeerUnreachableError
from cluster.model.printable import counted
from cluster.requests.agents import ControlledShutdownRequest

_log = structlog.stdlib.get_logger()


class ControlledShutdownAttempts:
    """The retry loop; each attempt uses the controller that is active then."""

    def __init__(
        self,
        own_id: BrokerId,
        *,
        settings: Settings,
        broker_epoch: Callable[[], BrokerEpoch],
        controller: Callable[[], Endpoint | None],
        client: ClusterClient,
    ) -> None:
        self._own_id = own_id
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._client = client

    async def run(self) -> bool:
        """Repeat the request until nothing is led here, at most `controlled.shutdown.max.retries` times (R12.1, CS-16).

        Returns whether that succeeded; the agent stops in either case. Takes at most that many times
        `controller.socket.timeout.ms` plus the pauses.
        """
        attempts = self._settings.controlled_shutdown_max_retries
        for attempt in range(attempts):
            if attempt > 0:
                await asyncio.sleep(self._settings.controlled_shutdown_retry_backoff_ms / 1000)
            why_not = await self._attempt()
            if why_not is None:
                _log.info("Controlled shutdown succeeded", broker=self._own_id, attempts=attempt + 1)
                return True
            _log.warning("Controlled shutdown attempt failed", attempt=attempt + 1, of=attempts, why=why_not)
        _log.warning("Shutting down without a completed controlled shutdown", broker=self._own_id)
        return False

    async def _attempt(self) -> str | None:
        """Send one request; None if the controller moved all leaderships away, else the reason why not."""
        controller = self._controller()
        if controller is None:
            return "no active controller is known"
        request = ControlledShutdownRequest(self._own_id, self._broker_epoch())
        try:
            async with asyncio.timeout(self._settings.controller_socket_timeout_ms / 1000):
                response = await self._client.ask_controller(controller, request)
        except (PeerUnreachableError, TimeoutError) as error:
            return f"no answer from {controller.address}: {error}"
        if response.error_code is not ErrorCode.NONE:
            return response.error_code.name
        if response.remaining_partitions:
            first = response.remaining_partitions[0]
            count = counted(len(response.remaining_partitions), "partition")
            return f"{count} without another leader, such as {first.topic_name}-{first.partition_index}"
        return None
