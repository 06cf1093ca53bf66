"""Whether brokers take control requests only from who shows a certificate or authenticates by SASL. Then theirs are
taken only so, too.
"""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final

from cluster.kafka_wire.messages.connections import ApiVersionsRequest, ApiVersionsResponse
from cluster.model.broker import Endpoint
from cluster.model.errors import ApiError, ErrorCode, PeerNotConnectedError, PeerUnreachableError
from cluster.model.listeners import ListenerNames
from controller.adapters.kafka.live_brokers import LiveBrokers

_TIMEOUT_S: Final = 5.0
_REMEMBERED_S: Final = 60.0
_ATTEMPTS: Final = 3


class ClientCertificates:
    """Holds what is known of the brokers. `listeners`: the names of those at which they take control requests."""

    def __init__(self, brokers: LiveBrokers, listeners: ListenerNames) -> None:
        self._brokers, self._listeners = brokers, listeners
        self._asked: dict[str, tuple[bool, float]] = {}
        """Address -> whether it demands a certificate, and when that was tried."""

    async def require_as_brokers(self, *, by_certificate: bool, by_sasl: bool) -> None:
        """Raise ApiError unless the client is known in the way in which brokers know who sends them control requests.

        Without any, as long as brokers demand neither a certificate nor SASL, and one of those with TLS says so.
        """
        endpoints = [self._listeners.control_endpoint(b.endpoints) for b in await self._brokers.registered()]
        with_sasl = next((e for e in endpoints if e is not None and e.has_sasl), None)
        if with_sasl is not None:
            if by_sasl:
                return
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"brokers ask a controller at {with_sasl.listener}, where they authenticate themselves by SASL, "
                "and the request came at a listener without it",
            )
        if not by_certificate:
            await self._require_none_demanded(endpoints)

    async def _require_none_demanded(self, endpoints: Sequence[Endpoint | None]) -> None:
        secured = [endpoint for endpoint in endpoints if endpoint is not None and endpoint.security_protocol == "SSL"]
        if not secured:
            return
        now = asyncio.get_running_loop().time()
        known = [self._asked[e.address] for e in secured if e.address in self._asked]
        fresh = [demands for demands, at in known if now - at < _REMEMBERED_S]
        if not fresh:
            fresh = await self._ask_some(secured) or [demands for demands, _ in known]
        if not fresh:
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no broker says whether it demands certificates of its clients"
            )
        if any(fresh):
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                "the brokers demand certificates, and the request came without one: give this controller the "
                "ssl.client.auth of the brokers",
            )

    async def _ask_some(self, endpoints: list[Endpoint]) -> list[bool]:
        for endpoint in endpoints[:_ATTEMPTS]:
            demands = await self._demands(endpoint)
            if demands is not None:
                self._asked = {e.address: self._asked[e.address] for e in endpoints if e.address in self._asked}
                self._asked[endpoint.address] = demands, asyncio.get_running_loop().time()
                return [demands]
        return []

    async def _demands(self, endpoint: Endpoint) -> bool | None:
        """Whether this listener demands a certificate; None if it cannot be reached."""
        try:
            connection = await self._brokers.connect_to(endpoint, shows_certificate=False, timeout_s=_TIMEOUT_S)
        except PeerNotConnectedError as error:
            cause = error.__cause__
            is_own = isinstance(cause, ssl.SSLCertVerificationError)
            return True if isinstance(cause, ssl.SSLError) and not is_own else None
        except PeerUnreachableError:
            return None
        # With TLS 1.3 the client learns only after its handshake that the broker wanted a certificate.
        began = asyncio.get_running_loop().time()
        try:
            await connection.call(ApiVersionsRequest(), 0, ApiVersionsResponse, timeout_s=_TIMEOUT_S)
        except PeerUnreachableError:
            return True if asyncio.get_running_loop().time() - began < _TIMEOUT_S else None
        finally:
            connection.close()
        return False
