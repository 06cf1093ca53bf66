"""One connection of a Kafka broker or client: what it asks is answered here, or passed on to a live broker.

What only the active controller answers goes through the table of its APIs, as a gRPC request does; the same plans,
limits, metrics and records apply. Everything else goes to a live broker and back byte for byte, over a connection that
this one alone uses; where there are access control lists, only what `authorized_answers` has, and judged by it. Source:
Kafka KafkaApis.handle; the requests that it answers with NOT_CONTROLLER.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import structlog
from msgspec import Struct

from cluster.aio.off_loop import THREAD, off_loop
from cluster.aio.parking import CURRENT, parked
from cluster.kafka_wire.apis import KafkaApi, api
from cluster.kafka_wire.codec import decode
from cluster.kafka_wire.connection import KafkaConnection
from cluster.kafka_wire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.data import DescribeLogDirsResponse
from cluster.kafka_wire.schema import has_error_code
from cluster.metrics.requests import MeasuredRequest, RequestMetrics
from cluster.model.errors import ApiError, ClusterError, ErrorCode
from cluster.model.listeners import ListenerNames
from cluster.model.printable import printable
from cluster.requests.context import RequestContext, RequestHandler
from cluster.rpc.admission import Admission
from cluster.rpc.budgets import Peer
from cluster.rpc.call_kinds import CallKind
from cluster.rpc.callers import IdentifiedCaller
from cluster.rpc.rights import KnownRules
from cluster.security.acls import Authorizer, Operation
from cluster.security.authorization import CLUSTER, CallerRights
from controller.adapters.kafka.authorized_answers import AUTHORIZED, OF_CLUSTER, AuthorizedRequest, ClientRights
from controller.adapters.kafka.authorizers import Authorizers
from controller.adapters.kafka.broker_apis import BROKER_APIS
from controller.adapters.kafka.client_certificates import ClientCertificates
from controller.adapters.kafka.conversions import AnsweredApi
from controller.adapters.kafka.live_brokers import LiveBrokers
from controller.adapters.kafka.local_answers import LocalAnswers
from controller.adapters.kafka.partition_apis import PARTITION_APIS
from controller.adapters.kafka.served_connection import RefusedConnectionError
from controller.adapters.kafka.topic_apis import TOPIC_APIS
from controller.adapters.kafka.user_apis import USER_APIS
from controller.adapters.kafka.versions import NEVER_PASSED_ON
from controller.freed_memory import FreedMemory

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
_LARGE_BYTES: Final = 16_384
"""A longer request is decoded beside the event loop, and so is what follows from it."""
_LARGE_ELEMENTS: Final = 1_000
"""A response with more of them is encoded there."""
_BYTES_PER_BYTE: Final = 50
"""What a byte of a long request takes in objects, until it is answered."""
_ANONYMOUS: Final = "ANONYMOUS"
_NO_LOG_DIRS: Final = DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_ERROR_TEXT_MAX: Final = 4_000
_CLIENT_ID_MAX: Final = 256
"""Of a longer one the beginning counts, as gRPC clients cannot send more."""
_WITH_QUOTA: Final = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""From which version on they have THROTTLING_QUOTA_EXCEEDED."""
_FOR_BROKERS_ONLY: Final = (
    "this controller answers brokers only (klamm.kafka.controller.only), as it cannot judge clients as the authorizer "
    "of the brokers does: use klamm's own commands"
)
_ALLOWS_ALL: Final = Authorizer({}, allow_unlisted=True)
_NAMED_IN_LOG: Final = 5
_NAME_IN_LOG: Final = 300
_authorizer_log = structlog.stdlib.get_logger("kafka.authorizer.logger")
_OF_TOKENS: Final = frozenset(
    {
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
)
_OF_BROKERS: Final = frozenset({ApiKey.ALTER_PARTITION, ApiKey.CONTROLLED_SHUTDOWN, ApiKey.ALLOCATE_PRODUCER_IDS})


class KafkaServices(Struct, frozen=True):
    """Holds what all connections of a process share. `rules`: those of this controller's authorizer, None without.
    Then its handler applies them. `refuses_clients`: it answers brokers only. `names`: of the listeners where the
    brokers take control requests.
    """

    handler: RequestHandler
    admission: Admission
    metrics: RequestMetrics
    brokers: LiveBrokers
    local: LocalAnswers
    apis: Mapping[ApiKey, AnsweredApi[Any]]
    authorizers: Authorizers
    certificates: ClientCertificates
    threads: "LongRequests"
    memory: FreedMemory
    rules: KnownRules | None = None
    refuses_clients: bool = False
    names: ListenerNames = ListenerNames()


class _Received(NamedTuple):
    """A request as it arrived. `start`: where it begins in the frame, behind its header."""

    called: KafkaApi
    header: RequestHeader
    frame: bytes
    start: int


class LongRequests:
    """The threads in which long requests are decoded and answers to them encoded: one for those of brokers, which must
    not wait for those of clients, and one for all others, one after the other.
    """

    def __init__(self) -> None:
        self._of_brokers = ThreadPoolExecutor(1, "kafka-brokers")
        self._of_clients = ThreadPoolExecutor(1, "kafka-clients")

    def of(self, key: ApiKey) -> ThreadPoolExecutor:
        return self._of_brokers if key in _OF_BROKERS else self._of_clients

    def close(self) -> None:
        for thread in (self._of_brokers, self._of_clients):
            thread.shutdown(wait=False, cancel_futures=True)


class KafkaSession:
    """One connection at the listener of this name. `peer`: its address, as gRPC would name it.

    `is_authenticated`: its client had to show a certificate. `has_sasl`: it has authenticated itself by SASL. Then
    brokers that ask for either see this controller, unless they have an authorizer, by which the client would have
    other rights.
    """

    is_unproven = False

    def __init__(
        self,
        services: KafkaServices,
        listener: str,
        peer: str,
        caller: IdentifiedCaller,
        *,
        is_authenticated: bool,
        has_sasl: bool = False,
    ) -> None:
        self._services = services
        self._listener, self._is_authenticated, self._has_sasl = listener, is_authenticated, has_sasl
        self._peer, self._caller = Peer.parse(peer), caller
        self._upstream: KafkaConnection | None = None
        self._muted_until = 0.0
        """On the clock of the event loop."""

    async def handle(self, frame: bytes) -> bytes:
        """The response to a request, both with headers. Raises ClusterError: the connection is to be closed.

        After a request by which the client is over its quota it returns late, whatever is asked.
        """
        if (left_s := self._muted_until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left_s)
        header, start = decode_request_header(frame)
        called = api(header.api_key)
        kind = CallKind.CONTROL if header.api_key in _OF_BROKERS else CallKind.ADMIN
        services = self._services

        async def received() -> bytes:
            return frame

        with services.metrics.measure(called.name, len(frame)) as measured:
            try:
                call = services.admission.admit(kind, self._peer)
            except ApiError as error:
                measured.error_code = error.code
                return self._not_admitted(called, header, frame, start, error)
            token = CURRENT.set(call)
            try:
                try:
                    await call.receive(received)
                    call.handle_as(kind)
                except ApiError as error:
                    measured.error_code = error.code
                    return self._not_admitted(called, header, frame, start, error)
                answer = await self._answer(called, header, frame, start, measured)
                call.answered(len(answer))
                return answer
            except ClusterError as error:
                measured.error_code = error.code
                raise
            finally:
                CURRENT.reset(token)
                call.end()
                if len(frame) > _LARGE_BYTES:
                    services.memory.freed(len(frame) * _BYTES_PER_BYTE)

    def close(self) -> None:
        """The client has gone."""
        if self._upstream is not None:
            self._upstream.close()

    def _not_admitted(
        self, called: KafkaApi, header: RequestHeader, frame: bytes, start: int, error: ApiError
    ) -> bytes:
        """The answer to a request of which nothing was done because too many are open: an error that clients retry.

        Raises RefusedConnectionError where the response has no place for one, or the request is too long to look at.
        """
        answered = self._services.apis.get(called.key)
        # Only these, in these versions, have a code of their own (KIP-599); older clients do not know it as retriable.
        quota = _WITH_QUOTA.get(called.key)
        is_known = quota is not None and header.api_version >= quota
        refused = ApiError(error.code if is_known else ErrorCode.REQUEST_TIMED_OUT, error.message)
        if answered is not None and called.has(header.api_version) and len(frame) <= _LARGE_BYTES:
            message = decode(called.request_type, header.api_version, frame, start, elements_max=_LARGE_ELEMENTS)
            if answered.concerns(message):
                return _encoded(answered.refusal(message, refused), header, answered)
        return _refused(called, header, refused.code)

    async def _answer(
        self, called: KafkaApi, header: RequestHeader, frame: bytes, start: int, measured: MeasuredRequest
    ) -> bytes:
        services = self._services
        if called.key is ApiKey.API_VERSIONS:
            return await services.local.api_versions(header, self._connected)
        answered, own = services.apis.get(called.key), services.local.answer(called.key)
        if (answered is not None or own is not None) and not called.has(header.api_version):
            return _refused(called, header, ErrorCode.UNSUPPORTED_VERSION)
        if services.refuses_clients and answered is None:
            return _refused(called, header, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if own is not None:
            return _encoded(own if self._may_know(called.key) else _NO_LOG_DIRS, header)
        thread = services.threads.of(called.key)
        token = THREAD.set(thread if len(frame) > _LARGE_BYTES else None)
        try:
            if answered is not None:
                limit = _ELEMENTS_OF_BROKERS_MAX if called.key in _OF_BROKERS else _ELEMENTS_MAX
                message = await off_loop(
                    decode, called.request_type, header.api_version, frame, start, elements_max=limit
                )
                # One that answers brokers only refuses the rest of these APIs, too.
                if services.refuses_clients or answered.concerns(message):
                    response = await self._handled(answered, header, message, measured)
                    if _is_large(response):
                        THREAD.set(thread)
                    return await off_loop(_encoded, response, header, answered)
            return await self._passed_on(_Received(called, header, frame, start), measured)
        finally:
            THREAD.reset(token)

    async def _passed_on(self, received: "_Received", measured: MeasuredRequest) -> bytes:
        """The answer of a live broker."""
        if received.called.key in NEVER_PASSED_ON:
            raise RefusedConnectionError(f"{received.called.name} is not for a controller")
        services = self._services
        async with parked():
            if services.rules is not None:
                return await self._authorized(services.rules.authorizer, received, measured)
            if self._has_sasl:
                # No broker says who may do what; but it would know this controller instead of the client.
                await services.authorizers.require_none(self._asked)
                return await self._authorized(_ALLOWS_ALL, received, measured)
            if not self._is_authenticated:
                return await (await self._connected()).call_raw(received.frame, timeout_s=_PASSED_ON_TIMEOUT_S)
            if received.called.key in _OF_TOKENS:
                # A token would be this controller's: whoever has it is this controller to every broker.
                return _refused(received.called, received.header, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            connection = await services.authorizers.require_none(self._connected)
            return await connection.call_raw(received.frame, timeout_s=_PASSED_ON_TIMEOUT_S)

    async def _authorized(self, authorizer: Authorizer, received: "_Received", measured: MeasuredRequest) -> bytes:
        """The answer of a broker, as far as the client may have it; an error for what nobody judges here."""
        called, header, frame, start = received
        rights, version = ClientRights(CallerRights(self._caller.identity, authorizer)), header.api_version
        authorize, whole = AUTHORIZED.get(called.key), OF_CLUSTER.get(called.key)
        if authorize is None:
            if whole is not None and rights.may(whole, CLUSTER):
                return await (await self._connected()).call_raw(frame, timeout_s=_PASSED_ON_TIMEOUT_S)
            self._report_denied(called, rights)
            measured.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return _refused(called, header, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if not called.has(version):
            return _refused(called, header, ErrorCode.UNSUPPORTED_VERSION)
        message = await off_loop(decode, called.request_type, version, frame, start, elements_max=_ELEMENTS_MAX)
        asked = await off_loop(authorize, message, version, rights)
        answer = called.response_type()
        if asked.sent is not None:
            answer = await self._answer_of_broker(called, asked)
        completed = await off_loop(asked.completed, answer)
        self._report_denied(called, rights)
        return await off_loop(_encoded, completed, header)

    async def _answer_of_broker(self, called: KafkaApi, asked: AuthorizedRequest) -> Any:
        """The answer to what this controller asks under its own identity. A long one, as Metadata of all topics is, is
        decoded beside the event loop, and what follows from it is done there.
        """
        assert asked.sent is not None, "checked before"
        connection = await self._connected()
        frame = await off_loop(encode_request, asked.sent, asked.version, 0, connection.client_id)
        raw = await connection.call_raw(frame, timeout_s=_PASSED_ON_TIMEOUT_S)
        if len(raw) > _LARGE_BYTES:
            THREAD.set(self._services.threads.of(called.key))
        return (await off_loop(decode_response, called.response_type, asked.version, raw))[1]

    def _report_denied(self, called: KafkaApi, rights: ClientRights) -> None:
        """Log a denial as the authorizer does, and what nobody can judge here."""
        identity = self._caller.identity
        described = {"principal": str(identity.principal), "host": identity.host, "request": called.name}
        if rights.denied:
            operation, _ = rights.denied[0]
            names = [printable(str(resource)[:_NAME_IN_LOG]) for _, resource in rights.denied[:_NAMED_IN_LOG]]
            _authorizer_log.info("Denied", **described, operation=str(operation), resources=names)
        elif called.key not in AUTHORIZED and called.key not in OF_CLUSTER:
            _authorizer_log.info("Denied", **described, why="a controller does not answer it: clients ask a broker")

    async def _handled(
        self, answered: AnsweredApi[Any], header: RequestHeader, message: Message, measured: MeasuredRequest
    ) -> Message:
        context = RequestContext(
            peer=self._peer.connection,
            principal=_ANONYMOUS if self._is_anonymous else str(self._caller.identity.principal),
            is_kafka_client=True,
            certificate=self._caller.certificate,
            identity=self._caller.identity,
            client_id=(header.client_id or "")[:_CLIENT_ID_MAX],
            knows_quota_error=header.api_version >= _WITH_QUOTA.get(answered.key, 0),
        )
        try:
            if self._services.refuses_clients and answered.key not in _OF_BROKERS:
                raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, _FOR_BROKERS_ONLY)
            # The authorizer of this controller decides by the rules that the brokers have.
            if self._services.rules is None:
                await self._require_no_other(answered.key)
            request = await off_loop(answered.request_of, message)
            response = await self._services.handler.handle(context, request)
            throttle_ms = getattr(response, "throttle_time_ms", 0)
            self._muted_until = asyncio.get_running_loop().time() + throttle_ms / 1000
            measured.handled(getattr(response, "error_code", ErrorCode.NONE), throttle_time_ms=throttle_ms)
            return await off_loop(answered.response_to, message, response)
        except ApiError as error:
            refused = error
        except ClusterError as error:
            refused = ApiError(error.code, str(error))
        except Exception as error:
            _log.exception("Request failed", api=answered.key.name)
            refused = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")
        measured.error_code = refused.code
        return await off_loop(answered.refusal, message, refused)

    async def _require_no_other(self, key: ApiKey) -> None:
        """Raise ApiError unless brokers have neither an authorizer, nor certificates for what they ask."""
        if key not in _OF_BROKERS:
            await self._services.authorizers.require_none(self._asked if self._has_sasl else self._connected)
        else:
            certificates = self._services.certificates
            await certificates.require_as_brokers(by_certificate=self._is_authenticated, by_sasl=self._has_sasl)

    @property
    def _is_anonymous(self) -> bool:
        return self._caller.certificate is None and not self._has_sasl

    async def _asked(self) -> KafkaConnection:
        """The connection over which a broker says whether it has an authorizer: it knows the client by its password
        only, which this controller does not have.
        """
        return await self._services.brokers.connected_as_controller(self._services.names)

    def _may_know(self, key: ApiKey) -> bool:
        """Whether the client may see what this controller says of itself; only its directory is anybody's secret."""
        rules = self._services.rules
        if key is not ApiKey.DESCRIBE_LOG_DIRS or rules is None:
            return True
        return CallerRights(self._caller.identity, rules.authorizer).may(Operation.DESCRIBE, CLUSTER)

    async def _connected(self) -> KafkaConnection:
        if self._upstream is None or not self._upstream.is_open:
            # Its own identity where it judges the client itself.
            is_own = self._services.rules is not None or self._is_authenticated or self._has_sasl
            self._upstream = await self._services.brokers.connect(self._listener, shows_certificate=is_own)
        return self._upstream


def _encoded(message: Message, header: RequestHeader, answered: AnsweredApi[Any] | None = None) -> bytes:
    """The response, without what its version cannot say."""
    fitted = message if answered is None else answered.fitted(message, header.api_version)
    try:
        return encode_response(fitted, header.api_version, header.correlation_id)
    except ClusterError:
        pass
    try:
        # What refuses a long value may quote it, and be longer than a text may be.
        return encode_response(_shortened(fitted), header.api_version, header.correlation_id)
    except ClusterError:
        # Of a version that is served: the response is wrong, not the request.
        _log.exception("A response has no encoding", message=type(message).__name__, version=header.api_version)
        raise


def _shortened(value: Any) -> Any:
    """The same with the beginning only of long error messages."""
    if isinstance(value, tuple):
        return tuple(map(_shortened, value))
    if not isinstance(value, Message):
        return value
    fields = {name: _shortened(getattr(value, name)) for name in value.__struct_fields__}
    text = fields.get("error_message")
    if isinstance(text, str) and len(text) > _ERROR_TEXT_MAX:
        fields["error_message"] = f"{text[:_ERROR_TEXT_MAX]}…"
    return type(value)(**fields)


def _refused(called: KafkaApi, header: RequestHeader, code: ErrorCode) -> bytes:
    """A response that says no more than the error, of the nearest version that is known. Raises RefusedConnectionError
    if it has no place for an error of the whole request.
    """
    version = min(max(header.api_version, called.oldest_version), called.latest_version)
    if not has_error_code(f"{called.name}Response", version):
        raise RefusedConnectionError(f"{called.name} {header.api_version}: {code.name}")
    response = called.response_type(**{"error_code": code})
    return encode_response(response, version, header.correlation_id)


def _is_large(message: Message) -> bool:
    """Whether the lists of a message, or the lists in them, have many elements."""
    elements = 0
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if isinstance(value, tuple):
            elements += len(value)
            for item in value if elements <= _LARGE_ELEMENTS else ():
                fields = getattr(item, "__struct_fields__", ())
                elements += sum(len(v) for f in fields if isinstance(v := getattr(item, f), tuple))
    return elements > _LARGE_ELEMENTS
