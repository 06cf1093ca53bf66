"""The gRPC server of a controller."""

from cluster.metrics.registry import Metrics
from cluster.requests.context import RequestHandler
from cluster.rpc.admission import Admission
from cluster.rpc.methods import CLUSTER_SERVICE, CONTROLLER_SERVICE
from cluster.rpc.serving import Listener, RpcServer, start_server


async def serve_controller(
    listener: Listener, handler: RequestHandler, metrics: Metrics, admission: Admission | None = None
) -> RpcServer:
    """Serve ClusterService and ControllerService. Raises StartupError when the address cannot be bound."""
    return await start_server(listener, handler, (*CLUSTER_SERVICE, *CONTROLLER_SERVICE), metrics, admission)
