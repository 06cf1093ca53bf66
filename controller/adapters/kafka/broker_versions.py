"""The versions of the brokers' APIs, as they tell them to anybody before an authentication."""

import asyncio
from typing import Final

from cluster.kafka_wire.messages.connections import ApiVersionsRequest, ApiVersionsResponse
from cluster.model.errors import ClusterError, ErrorCode
from controller.adapters.kafka.live_brokers import LiveBrokers

_ASKED_VERSION: Final = 3
_TIMEOUT_S: Final = 5.0
_REMEMBERED_S: Final = 30.0
_FAILURE_REMEMBERED_S: Final = 1.0


class BrokerVersions:
    """Asks a live broker now and then, however many clients want to know."""

    def __init__(self, brokers: LiveBrokers) -> None:
        self._brokers, self._asking = brokers, asyncio.Lock()
        self._known: dict[str, tuple[ApiVersionsResponse | None, float]] = {}
        """By listener, with the time until which it is believed."""

    async def at(self, listener: str) -> ApiVersionsResponse | None:
        """The versions at a listener of this name of one of the brokers; None while none tells them."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            known = self._known.get(listener)
            if known is None or known[1] <= now:
                answer = await self._ask(listener)
                lasts_s = _FAILURE_REMEMBERED_S if answer is None else _REMEMBERED_S
                known = self._known[listener] = answer, asyncio.get_running_loop().time() + lasts_s
            return known[0]

    async def _ask(self, listener: str) -> ApiVersionsResponse | None:
        request = ApiVersionsRequest(client_software_name="klamm", client_software_version="1")
        try:
            connection = await self._brokers.connect_unauthenticated(listener)
            try:
                answer = await connection.call(request, _ASKED_VERSION, ApiVersionsResponse, timeout_s=_TIMEOUT_S)
            finally:
                connection.close()
        except ClusterError:
            return None
        return answer if answer.error_code == ErrorCode.NONE else None
