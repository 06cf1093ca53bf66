"""The versions of the brokers' APIs, as they tell them to anybody before an authentication."""

import asyncio
from typing import Final

from cluster.kafka_wire.messages.connections import ApiVersionsRequest, ApiVersionsResponse
from cluster.model.errors import ClusterError, ErrorCode
from controller.adapters.kafka.live_brokers import LiveBrokers

_ASKED_VERSION: Final = 3
_TIMEOUT_S: Final = 1.0
"""For all of it: brokers ask the controller, too, at the moment when others do not answer."""
_REMEMBERED_S: Final = 30.0
_FAILURE_REMEMBERED_S: Final = 5.0


class BrokerVersions:
    """Asks a live broker now and then, however many clients want to know."""

    def __init__(self, brokers: LiveBrokers) -> None:
        self._brokers, self._asking = brokers, asyncio.Lock()
        self._known: dict[str, tuple[ApiVersionsResponse | None, float]] = {}
        """By listener, with the time until which it is believed."""

    async def at(self, listener: str) -> ApiVersionsResponse | None:
        """The versions at a listener of this name of one of the brokers, those told last if none answers; None if none
        ever did.
        """
        async with self._asking:
            now = asyncio.get_running_loop().time()
            before, until = self._known.get(listener, (None, now))
            if until <= now:
                answer = await self._ask(listener)
                lasts_s = _FAILURE_REMEMBERED_S if answer is None else _REMEMBERED_S
                before = before if answer is None else answer
                self._known[listener] = before, asyncio.get_running_loop().time() + lasts_s
            return before

    async def _ask(self, listener: str) -> ApiVersionsResponse | None:
        request = ApiVersionsRequest(client_software_name="klamm", client_software_version="1")
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                connection = await self._brokers.connect_unauthenticated(listener)
                try:
                    answer = await connection.call(request, _ASKED_VERSION, ApiVersionsResponse, timeout_s=_TIMEOUT_S)
                finally:
                    connection.close()
        except (ClusterError, TimeoutError):
            return None
        return answer if answer.error_code == ErrorCode.NONE else None
