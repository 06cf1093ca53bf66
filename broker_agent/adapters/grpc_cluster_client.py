"""The agent's `ClusterClient` over gRPC: calls to the controller and to peer agents."""

from typing import Any

from cluster.broker import Endpoint
from cluster.errors import ApiError, PeerUnreachableError
from cluster.process.settings import Settings
from cluster.requests.agents import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from cluster.requests.data import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
)
from cluster.rpc.client import RpcClient


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

    async def alter_partition(self, controller: Endpoint, request: AlterPartitionRequest) -> AlterPartitionResponse:
        try:
            response: AlterPartitionResponse = await self._client.call(
                controller.address, request, self._request_timeout_ms
            )
        except ApiError as error:
            return AlterPartitionResponse(error_code=error.code)
        return response

    async def controlled_shutdown(
        self, controller: Endpoint, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        try:
            response: ControlledShutdownResponse = await self._client.call(
                controller.address, request, self._controller_timeout_ms
            )
        except ApiError as error:
            return ControlledShutdownResponse(error_code=error.code)
        return response

    async def fetch(self, leader: Endpoint, request: FetchRequest) -> FetchResponse:
        try:
            response: FetchResponse = await self._client.call(leader.address, request, self._replica_timeout_ms)
        except ApiError as error:
            return FetchResponse(error_code=error.code)
        return response

    async def offsets_for_leader_epoch(
        self, leader: Endpoint, request: OffsetsForLeaderEpochRequest
    ) -> OffsetsForLeaderEpochResponse:
        response: OffsetsForLeaderEpochResponse = await self._ask_leader(leader, request)
        return response

    async def list_offsets(self, leader: Endpoint, request: ListOffsetsRequest) -> ListOffsetsResponse:
        response: ListOffsetsResponse = await self._ask_leader(leader, request)
        return response

    async def close(self) -> None:
        await self._client.close()

    async def _ask_leader(self, leader: Endpoint, request: Any) -> Any:
        try:
            return await self._client.call(leader.address, request, self._replica_timeout_ms)
        except ApiError as error:
            # These responses have no field for a top-level error.
            raise PeerUnreachableError(leader.address, str(error)) from error
