"""Runs a gRPC server for a `RequestHandler`: one at each listener of a process, with gRPC's health and reflection."""

from collections.abc import Sequence
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2
from msgspec import Struct

from cluster.config.config import host_and_port
from cluster.config.settings import Settings
from cluster.metrics.registry import Metrics
from cluster.model.broker import DEFAULT_LISTENER, joined_address
from cluster.model.errors import StartupError
from cluster.requests.context import RequestHandler
from cluster.rpc.admission import Admission
from cluster.rpc.admission_limits import AdmissionLimits
from cluster.rpc.authentication import AuthenticatingHandler, Authentication
from cluster.rpc.behaviours import Behaviours
from cluster.rpc.call_kinds import CallKind, kind_of
from cluster.rpc.callers import CallerIdentifier
from cluster.rpc.channels import MESSAGE_BYTES_MAX, admission_options, secured_options, server_options
from cluster.rpc.methods import Method
from cluster.rpc.standard_services import serve_standard_services
from cluster.rpc.transport_security import server_credentials
from cluster.security.mapping import PrincipalMapping
from cluster.tls.live import ListenerTls


class Listener(Struct, frozen=True):
    """Describes one port of a process: `host:port` (port 0: a free one), its name, and the largest request in bytes.

    `is_control`: whether control requests are admitted as such; at other listeners they are calls like others.
    `is_external`: whether its clients reach the cluster by other addresses. `tls` None: it is plaintext. `mapping`: how
    certificates become principals. `knows_nodes`: whether certificates may name nodes of klamm.
    The transport refuses a larger request with RESOURCE_EXHAUSTED before it has been read. This limit does not concern
    responses, which are limited by what was requested.
    """

    address: str
    name: str = DEFAULT_LISTENER
    request_bytes_max: int = MESSAGE_BYTES_MAX
    is_control: bool = False
    is_external: bool = False
    tls: ListenerTls | None = None
    mapping: PrincipalMapping = PrincipalMapping()
    authentication: Authentication | None = None
    knows_nodes: bool = True


class RpcServer:
    """Controls the running server of one listener. `address` has the bound port."""

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
        """The address `host:port`, with brackets around an IPv6 host."""
        return joined_address(self.host, self.port)

    async def set_serving(self, serving: bool) -> None:
        """Set the status that the health service reports for each of our services."""
        states = health_pb2.HealthCheckResponse
        for service in ("", *self._services):
            await self._health.set(service, states.SERVING if serving else states.NOT_SERVING)

    async def stop(self, grace_s: float = 1.0) -> None:
        """Refuse new calls, let those in flight finish for `grace_s`, then cancel them."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)


async def start_server(
    listener: Listener,
    handler: RequestHandler,
    methods: Sequence[Method],
    metrics: Metrics,
    admission: Admission | None = None,
) -> RpcServer:
    """Serve these methods at a listener. Raises StartupError if its address cannot be bound.

    The handler finds the name of the listener in the context of each request. All listeners of a process share one
    `admission`; None makes a new one with the default limits.
    """
    admission = Admission(AdmissionLimits.from_settings(Settings()), metrics) if admission is None else admission
    options = [
        *server_options(listener.request_bytes_max),
        *admission_options(admission.limits, is_main=not (listener.is_control or listener.is_external)),
    ]
    if listener.tls is not None:
        options += secured_options(listener.tls.max_age_ms)
    server = grpc.aio.server(options=options)
    sasl = None if listener.authentication is None else listener.authentication.of_listener(listener.name)
    behaviours = Behaviours(
        AuthenticatingHandler(handler, listener.authentication),
        admission,
        metrics,
        listener=listener.name,
        is_control=listener.is_control,
        callers=CallerIdentifier(
            is_secured=listener.tls is not None,
            mapping=listener.mapping,
            sasl=sasl,
            knows_nodes=listener.knows_nodes,
        ),
    )
    services = {method.service for method in methods}
    for method in methods:
        _add(server, method, behaviours.handler_of(method))
    health_service = health.aio.HealthServicer()
    is_secured = listener.tls is not None
    serve_standard_services(server, health_service, sorted(services), admission, is_secured=is_secured)
    try:
        bound = _bind(server, listener)
    except RuntimeError as error:
        raise StartupError(
            f"cannot listen on {listener.address}: in use, not permitted, or no address of this machine ({error})"
        ) from error
    await server.start()
    rpc_server = RpcServer(listener, server, bound, health_service, services)
    await rpc_server.set_serving(True)
    return rpc_server


def _bind(server: grpc.aio.Server, listener: Listener) -> int:
    """Bind the port and return its number. Raises RuntimeError."""
    host, port = host_and_port(listener.address)
    # An empty host means every interface.
    address = joined_address(host or "::", port)
    if listener.tls is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, server_credentials(listener.tls))


def _add(server: grpc.aio.Server, method: Method, handler: Any) -> None:
    handlers = {method.name: handler}
    if kind_of(method.request_type) is CallKind.ADMIN:
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(method.service, handlers),))
    else:
        # The library queues the arrived calls of each registered method apart, so they do not wait behind other calls.
        server.add_registered_method_handlers(method.service, handlers)
