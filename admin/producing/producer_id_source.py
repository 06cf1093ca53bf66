"""Where an idempotent producer gets its id: any broker has some to give."""

import asyncio
from typing import Final

from admin.describing.topology import Topology
from admin.producing.idempotence import ProducerIdentity
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests.data import InitProducerIdRequest

_TOO_OLD: Final = "the brokers are of a release that gives no producer ids"


class ProducerIdSource:
    """Asks one broker after the other. `failure`: why there is no id yet."""

    def __init__(self, topology: Topology, *, timeout_ms: int, backoff_ms: int) -> None:
        self._topology = topology
        self._timeout_ms = timeout_ms
        self._backoff_s = backoff_ms / 1000
        self.failure = "no broker has answered"

    async def new_identity(self) -> ProducerIdentity:
        """Return a producer id that nobody else has, in its first epoch, however long that takes.

        Raises ApiError(UNSUPPORTED_VERSION) where no broker knows the request, ApiError(CLUSTER_AUTHORIZATION_FAILED)
        without a right to write anywhere. Source: Kafka Sender.maybeSendAndPoll.
        """
        too_old: set[str] = set()
        waiting = self._topology.client.waiting
        with waiting.named(lambda: f"no producer id yet ({self.failure})", None):
            while True:
                address = await self._topology.next_broker()
                if address is not None:
                    found = await self._ask(address, too_old)
                    if found is not None:
                        return found
                    if too_old.issuperset(self._topology.brokers):
                        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, _TOO_OLD, field="enable.idempotence")
                await asyncio.sleep(self._backoff_s)

    async def _ask(self, address: str, too_old: set[str]) -> ProducerIdentity | None:
        try:
            response = await self._topology.client.ask_broker(address, InitProducerIdRequest(), self._timeout_ms)
        except (PeerUnreachableError, ApiError) as error:
            self.failure = str(error)
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                too_old.add(address)
            if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise
            return None
        if response.error_code is not ErrorCode.NONE:
            self.failure = f"{address} answers {response.error_code.name}"
            return None
        return ProducerIdentity(response.producer_id, response.producer_epoch)
