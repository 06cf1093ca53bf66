"""A gRPC server for a `RequestHandler`; it only converts.

It includes health and reflection services, so that the usual tools (grpc_health_probe, grpcurl) work on every process.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import Any, Final, NoReturn

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from msgspec import Struct

from cluster.broker import DEFAULT_LISTENER
from cluster.errors import ApiError, ClusterError, ErrorCode, StartupError
from cluster.process.config import host_and_port
from cluster.process.metrics import Metrics
from cluster.process.request_metrics import RequestMetrics
from cluster.requests.context import RequestContext, RequestHandler
from cluster.requests.data import FetchRequest
from cluster.rpc.channels import MESSAGE_BYTES_MAX, SERVER_CONCURRENCY_MAX, server_options
from cluster.rpc.methods import Method
from cluster.rpc.status import status_of

PRINCIPAL_HEADER: Final = "klamm-principal"
"""The caller's claimed identity; not verified."""
HEADER_LENGTH_MAX: Final = 256
"""Principal and request id are repeated in every record of what a request leads to."""
REQUEST_ID_HEADER: Final = "x-request-id"

_log = structlog.stdlib.get_logger()

_ServicerContext = grpc.aio.ServicerContext[bytes, bytes]
_Behaviour = Callable[[bytes, _ServicerContext], Awaitable[bytes]]


class Listener(Struct, frozen=True):
    """One port of a process: `host:port` (port 0: a free one), the listener's name, and the largest request in bytes.

    The transport refuses a larger request with RESOURCE_EXHAUSTED before it has been read. Responses are bounded by
    what was requested, not by this limit.
    """

    address: str
    name: str = DEFAULT_LISTENER
    request_bytes_max: int = MESSAGE_BYTES_MAX


class RpcServer:
    """The running server of one listener. `address` has the bound port."""

    def __init__(
        self,
        listener: Listener,
        server: grpc.aio.Server,
        port: int,
        health_service: health.aio.HealthServicer,
        services: set[str],
    ) -> None:
        self.listener, self.port = listener, port
        self.host, _ = host_and_port(listener.address)
        self._server, self._health, self._services = server, health_service, sorted(services)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def set_serving(self, serving: bool) -> None:
        """Set the status that the health service reports."""
        states = health_pb2.HealthCheckResponse
        for service in ("", *self._services):
            await self._health.set(service, states.SERVING if serving else states.NOT_SERVING)

    async def stop(self, grace_s: float = 1.0) -> None:
        """Refuse new calls, let those in flight finish for `grace_s`, then cancel them."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)


async def start_server(
    listener: Listener, handler: RequestHandler, methods: Sequence[Method], metrics: Metrics
) -> RpcServer:
    """Serve these methods at a listener. Raises StartupError if its address cannot be bound.

    The handler finds the name of the listener in the context of each request.
    """
    options = server_options(listener.request_bytes_max)
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=SERVER_CONCURRENCY_MAX)
    services = {method.service for method in methods}
    for service, of_service in groupby(sorted(methods, key=lambda m: m.service), key=lambda m: m.service):
        behaviours: dict[str, Any] = {
            method.name: grpc.unary_stream_rpc_method_handler(_streaming(method, handler, listener))
            if method.streams
            else grpc.unary_unary_rpc_method_handler(_behaviour(method, handler, listener, RequestMetrics(metrics)))
            for method in of_service
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, behaviours),))
    health_service = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health_service, server)
    reflection.enable_server_reflection((*sorted(services), health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    host, port = host_and_port(listener.address)
    try:
        # An empty host means every interface.
        bound = server.add_insecure_port(f"{host or '[::]'}:{port}" if ":" not in host else f"[{host}]:{port}")
    except RuntimeError as error:
        raise StartupError(
            f"cannot listen on {listener.address}: in use, not permitted, or no address of this machine ({error})"
        ) from error
    await server.start()
    rpc_server = RpcServer(listener, server, bound, health_service, services)
    await rpc_server.set_serving(True)
    return rpc_server


def _behaviour(method: Method, handler: RequestHandler, listener: Listener, metrics: RequestMetrics) -> _Behaviour:
    # Messages arrive as bytes: the library would map a decoding error to a wrong status.
    async def behave(data: bytes, call: _ServicerContext) -> bytes:
        context = await _context_or_abort(call, listener)
        with metrics.measure(method.name, len(data)) as measured:
            try:
                request = method.request.decode(data)
                measured.api = _api_name(method, request)
                response = await handler.handle(context, request)
                measured.handled(getattr(response, "error_code", ErrorCode.NONE))
                return method.response.encode(response)
            except ClusterError as error:
                measured.error_code = error.code
                await _abort(call, error)
            except Exception as error:
                measured.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
                _log.exception("Request failed", method=method.path, peer=context.peer, request_id=context.request_id)
                await _abort(call, ApiError(measured.error_code, f"{type(error).__name__}: {error}"))

    return behave


def _streaming(
    method: Method, handler: RequestHandler, listener: Listener
) -> Callable[[bytes, _ServicerContext], Awaitable[None]]:
    async def behave(data: bytes, call: _ServicerContext) -> None:
        context = await _context_or_abort(call, listener)
        try:
            responses = await handler.handle(context, method.request.decode(data))
            async for response in responses:
                await call.write(method.response.encode(response))
        except ClusterError as error:
            await _abort(call, error)
        except Exception as error:
            _log.exception("Stream failed", method=method.path, peer=context.peer)
            await _abort(call, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}"))

    return behave


def _api_name(method: Method, request: Any) -> str:
    if isinstance(request, FetchRequest):
        return "FetchFollower" if request.replica_id >= 0 else "FetchConsumer"
    return method.name


async def _abort(call: _ServicerContext, error: ClusterError) -> NoReturn:
    status = status_of(error)
    await call.abort(status.code, status.details, status.trailing_metadata)
    raise AssertionError("abort raises")


async def _context_or_abort(call: _ServicerContext, listener: Listener) -> RequestContext:
    try:
        return request_context(call, listener.name)
    except ApiError as error:
        await _abort(call, error)


def request_context(call: _ServicerContext, listener: str) -> RequestContext:
    """The caller's data from the call's metadata and deadline. Raises ApiError for a header that is too long."""
    headers = {str(key): value for key, value in call.invocation_metadata() or ()}
    for name in (PRINCIPAL_HEADER, REQUEST_ID_HEADER):
        if len(headers.get(name, "")) > HEADER_LENGTH_MAX:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"the header has more than {HEADER_LENGTH_MAX} characters",
                field=name,
                value=f"{str(headers[name])[:20]}…",
            )
    remaining_s = call.time_remaining()
    return RequestContext(
        peer=call.peer(),
        principal=str(headers.get(PRINCIPAL_HEADER, "ANONYMOUS")),
        timeout_ms=None if remaining_s is None else max(0, int(remaining_s * 1000)),
        request_id=str(headers.get(REQUEST_ID_HEADER, "")),
        listener=listener,
    )
