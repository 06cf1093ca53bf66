"""What a controller needs from outside: a way to tell brokers what was decided, and parts of larger interfaces."""

from asyncio import Future
from collections.abc import Sequence
from typing import Protocol

from cluster.broker import Broker, BrokerId
from cluster.requests.control import ControlRequest, ControlResponse
from cluster.zookeeper.port import Znode


class BrokerClient(Protocol):
    """Sends one control request to one broker; ordering and retries are the caller's."""

    async def send(self, broker: Broker, request: ControlRequest) -> ControlResponse:
        """Deliver and await the answer, at most `request.timeout.ms`.

        Raises PeerUnreachableError when there was no answer: the request may or may not have been applied.
        """
        ...

    async def forget(self, broker: Broker) -> None:
        """Close whatever connection is kept to this broker."""
        ...


class RequestChannels(Protocol):
    """An ordered queue of control requests for each registered broker."""

    def add(self, broker: Broker) -> None:
        """Open a channel; a no-op where there is one."""
        ...

    def remove(self, broker: BrokerId) -> None:
        """Drop what is queued and close the channel."""
        ...

    def stop(self) -> None:
        """Remove every channel."""
        ...

    def send(self, broker: BrokerId, request: ControlRequest) -> None:
        """Queue a request; without a channel it is dropped."""
        ...

    def delivered(self, broker: BrokerId) -> "Future[bool]":
        """Becomes True once the broker has answered all that is queued for it now, False if its channel ends before."""
        ...


class ZooKeeperReads(Protocol):
    """The part of the ZooKeeper port that changes nothing and leaves nothing behind."""

    async def get_many(self, paths: Sequence[str]) -> list[Znode | None]: ...

    async def children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]: ...
