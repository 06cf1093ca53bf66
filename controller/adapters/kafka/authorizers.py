"""Whether the brokers have an authorizer. Then a controller that has none must not be a way past it.

A broker gets or loses an authorizer only by a restart (`authorizer.class.name` is read once), which ends its
connections: what it says holds as long as the connection over which it was asked.
"""

from collections.abc import Awaitable, Callable
from typing import Final
from weakref import WeakSet

from cluster.kafka_wire.authorizer import has_authorizer
from cluster.kafka_wire.connection import KafkaConnection
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError

_TIMEOUT_S: Final = 10.0


class Authorizers:
    """Holds what the brokers said: those that the active controller is connected to, and those that requests of
    clients are passed on to. `is_authorised`: this controller has an authorizer itself.
    """

    def __init__(self, *, is_authorised: bool = False) -> None:
        self._is_authorised = is_authorised
        self._guarded: set[BrokerId] = set()
        self._without: WeakSet[KafkaConnection] = WeakSet()

    @property
    def guarded(self) -> frozenset[BrokerId]:
        """The brokers with an authorizer, of those that the active controller is connected to, if it has none."""
        return frozenset(self._guarded)

    async def ask(self, broker: BrokerId, connection: KafkaConnection) -> None:
        """Ask a broker over a new connection of the controller. Raises PeerUnreachableError."""
        is_guarded = not self._is_authorised and await has_authorizer(connection, _TIMEOUT_S)
        self.forget(broker)
        if is_guarded:
            self._guarded.add(broker)

    def forget(self, broker: BrokerId) -> None:
        """The broker has gone, or restarts."""
        self._guarded.discard(broker)

    async def require_none(self, connected: Callable[[], Awaitable[KafkaConnection]]) -> KafkaConnection:
        """The connection; raises ApiError unless its broker has no authorizer, and no other is known to have one.

        Of a broker that has not answered nothing is known: it neither allows a request nor forbids it.
        """
        if self._guarded:
            raise _forbidden(f"broker {min(self._guarded)}")
        try:
            connection = await connected()
            is_guarded = connection not in self._without and await has_authorizer(connection, _TIMEOUT_S)
        except PeerUnreachableError as error:
            raise ApiError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"no broker says whether the cluster has an authorizer: {error}"
            ) from error
        if is_guarded:
            raise _forbidden(f"broker {connection.address}")
        self._without.add(connection)
        return connection


def _forbidden(broker: str) -> ApiError:
    return ApiError(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        f"{broker} has an authorizer, and this controller has none, so that anybody could change the cluster: give it "
        "the authorizer.class.name and super.users of the brokers",
    )
