"""Whether the brokers have an authorizer. Then this controller, which has none, must not be a way past it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from cluster.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.kafka_wire.authorizer import has_authorizer
from cluster.kafka_wire.connection import KafkaConnection

_TIMEOUT_S: Final = 10.0
_REMEMBERED_S: Final = 60.0


class Authorizers:
    """What is known of the brokers that requests are passed on to."""

    def __init__(self) -> None:
        self._without_until: dict[str, float] = {}
        """Address -> until when it counts as without an authorizer."""

    async def require_none(self, connected: Callable[[], Awaitable[KafkaConnection]]) -> KafkaConnection:
        """The connection; raises ApiError unless its broker has no authorizer."""
        try:
            connection = await connected()
            now = asyncio.get_running_loop().time()
            if self._without_until.get(connection.address, 0) > now:
                return connection
            is_guarded = await has_authorizer(connection, _TIMEOUT_S)
        except PeerUnreachableError as error:
            raise ApiError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"no broker says whether the cluster has an authorizer: {error}"
            ) from error
        if is_guarded:
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"broker {connection.address} has an authorizer, and klamm neither authenticates nor authorises its "
                "clients yet, so that anybody could change the cluster: give it back with klamm leave",
            )
        self._without_until = {a: until for a, until in self._without_until.items() if until > now}
        self._without_until[connection.address] = now + _REMEMBERED_S
        return connection
