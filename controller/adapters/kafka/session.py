"""One connection of a broker or client of Kafka's: what it asks is answered here, or passed on to a live broker.

What only the active controller answers goes through the table of its APIs, as a gRPC request does; the same plans,
limits, metrics and records apply. Everything else goes to a live broker and back byte for byte, over a connection that
this one alone uses. Source: Kafka KafkaApis.handle; the requests that it answers with NOT_CONTROLLER.
"""

from collections.abc import Mapping
from typing import Any, Final

import structlog
from msgspec import Struct

from cluster.errors import ApiError, ClusterError, ErrorCode
from cluster.kafka_wire.api_keys import ApiKey
from cluster.kafka_wire.apis import Api, api
from cluster.kafka_wire.codec import decode
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.headers import RequestHeader, decode_request_header, encode_response
from cluster.kafka_wire.message import Message
from cluster.process.parking import CURRENT, parked
from cluster.process.request_metrics import MeasuredRequest, RequestMetrics
from cluster.requests.context import RequestContext, RequestHandler
from cluster.rpc.admission import Admission
from cluster.rpc.budgets import Peer
from cluster.rpc.call_kinds import CallKind
from controller.adapters.kafka.authorizers import Authorizers
from controller.adapters.kafka.broker_apis import BROKER_APIS
from controller.adapters.kafka.conversions import Conversion
from controller.adapters.kafka.live_brokers import LiveBrokers
from controller.adapters.kafka.local_answers import LocalAnswers
from controller.adapters.kafka.partition_apis import PARTITION_APIS
from controller.adapters.kafka.topic_apis import TOPIC_APIS
from controller.adapters.kafka.user_apis import USER_APIS
from controller.adapters.kafka.versions import NEVER_PASSED_ON

_log = structlog.stdlib.get_logger()
OF_ACTIVE_CONTROLLER: Final = (*TOPIC_APIS, *PARTITION_APIS, *BROKER_APIS, *USER_APIS)
"""What only the active controller answers."""
_PASSED_ON_TIMEOUT_S: Final = 600.0
"""Longer than any request waits by the defaults of Kafka's clients; a broker that dies closes the connection."""
_ELEMENTS_MAX: Final = 100_000
_ELEMENTS_OF_BROKERS_MAX: Final = 500_000
"""Elements of all lists of a request together. Decoding holds the event loop: 100,000 take about a second. A broker
reports the ISRs of all partitions that it leads at once.
"""
_OF_BROKERS: Final = frozenset({ApiKey.ALTER_PARTITION, ApiKey.CONTROLLED_SHUTDOWN, ApiKey.ALLOCATE_PRODUCER_IDS})


class RefusedConnectionError(ClusterError):
    """What a connection sent has no answer: it is closed."""


class KafkaServices(Struct, frozen=True):
    """What all connections of a process share."""

    handler: RequestHandler
    admission: Admission
    metrics: RequestMetrics
    brokers: LiveBrokers
    local: LocalAnswers
    conversions: Mapping[ApiKey, Conversion[Any]]
    authorizers: Authorizers


class KafkaSession:
    """One connection at the listener of this name. `peer`: its address, as gRPC would name it.

    `is_authenticated`: its client had to show a certificate. Then brokers that ask for one see that of this controller,
    unless they have an authorizer, by which the client would have other rights.
    """

    def __init__(self, services: KafkaServices, listener: str, peer: str, *, is_authenticated: bool) -> None:
        self._services = services
        self._listener, self._is_authenticated = listener, is_authenticated
        self._peer = Peer.parse(peer)
        self._upstream: KafkaConnection | None = None

    async def handle(self, frame: bytes) -> bytes:
        """The response to a request, both with headers. Raises ClusterError: the connection is to be closed."""
        header, start = decode_request_header(frame)
        called = api(header.api_key)
        kind = CallKind.CONTROL if header.api_key in _OF_BROKERS else CallKind.ADMIN
        services = self._services

        async def received() -> bytes:
            return frame

        with services.metrics.measure(_name(called), len(frame)) as measured:
            call = services.admission.admit(kind, self._peer)
            token = CURRENT.set(call)
            try:
                await call.receive(received)
                call.handle_as(kind)
                answer = await self._answer(called, header, frame, start, measured)
                call.answered(len(answer))
                return answer
            except ClusterError as error:
                measured.error_code = error.code
                raise
            finally:
                CURRENT.reset(token)
                call.end()

    def close(self) -> None:
        """The client has gone."""
        if self._upstream is not None:
            self._upstream.close()

    async def _answer(
        self, called: Api, header: RequestHeader, frame: bytes, start: int, measured: MeasuredRequest
    ) -> bytes:
        conversion = self._services.conversions.get(called.key)
        if conversion is not None:
            limit = _ELEMENTS_OF_BROKERS_MAX if called.key in _OF_BROKERS else _ELEMENTS_MAX
            message = decode(called.request_type, header.api_version, frame, start, elements_max=limit)
            if conversion.concerns(message):
                response = await self._converted(conversion, message, measured)
                return self._encoded(conversion.fitted(response, header.api_version), header)
        if called.key is ApiKey.API_VERSIONS:
            return await self._services.local.api_versions(header, frame, start, self._connected)
        own = self._services.local.answer(called.key)
        if own is not None:
            return self._encoded(own, header)
        if called.key in NEVER_PASSED_ON:
            raise RefusedConnectionError(f"{_name(called)} is not for a controller")
        async with parked():
            connection = (
                await self._services.authorizers.require_none(self._connected)
                if self._is_authenticated
                else await self._connected()
            )
            return await connection.call_raw(frame, timeout_s=_PASSED_ON_TIMEOUT_S)

    async def _converted(self, conversion: Conversion[Any], message: Message, measured: MeasuredRequest) -> Message:
        context = RequestContext(peer=self._peer.connection)
        try:
            if conversion.key not in _OF_BROKERS:
                await self._services.authorizers.require_none(self._connected)
            response = await self._services.handler.handle(context, conversion.request(message))
            measured.handled(getattr(response, "error_code", ErrorCode.NONE))
            return conversion.response(message, response)
        except ApiError as error:
            refused = error
        except ClusterError as error:
            refused = ApiError(error.code, str(error))
        except Exception as error:
            _log.exception("Request failed", api=conversion.key.name, peer=self._peer.connection)
            refused = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")
        measured.error_code = refused.code
        return conversion.refusal(message, refused)

    @staticmethod
    def _encoded(message: Message, header: RequestHeader) -> bytes:
        try:
            return encode_response(message, header.api_version, header.correlation_id)
        except ClusterError:
            # Of a version that is served: the response is wrong, not the request.
            _log.exception("A response has no encoding", message=type(message).__name__, version=header.api_version)
            raise

    async def _connected(self) -> KafkaConnection:
        if self._upstream is None or not self._upstream.is_open:
            self._upstream = await self._services.brokers.connect(
                self._listener, shows_certificate=self._is_authenticated
            )
        return self._upstream


def _name(called: Api) -> str:
    """As Kafka's metrics name it."""
    return called.request_type.__name__.removesuffix("Request")
