"""The connection of one client's session to a broker, for what this controller does not answer by itself."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from cluster.aio.off_loop import THREAD, off_loop
from cluster.kafka_wire.apis import KafkaApi
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.headers import decode_response, encode_request
from cluster.model.listeners import ListenerNames
from controller.adapters.kafka.authorized_answers import AuthorizedRequest
from controller.adapters.kafka.live_brokers import LiveBrokers
from controller.adapters.kafka.node_addresses import at_listener

PASSED_ON_TIMEOUT_S: Final = 600.0
"""Longer than any request waits by the defaults of Kafka's clients; a broker that dies closes the connection."""
LARGE_BYTES: Final = 16_384
"""A longer request is decoded beside the event loop, and so is what follows from it."""


class Upstream:
    """Connects to a live broker when it is first needed, and again when the connection is gone.

    `listener`: that of the client. `is_own`: whether the broker is to know this controller, by its certificate or by
    SASL. `names`: of the listeners where brokers take control requests.
    """

    def __init__(self, brokers: LiveBrokers, names: ListenerNames, listener: str, *, is_own: bool) -> None:
        self._brokers, self._names, self._listener, self._is_own = brokers, names, listener, is_own
        self._connection: KafkaConnection | None = None

    async def connected(self) -> KafkaConnection:
        """The connection, at the client's listener, so that answers have the addresses that the client can reach; at
        the one for control requests, where that of the client does not take this controller's own mechanism. Raises
        PeerUnreachableError.
        """
        if self._connection is None or not self._connection.is_open:
            self._connection = await self._connect()
        return self._connection

    async def _connect(self) -> KafkaConnection:
        if self._is_elsewhere:
            return await self._brokers.connect_as_controller(self._names)
        return await self._brokers.connect(self._listener, shows_certificate=self._is_own)

    async def as_controller(self) -> KafkaConnection:
        """The connection over which a broker says whether it has an authorizer: it knows the client by its password
        only, which this controller does not have. Raises PeerUnreachableError.
        """
        return await self._brokers.connected_as_controller(self._names)

    async def answer(self, called: KafkaApi, asked: AuthorizedRequest, thread: ThreadPoolExecutor) -> Any:
        """Ask a broker under this controller's own identity, and give the answer as one at the client's listener.

        A long one, as Metadata of all topics is, is decoded beside the event loop, and what follows from it is done
        there, in the thread. Raises ClusterError.
        """
        assert asked.sent is not None, "nothing is asked"
        connection = await self.connected()
        frame = await off_loop(encode_request, asked.sent, asked.version, 0, connection.client_id)
        raw = await connection.call_raw(frame, timeout_s=PASSED_ON_TIMEOUT_S)
        if len(raw) > LARGE_BYTES:
            THREAD.set(thread)
        _, answer = await off_loop(decode_response, called.response_type, asked.version, raw)
        if self._is_elsewhere:
            return await off_loop(at_listener, answer, await self._brokers.nodes_at(self._listener))
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    @property
    def _is_elsewhere(self) -> bool:
        return self._is_own and not self._brokers.takes_login_at(self._listener)
