"""Implements the agent's `ClusterClient` over gRPC: calls to the controller and to peer agents.

Source: Kafka BrokerToControllerChannelManager, NodeToControllerChannelManager.
"""

from cluster.config.settings import Settings
from cluster.model.broker import Endpoint
from cluster.model.errors import ApiError, PeerUnreachableError
from cluster.requests.agents import AlterPartitionRequest
from cluster.requests.request import RequestFor, Response
from cluster.rpc.client import RpcClient
from cluster.rpc.methods import METHOD_OF_REQUEST
from cluster.rpc.transport_security import ChannelSecurity


class GrpcClusterClient:
    """Implements broker_agent.ports.ClusterClient. An error for a whole request becomes its top-level error code."""

    def __init__(self, settings: Settings, security: ChannelSecurity | None = None) -> None:
        """`security`: which nodes are called under TLS; None: none."""
        self._client = RpcClient(
            connect_timeout_ms=settings.socket_connection_setup_timeout_ms,
            connect_timeout_max_ms=settings.socket_connection_setup_timeout_max_ms,
            security=security,
        )
        self._request_timeout_ms = settings.request_timeout_ms
        self._controller_timeout_ms = settings.controller_socket_timeout_ms
        self._replica_timeout_ms = settings.replica_socket_timeout_ms

    async def ask_controller(self, controller: Endpoint, request: RequestFor[Response]) -> Response:
        is_isr_change = isinstance(request, AlterPartitionRequest)
        timeout_ms = self._request_timeout_ms if is_isr_change else self._controller_timeout_ms
        return await self._call(controller, request, timeout_ms)

    async def ask_leader(self, leader: Endpoint, request: RequestFor[Response]) -> Response:
        return await self._call(leader, request, self._replica_timeout_ms)

    async def close(self) -> None:
        await self._client.close()

    async def _call(self, peer: Endpoint, request: RequestFor[Response], timeout_ms: int) -> Response:
        try:
            return await self._client.call(self._client.at(peer), request, timeout_ms)
        except ApiError as error:
            response_type: type[Response] = METHOD_OF_REQUEST[type(request)].response_type
            if "error_code" not in response_type.__struct_fields__:
                # Such responses have no field for a top-level error.
                raise PeerUnreachableError(peer.address, str(error)) from error
            return response_type(error_code=error.code)
