"""What a controller needs from outside besides ZooKeeper: a way to tell brokers what was decided."""

from typing import Protocol

from cluster.broker import Broker
from cluster.requests.control import ControlRequest, ControlResponse


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
