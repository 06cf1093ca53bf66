"""Adds gRPC's own services, health and reflection, to every listener, under the same admission as klamm's."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from cluster.model.errors import ApiError, ErrorCode
from cluster.rpc.admission import Admission
from cluster.rpc.behaviours import Behaviour, ServicerContext, abort, admit_and_receive
from cluster.rpc.call_kinds import CallKind


def serve_standard_services(
    server: grpc.aio.Server,
    health_service: health.aio.HealthServicer,
    services: Sequence[str],
    admission: Admission,
    *,
    is_secured: bool,
) -> None:
    """Add health and reflection, so that the usual tools (grpc_health_probe, grpcurl) work on every process.

    `is_secured`: without reflection, which would show strangers what there is to call.
    """
    admitted: Any = _Admitted(server, admission)
    health_pb2_grpc.add_HealthServicer_to_server(health_service, admitted)
    if is_secured:
        return
    names = (*services, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(reflection.aio.ReflectionServicer(names), admitted)


class _Admitted:
    """Looks like a server to the generated functions that add services, and puts admission before each behaviour."""

    def __init__(self, server: grpc.aio.Server, admission: Admission) -> None:
        self._server, self._admission = server, admission

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """Do nothing: the same methods follow by name, in `add_registered_method_handlers`."""

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        wrapped = {name: self._wrap(handler) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, wrapped),))

    def _wrap(self, handler: Any) -> Any:
        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(self._conversation(handler), None, handler.response_serializer)
        if handler.response_streaming:
            behave = self._one_request(handler.unary_stream, handler.request_deserializer, CallKind.WATCH)
            return grpc.stream_stream_rpc_method_handler(behave, None, handler.response_serializer)
        behave = self._one_request(handler.unary_unary, handler.request_deserializer, CallKind.ADMIN)
        return grpc.stream_unary_rpc_method_handler(behave, None, handler.response_serializer)

    def _one_request(self, behaviour: Behaviour, deserialize: Any, kind: CallKind) -> Behaviour:
        async def behave(_: object, call: ServicerContext) -> Any:
            try:
                admitted, data = await admit_and_receive(self._admission, kind, call)
            except ApiError as error:
                await abort(call, error)
            if kind is CallKind.WATCH:
                admitted.park()
            try:
                request = deserialize(data)
            except DecodeError as error:
                await abort(call, ApiError(ErrorCode.INVALID_REQUEST, f"malformed request: {error}"))
            return await behaviour(request, call)

        return behave

    def _conversation(self, handler: Any) -> Behaviour:
        """Answer requests in turn, until the client sends no more or takes too long for the next one."""

        async def behave(_: object, call: ServicerContext) -> None:
            try:
                admitted, data = await admit_and_receive(self._admission, CallKind.WATCH, call)
                admitted.park()

                async def requests() -> AsyncIterator[Any]:
                    message = data
                    while isinstance(message, bytes):
                        try:
                            yield handler.request_deserializer(message)
                        except DecodeError as error:
                            raise ApiError(ErrorCode.INVALID_REQUEST, f"malformed request: {error}") from error
                        message = await admitted.receive(call.read)

                async for response in handler.stream_stream(requests(), call):
                    await call.write(response)
            except ApiError as error:
                await abort(call, error)

        return behave
