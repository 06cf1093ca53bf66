"""Serves each call: lets it in, receives the request, hands it to the handler, sends the response.

Every method is registered as one with a stream of requests, which is the same on the wire. The library would read a
single request before it calls us; in this way a call is let in or refused before its message takes memory. Source:
Kafka KafkaRequestHandler.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, NoReturn

import grpc
import structlog

from cluster.aio.parking import CURRENT
from cluster.metrics.registry import Metrics
from cluster.metrics.requests import RequestMetrics
from cluster.model.errors import ApiError, ClusterError, ErrorCode
from cluster.requests.authentication import AuthenticateRequest
from cluster.requests.context import RequestContext, RequestHandler
from cluster.requests.data import FetchRequest, FetchResponse
from cluster.rpc import large_messages
from cluster.rpc.admission import Admission, AdmittedCall
from cluster.rpc.budgets import Peer
from cluster.rpc.call_kinds import CallKind, kind_of
from cluster.rpc.callers import CallerIdentifier
from cluster.rpc.control_encoding import shared_size
from cluster.rpc.methods import REPLICA_FETCH, Method
from cluster.rpc.status import status_of

PRINCIPAL_HEADER: Final = "klamm-principal"
"""The caller's claimed identity; not verified, and without effect under TLS."""
HEADER_LENGTH_MAX: Final = 256
"""The longest principal or request id, in characters: both are repeated in every record that follows from a request."""
REQUEST_ID_HEADER: Final = "x-request-id"
CLIENT_ID_HEADER: Final = "klamm-client-id"
"""What the client calls itself: its quotas are those of this name."""

_ANONYMOUS: Final = "ANONYMOUS"

_log = structlog.stdlib.get_logger()

ServicerContext = grpc.aio.ServicerContext[Any, Any]
Behaviour = Callable[[Any, ServicerContext], Awaitable[Any]]


class Behaviours:
    """Makes the behaviours of one listener: the functions that the library calls for each call."""

    def __init__(
        self,
        handler: RequestHandler,
        admission: Admission,
        metrics: Metrics,
        *,
        listener: str,
        is_control: bool,
        callers: CallerIdentifier,
    ) -> None:
        self._handler, self._admission = handler, admission
        self._listener, self._is_control, self._callers = listener, is_control, callers
        self._metrics = RequestMetrics(metrics)

    def handler_of(self, method: Method) -> Any:
        """Make the handler of a method for the library."""
        if method.streams:
            return grpc.stream_stream_rpc_method_handler(self._streaming(method))
        return grpc.stream_unary_rpc_method_handler(self._unary(method))

    def _unary(self, method: Method) -> Behaviour:
        # Messages arrive as bytes: the library would map a decoding error to a wrong status.
        async def behave(_: object, call: ServicerContext) -> bytes:
            context, admitted, data = await self._receive(method, call)
            with self._metrics.measure(method.name, len(data)) as measured:
                try:
                    request = await large_messages.decode(method.request, data, admitted.kind)
                    # The records of the request are in it a second time.
                    del data
                    measured.api = _api_name(method, request)
                    await self._begin_handling(admitted, request)
                    response = await self._handler.handle(context, request)
                    measured.handled(
                        getattr(response, "error_code", ErrorCode.NONE),
                        throttle_time_ms=getattr(response, "throttle_time_ms", 0),
                    )
                    answer = await self._encode(method, response, admitted)
                    admitted.answered(len(answer))
                    return answer
                except ClusterError as error:
                    measured.error_code = error.code
                    await abort(call, error)
                except Exception as error:
                    measured.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
                    _log.exception(
                        "Request failed", method=method.path, peer=context.peer, request_id=context.request_id
                    )
                    await abort(call, ApiError(measured.error_code, f"{type(error).__name__}: {error}"))

        return behave

    def _streaming(self, method: Method) -> Behaviour:
        async def behave(_: object, call: ServicerContext) -> None:
            context, admitted, data = await self._receive(method, call)
            try:
                responses = await self._handler.handle(context, method.request.decode(data))
                admitted.park()
                await _send_all(method, call, responses, context.authenticated_until)
            except ClusterError as error:
                await abort(call, error)
            except Exception as error:
                _log.exception("Stream failed", method=method.path, peer=context.peer)
                await abort(call, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}"))

        return behave

    async def _receive(self, method: Method, call: ServicerContext) -> tuple[RequestContext, AdmittedCall, bytes]:
        try:
            is_authenticating = method.request_type is AuthenticateRequest
            context = request_context(call, self._listener, self._callers, is_authenticating=is_authenticating)
            admitted, data = await admit_and_receive(self._admission, self._kind_of(method), call)
        except ApiError as error:
            self._metrics.errors(method.name, error.code).mark()
            await abort(call, error)
        return context, admitted, data

    def _kind_of(self, method: Method) -> CallKind:
        kind = kind_of(method.request_type)
        if kind is CallKind.CONTROL and not self._is_control:
            # It comes from a broker that knows no other listener, or from anyone: such calls get no control reserve.
            return CallKind.ADMIN
        # For Fetch, only the request tells whether its caller is a follower.
        return CallKind.REPLICATION if method is REPLICA_FETCH else kind

    async def _begin_handling(self, admitted: AdmittedCall, request: Any) -> None:
        admitted.handle_as(self._admission.recognize(request) or admitted.kind)
        if isinstance(request, FetchRequest):
            await admitted.expect_response(request.max_bytes)

    @staticmethod
    async def _encode(method: Method, response: Any, admitted: AdmittedCall) -> bytes:
        size = shared_size(response)
        if size is not None:
            # Of what is encoded already, a large response is no more work than a small one.
            await admitted.expect_response(size)
            return method.encode_response(response)
        if not large_messages.is_large(response):
            return method.encode_response(response)
        if not isinstance(response, FetchResponse):
            # Room is taken before encoding: many large responses at once would take memory that the budget keeps free.
            await admitted.expect_response(await large_messages.estimate_size(response, admitted.kind))
        return await large_messages.encode(method.encode_response, response, admitted.kind)


async def _send_all(method: Method, call: ServicerContext, responses: Any, until: float | None) -> None:
    """Send the responses of a stream until it ends, the caller leaves, or the caller's session ends: then ApiError."""
    try:
        async with asyncio.timeout_at(until) as session, aclosing(responses):
            async for response in responses:
                encoded = method.encode_response(response)
                try:
                    await call.write(encoded)
                except grpc.aio.BaseError:
                    # The caller left while this was on its way, or the server is being stopped.
                    return
    except TimeoutError as error:
        if not session.expired():
            raise
        why = "the session of the caller has ended; the stream can be resumed with another one"
        raise ApiError(ErrorCode.ILLEGAL_SASL_STATE, why) from error


async def admit_and_receive(admission: Admission, kind: CallKind, call: ServicerContext) -> tuple[AdmittedCall, bytes]:
    """Let a call in until it ends, make it the current one, and receive its request. Raises ApiError."""
    admitted = admission.admit(kind, Peer.parse(call.peer()))
    call.add_done_callback(lambda _: admitted.end())  # type: ignore[arg-type]  # The stubs want a generic function.
    # Not reset: the context is that of the call's task and ends with it.
    CURRENT.set(admitted)
    data = await admitted.receive(call.read)
    if not isinstance(data, bytes):
        raise ApiError(ErrorCode.INVALID_REQUEST, "the call has no request message")
    return admitted, data


async def abort(call: ServicerContext, error: ClusterError) -> NoReturn:
    """End a call with the status of an error."""
    status = status_of(error)
    await call.abort(status.code, status.details, status.trailing_metadata)
    raise AssertionError("abort raises")


def request_context(
    call: ServicerContext, listener: str, callers: CallerIdentifier, *, is_authenticating: bool = False
) -> RequestContext:
    """Read who calls, from what is verified, and the rest of the caller's data from the call's metadata and deadline.

    Raises ApiError for a header that is too long, for a certificate that is no identity and a token that does not
    count.
    """
    headers = {str(key): value for key, value in call.invocation_metadata() or ()}
    for name in (PRINCIPAL_HEADER, REQUEST_ID_HEADER, CLIENT_ID_HEADER):
        if len(headers.get(name, "")) > HEADER_LENGTH_MAX:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"the header has more than {HEADER_LENGTH_MAX} characters",
                field=name,
                value=f"{str(headers[name])[:20]}…",
            )
    remaining_s = call.time_remaining()
    caller = callers.identify(call.peer(), call.auth_context(), headers, is_authenticating=is_authenticating)
    return RequestContext(
        peer=call.peer(),
        principal=str(caller.identity.principal if callers.is_secured else headers.get(PRINCIPAL_HEADER, _ANONYMOUS)),
        timeout_ms=None if remaining_s is None else max(0, int(remaining_s * 1000)),
        request_id=str(headers.get(REQUEST_ID_HEADER, "")),
        listener=listener,
        client_id=str(headers.get(CLIENT_ID_HEADER, "")),
        certificate=caller.certificate,
        identity=caller.identity,
        authenticated_until=caller.until,
    )


def _api_name(method: Method, request: Any) -> str:
    if isinstance(request, FetchRequest):
        return "FetchFollower" if request.replica_id >= 0 else "FetchConsumer"
    return method.name
