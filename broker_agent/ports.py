"""Ports of an agent besides ZooKeeper: other nodes, and work off the event loop.

Implemented by adapters and by the simulator. The port of the logs is the disk (`broker_agent.log.disk`).
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from cluster.model.broker import Endpoint
from cluster.requests.request import RequestFor, Response

T = TypeVar("T")


class ClusterClient(Protocol):
    """Calls to the controller and to other agents. Each raises PeerUnreachableError without a response."""

    async def ask_controller(self, controller: Endpoint, request: RequestFor[Response]) -> Response:
        """Send an inter-node request of `cluster.requests.agents`. An error is the `error_code` of the response."""

    async def ask_leader(self, leader: Endpoint, request: RequestFor[Response]) -> Response:
        """Send a request of a follower. An error is the `error_code` of the response, or as if there were none."""


class Workers(Protocol):
    """Runs work that would keep the event loop from its tasks for too long."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run the work elsewhere; several at a time, in no particular order.

        Started work is completed even if the awaiting task is cancelled, which then ends when the work has ended.
        """
