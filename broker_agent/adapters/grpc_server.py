"""The gRPC server of a broker agent."""

from typing import Any

from cluster.metrics.registry import Metrics
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.context import RequestContext, RequestHandler
from cluster.requests.data import ProduceRequest, ProduceResponse
from cluster.rpc.admission import Admission
from cluster.rpc.methods import BROKER_AGENT_SERVICE, CLUSTER_SERVICE
from cluster.rpc.serving import Listener, RpcServer, start_server


class _SilentProduce:
    """Sends no response to a produce request with acks=0, and fails the call if an error occurred.

    Such a producer does not read responses, so error codes in one would be lost. Kafka closes the connection instead.
    """

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler

    async def handle(self, context: RequestContext, request: Any) -> Any:
        response = await self._handler.handle(context, request)
        if not isinstance(request, ProduceRequest) or request.acks != 0:
            return response
        for result in response.partitions:
            if result.error_code is not ErrorCode.NONE:
                where = f"{result.topic}-{result.partition}"
                raise ApiError(result.error_code, f"{where}: {result.error_message}", field="partitions", value=where)
        return ProduceResponse(())


async def serve_broker_agent(
    listener: Listener, handler: RequestHandler, metrics: Metrics, admission: Admission | None = None
) -> RpcServer:
    """Serve ClusterService and BrokerAgentService. Raises StartupError when the address cannot be bound."""
    return await start_server(
        listener, _SilentProduce(handler), (*CLUSTER_SERVICE, *BROKER_AGENT_SERVICE), metrics, admission
    )
