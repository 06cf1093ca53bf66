"""Implements the agent's `ClusterClient` over gRPC: calls to the controller and to peer agents.

Source: Kafka BrokerToControllerChannelManager, NodeToControllerChannelManager.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from cluster.config.settings import Settings
from cluster.model.broker import Endpoint
from cluster.model.errors import ApiError, ErrorCode, PeerUnreachableError
from cluster.requests import data
from cluster.requests.agents import AlterPartitionRequest
from cluster.rpc.client import RpcClient

_T = TypeVar("_T")


class GrpcClusterClient:
    """Implements broker_agent.ports.ClusterClient. An error for a whole request becomes its top-level error code."""

    def __init__(self, settings: Settings) -> None:
        self._client = RpcClient(
            connect_timeout_ms=settings.socket_connection_setup_timeout_ms,
            connect_timeout_max_ms=settings.socket_connection_setup_timeout_max_ms,
        )
        self._request_timeout_ms = settings.request_timeout_ms
        self._controller_timeout_ms = settings.controller_socket_timeout_ms
        self._replica_timeout_ms = settings.replica_socket_timeout_ms

    async def ask_controller(self, controller: Endpoint, request: Struct, response_type: type[_T]) -> _T:
        is_isr_change = isinstance(request, AlterPartitionRequest)
        timeout_ms = self._request_timeout_ms if is_isr_change else self._controller_timeout_ms
        return await self._call(controller, request, timeout_ms, response_type)

    async def fetch(self, leader: Endpoint, request: data.FetchRequest) -> data.FetchResponse:
        return await self._call(leader, request, self._replica_timeout_ms, data.FetchResponse)

    async def offsets_for_leader_epoch(
        self, leader: Endpoint, request: data.OffsetsForLeaderEpochRequest
    ) -> data.OffsetsForLeaderEpochResponse:
        response: data.OffsetsForLeaderEpochResponse = await self._ask_leader(leader, request)
        return response

    async def list_offsets(self, leader: Endpoint, request: data.ListOffsetsRequest) -> data.ListOffsetsResponse:
        response: data.ListOffsetsResponse = await self._ask_leader(leader, request)
        return response

    async def close(self) -> None:
        await self._client.close()

    async def _call(self, peer: Endpoint, request: Any, timeout_ms: int, refused: Callable[[ErrorCode], _T]) -> _T:
        try:
            response: _T = await self._client.call(peer.address, request, timeout_ms)
        except ApiError as error:
            return refused(error.code)
        return response

    async def _ask_leader(self, leader: Endpoint, request: Any) -> Any:
        try:
            return await self._client.call(leader.address, request, self._replica_timeout_ms)
        except ApiError as error:
            # These responses have no field for a top-level error.
            raise PeerUnreachableError(leader.address, str(error)) from error
