"""Connections to live brokers, for the requests of Kafka's clients that are not the controller's business."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from random import Random
from typing import Final

from cluster.config.kafka_tls import KafkaTls
from cluster.kafka_wire.connection import KafkaConnection
from cluster.model.broker import Broker, Endpoint
from cluster.model.errors import PeerUnreachableError, ZooKeeperError

_READ_TIMEOUT_S: Final = 2.0
_REMEMBERED_S: Final = 1.0
_CONNECT_TIMEOUT_S: Final = 5.0
_ATTEMPTS: Final = 3


class LiveBrokers:
    """Finds a broker for each connection of a client.

    `read` reads the registrations: a standby has heard nothing else of the brokers; it may raise ZooKeeperError.
    `own_addresses`: of this controller, which are never connected to; may grow. `tls`: for listeners that are SSL.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[Collection[Broker]]],
        random: Random,
        client_id: str,
        own_addresses: Collection[str],
        tls: KafkaTls,
    ) -> None:
        self._read = read
        self._random, self._client_id = random, client_id
        self._own_addresses = own_addresses
        self._tls = tls
        self._known: tuple[Broker, ...] = ()
        self._read_at: float | None = None

    async def connect(self, listener: str, *, shows_certificate: bool) -> KafkaConnection:
        """A connection to a live broker, at its listener of this name, so that it answers with the addresses that the
        client can reach. Raises PeerUnreachableError.
        """
        endpoints = [e for broker in await self.registered() if (e := broker.endpoint(listener)) and self._is_usable(e)]
        failure = PeerUnreachableError(listener, "no live broker has this listener")
        for endpoint in self._random.sample(endpoints, min(_ATTEMPTS, len(endpoints))):
            try:
                return await self.connect_to(endpoint, shows_certificate=shows_certificate)
            except PeerUnreachableError as error:
                failure = error
                self._read_at = None
        raise failure

    async def connect_to(
        self, endpoint: Endpoint, *, shows_certificate: bool, timeout_s: float = _CONNECT_TIMEOUT_S
    ) -> KafkaConnection:
        """A connection to this listener of a broker. Raises PeerUnreachableError."""
        context = self._tls.to_brokers if shows_certificate else self._tls.passing_on
        tls = context.current() if endpoint.security_protocol == "SSL" else None
        return await KafkaConnection.open(endpoint, client_id=self._client_id, timeout_s=timeout_s, tls=tls)

    def _is_usable(self, endpoint: Endpoint) -> bool:
        """Whether requests may be passed on there: not to ourselves, nor where the broker knows clients by SASL, which
        may have other rights than this controller.
        """
        return endpoint.security_protocol in {"PLAINTEXT", "SSL"} and endpoint.address not in self._own_addresses

    async def registered(self) -> tuple[Broker, ...]:
        """The registrations, as they were a second ago at most. Raises PeerUnreachableError."""
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now - self._read_at > _REMEMBERED_S:
            try:
                async with asyncio.timeout(_READ_TIMEOUT_S):
                    self._known = tuple(await self._read())
                self._read_at = now
            except (TimeoutError, ZooKeeperError) as error:
                if not self._known:
                    raise PeerUnreachableError("ZooKeeper", "the live brokers cannot be read") from error
        return self._known
