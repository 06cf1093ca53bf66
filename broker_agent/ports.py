"""Ports of an agent besides ZooKeeper: other nodes, and work off the event loop.

Implemented by adapters and by the simulator. The port of the logs is the disk (`broker_agent.log.disk`).
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct

from cluster.model.broker import Endpoint
from cluster.requests import data

T = TypeVar("T")
R = TypeVar("R", bound=Struct)


class ClusterClient(Protocol):
    """Calls to the controller and to other agents. Each raises PeerUnreachableError without a response."""

    async def ask_controller(self, controller: Endpoint, request: Struct, response_type: type[R]) -> R:
        """Send an inter-node request of `cluster.requests.agents`. An error is the `error_code` of the response."""

    async def fetch(self, leader: Endpoint, request: data.FetchRequest) -> data.FetchResponse: ...

    async def offsets_for_leader_epoch(
        self, leader: Endpoint, request: data.OffsetsForLeaderEpochRequest
    ) -> data.OffsetsForLeaderEpochResponse: ...

    async def list_offsets(self, leader: Endpoint, request: data.ListOffsetsRequest) -> data.ListOffsetsResponse: ...


class Workers(Protocol):
    """Runs work that would keep the event loop from its tasks for too long."""

    async def run(self, work: Callable[[], T]) -> T:
        """Run the work elsewhere; several at a time, in no particular order.

        Started work is completed even if the awaiting task is cancelled, which then ends when the work has ended.
        """
