"""Connections to live brokers, for the requests of Kafka's clients that are not the controller's business."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from random import Random
from typing import Final

from cluster.config.broker_logins import BrokerLogins
from cluster.config.kafka_tls import KafkaTls
from cluster.kafka_wire.connection import KafkaConnection
from cluster.model.broker import Broker, Endpoint
from cluster.model.errors import PeerUnreachableError, ZooKeeperError
from cluster.model.listeners import ListenerNames

_READ_TIMEOUT_S: Final = 2.0
_REMEMBERED_S: Final = 1.0
_CONNECT_TIMEOUT_S: Final = 5.0
_ATTEMPTS: Final = 3


class LiveBrokers:
    """Finds a broker for each connection of a client.

    `read` reads the registrations: a standby has heard nothing else of the brokers; it may raise ZooKeeperError.
    `own_addresses`: of this controller, which are never connected to; may grow. `tls`: for listeners that have it.
    `logins`: this controller's own, for listeners with SASL. `read_controllers` reads the Kafka listeners of all
    controllers, which brokers name among the nodes of the cluster.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[Collection[Broker]]],
        random: Random,
        client_id: str,
        own_addresses: Collection[str],
        tls: KafkaTls,
        *,
        logins: BrokerLogins,
        read_controllers: Callable[[], Awaitable[Collection[Broker]]] | None = None,
    ) -> None:
        self._read, self._read_controllers = read, read_controllers
        self._random, self._client_id = random, client_id
        self._own_addresses = own_addresses
        self._tls, self._logins = tls, logins
        self._of_controller: KafkaConnection | None = None
        self._connecting = asyncio.Lock()
        self._known: tuple[Broker, ...] = ()
        self._read_at: float | None = None

    async def connect(self, listener: str, *, shows_certificate: bool) -> KafkaConnection:
        """A connection to a live broker, at its listener of this name, so that it answers with the addresses that the
        client can reach. Raises PeerUnreachableError.

        `shows_certificate`: the broker sees who this controller is, by its certificate or by SASL, and not only that
        somebody asks. A listener with SASL answers nobody else.
        """
        endpoints = [e for e in await self._endpoints(listener) if shows_certificate or not e.has_sasl]
        return await self._connect_to_any(
            endpoints, partial(self.connect_to, shows_certificate=shows_certificate), listener
        )

    async def connect_unauthenticated(self, listener: str) -> KafkaConnection:
        """A connection to a live broker at this listener with SASL, over which it answers ApiVersions only. Raises
        PeerUnreachableError.
        """
        connect = partial(self.connect_to, shows_certificate=False)
        return await self._connect_to_any(await self._endpoints(listener), connect, listener)

    async def connected_as_controller(self, names: ListenerNames) -> KafkaConnection:
        """The connection to a live broker over which this controller asks what concerns no client in particular; at the
        listener for control requests. Raises PeerUnreachableError.
        """
        async with self._connecting:
            if self._of_controller is None or not self._of_controller.is_open:
                self._of_controller = await self.connect_as_controller(names)
            return self._of_controller

    async def connect_as_controller(self, names: ListenerNames) -> KafkaConnection:
        """Connect to a live broker at the listener for control requests. Raises PeerUnreachableError."""
        found = [names.control_endpoint(broker.endpoints) for broker in await self.registered()]
        endpoints = [e for e in found if e is not None and e.address not in self._own_addresses]
        connect = partial(self.connect_to, shows_certificate=True)
        return await self._connect_to_any(endpoints, connect, names.control)

    def takes_login_at(self, listener: str) -> bool:
        """Whether brokers let this controller in at their listener of this name."""
        return self._logins.suit(listener)

    async def nodes_at(self, listener: str) -> dict[int, Endpoint]:
        """Find the endpoints of this name of all nodes, brokers and controllers, by their ids. Raises
        PeerUnreachableError.
        """
        nodes = list(await self.registered())
        if self._read_controllers is not None:
            nodes += await self._read_in_time(self._read_controllers)
        return {int(node.id): endpoint for node in nodes if (endpoint := node.endpoint(listener)) is not None}

    def close(self) -> None:
        """Close the connection of the controller itself."""
        if self._of_controller is not None:
            self._of_controller.close()

    async def _endpoints(self, listener: str) -> list[Endpoint]:
        """The listeners of this name of all brokers: none of ours."""
        found = [broker.endpoint(listener) for broker in await self.registered()]
        return [endpoint for endpoint in found if endpoint and endpoint.address not in self._own_addresses]

    async def _connect_to_any(
        self, endpoints: list[Endpoint], connect: Callable[[Endpoint], Awaitable[KafkaConnection]], listener: str
    ) -> KafkaConnection:
        failure = PeerUnreachableError(listener, "no live broker has this listener")
        for endpoint in self._random.sample(endpoints, min(_ATTEMPTS, len(endpoints))):
            try:
                return await connect(endpoint)
            except PeerUnreachableError as error:
                failure = error
                self._read_at = None
        raise failure

    async def connect_to(
        self, endpoint: Endpoint, *, shows_certificate: bool, timeout_s: float = _CONNECT_TIMEOUT_S
    ) -> KafkaConnection:
        """A connection to this listener of a broker. Raises PeerUnreachableError."""
        context = self._tls.to_brokers if shows_certificate else self._tls.passing_on
        login = self._logins.of(endpoint) if endpoint.has_sasl and shows_certificate else None
        if login is None and endpoint.has_sasl and shows_certificate:
            why = "this controller has no credentials for it (sasl.mechanism.inter.broker.protocol)"
            raise PeerUnreachableError(endpoint.address, f"listener {endpoint.listener}: {why}")
        return await KafkaConnection.open(
            endpoint,
            client_id=self._client_id,
            timeout_s=timeout_s,
            tls=context.current() if endpoint.has_tls else None,
            login=login,
        )

    async def registered(self) -> tuple[Broker, ...]:
        """The registrations, as they were a second ago at most. Raises PeerUnreachableError."""
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now - self._read_at > _REMEMBERED_S:
            try:
                self._known = await self._read_in_time(self._read)
                self._read_at = now
            except PeerUnreachableError:
                if not self._known:
                    raise
        return self._known

    @staticmethod
    async def _read_in_time(read: Callable[[], Awaitable[Collection[Broker]]]) -> tuple[Broker, ...]:
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                return tuple(await read())
        except (TimeoutError, ZooKeeperError) as error:
            raise PeerUnreachableError("ZooKeeper", "the live brokers cannot be read") from error
