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
from cluster.kafka_wire.headers import (
    RequestHeader,
    decode_request_header,
)
from cluster.kafka_wire.message import Message
from cluster.kafka_wire.messages.api_keys import ApiKey
from cluster.kafka_wire.messages.data import DescribeLogDirsResponse
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
from controller.adapters.kafka.authorized_answers import AUTHORIZED, OF_CLUSTER, ClientRights
from controller.adapters.kafka.authorizers import Authorizers
from controller.adapters.kafka.broker_apis import BROKER_APIS
from controller.adapters.kafka.broker_principals import BrokerPrincipals
from controller.adapters.kafka.client_certificates import ClientCertificates
from controller.adapters.kafka.conversions import AnsweredApi
from controller.adapters.kafka.live_brokers import LiveBrokers
from controller.adapters.kafka.local_answers import LocalAnswers
from controller.adapters.kafka.partition_apis import PARTITION_APIS
from controller.adapters.kafka.responses import LARGE_ELEMENTS, encoded_response, is_large, refused_response
from controller.adapters.kafka.served_connection import RefusedConnectionError
from controller.adapters.kafka.topic_apis import TOPIC_APIS
from controller.adapters.kafka.upstream import LARGE_BYTES, PASSED_ON_TIMEOUT_S, Upstream
from controller.adapters.kafka.user_apis import USER_APIS
from controller.adapters.kafka.versions import NEVER_PASSED_ON, OF_SASL
from controller.freed_memory import FreedMemory

_log = structlog.stdlib.get_logger()
OF_ACTIVE_CONTROLLER: Final = (*TOPIC_APIS, *PARTITION_APIS, *BROKER_APIS, *USER_APIS)
"""What only the active controller answers."""
_ELEMENTS_MAX: Final = 100_000
_ELEMENTS_OF_BROKERS_MAX: Final = 500_000
"""Elements of all lists of a request together. Decoding holds the event loop: 100,000 take about a second. A broker
reports the ISRs of all partitions that it leads at once.
"""
_BYTES_PER_BYTE: Final = 50
"""What a byte of a long request takes in objects, until it is answered."""
_ANONYMOUS: Final = "ANONYMOUS"
_NO_LOG_DIRS: Final = DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
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
    principals: BrokerPrincipals
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
    other rights. `was_asked`: for a certificate, whether its client had to show one or not.
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
        was_asked: bool = False,
    ) -> None:
        self._services, self._was_asked = services, was_asked
        self._listener, self._is_authenticated, self._has_sasl = listener, is_authenticated, has_sasl
        self._peer, self._caller = Peer.parse(peer), caller
        # Its own identity where it judges the client itself.
        is_own = services.rules is not None or is_authenticated or has_sasl
        self._upstream = Upstream(services.brokers, services.names, listener, is_own=is_own)
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
                if len(frame) > LARGE_BYTES:
                    services.memory.freed(len(frame) * _BYTES_PER_BYTE)

    def close(self) -> None:
        """The client has gone."""
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
        if answered is not None and called.has(header.api_version) and len(frame) <= LARGE_BYTES:
            message = decode(called.request_type, header.api_version, frame, start, elements_max=LARGE_ELEMENTS)
            if answered.concerns(message):
                return encoded_response(answered.refusal(message, refused), header, answered)
        return refused_response(called, header, refused.code)

    async def _answer(
        self, called: KafkaApi, header: RequestHeader, frame: bytes, start: int, measured: MeasuredRequest
    ) -> bytes:
        services = self._services
        if called.key is ApiKey.API_VERSIONS:
            return await services.local.api_versions(header, self._upstream.connected)
        answered, own = services.apis.get(called.key), services.local.answer(called.key)
        if (
            code := self._refusal(called, header, is_answered=answered is not None, is_own=own is not None)
        ) is not None:
            return refused_response(called, header, code)
        if own is not None:
            return encoded_response(own if self._may_know(called.key) else _NO_LOG_DIRS, header)
        thread = services.threads.of(called.key)
        token = THREAD.set(thread if len(frame) > LARGE_BYTES else None)
        try:
            if answered is not None:
                limit = _ELEMENTS_OF_BROKERS_MAX if called.key in _OF_BROKERS else _ELEMENTS_MAX
                message = await off_loop(
                    decode, called.request_type, header.api_version, frame, start, elements_max=limit
                )
                # One that answers brokers only refuses the rest of these APIs, too.
                if services.refuses_clients or answered.concerns(message):
                    response = await self._handled(answered, header, message, measured)
                    if is_large(response):
                        THREAD.set(thread)
                    return await off_loop(encoded_response, response, header, answered)
            return await self._passed_on(_Received(called, header, frame, start), measured)
        finally:
            THREAD.reset(token)

    def _refusal(self, called: KafkaApi, header: RequestHeader, *, is_answered: bool, is_own: bool) -> ErrorCode | None:
        """Return why a request is refused before it is read; None if it is not."""
        if called.key in OF_SASL:
            # Where clients authenticate by SASL they have done so before.
            return ErrorCode.ILLEGAL_SASL_STATE
        if (is_answered or is_own) and not called.has(header.api_version):
            return ErrorCode.UNSUPPORTED_VERSION
        if self._services.refuses_clients and not is_answered:
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return None

    async def _passed_on(self, received: "_Received", measured: MeasuredRequest) -> bytes:
        """The answer of a live broker."""
        if received.called.key in NEVER_PASSED_ON:
            raise RefusedConnectionError(f"{received.called.name} is not for a controller")
        services = self._services
        async with parked():
            if services.rules is not None:
                return await self._authorized(services.rules.authorizer, received, measured)
            if self._has_sasl:
                # No broker says who may do what; but it would know this controller instead of the client. Another one
                # may have an authorizer by now, so the one that answers is asked.
                await services.authorizers.require_none(self._upstream.connected)
                return await self._authorized(_ALLOWS_ALL, received, measured)
            if not self._is_authenticated:
                return await (await self._upstream.connected()).call_raw(received.frame, timeout_s=PASSED_ON_TIMEOUT_S)
            if received.called.key in _OF_TOKENS:
                # A token would be this controller's: whoever has it is this controller to every broker.
                return refused_response(received.called, received.header, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            connection = await services.authorizers.require_none(self._upstream.connected)
            return await connection.call_raw(received.frame, timeout_s=PASSED_ON_TIMEOUT_S)

    async def _authorized(self, authorizer: Authorizer, received: "_Received", measured: MeasuredRequest) -> bytes:
        """The answer of a broker, as far as the client may have it; an error for what nobody judges here."""
        called, header, frame, start = received
        rights, version = ClientRights(CallerRights(self._caller.identity, authorizer)), header.api_version
        authorize, whole = AUTHORIZED.get(called.key), OF_CLUSTER.get(called.key)
        if authorize is None:
            if whole is not None and rights.may(whole, CLUSTER):
                return await (await self._upstream.connected()).call_raw(frame, timeout_s=PASSED_ON_TIMEOUT_S)
            self._report_denied(called, rights)
            measured.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return refused_response(called, header, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if not called.has(version):
            return refused_response(called, header, ErrorCode.UNSUPPORTED_VERSION)
        message = await off_loop(decode, called.request_type, version, frame, start, elements_max=_ELEMENTS_MAX)
        asked = await off_loop(authorize, message, version, rights)
        answer = called.response_type()
        if asked.sent is not None:
            answer = await self._upstream.answer(called, asked, self._services.threads.of(called.key))
        completed = await off_loop(asked.completed, answer)
        self._report_denied(called, rights)
        return await off_loop(encoded_response, completed, header)

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
            await self._services.authorizers.require_none(
                self._upstream.as_controller if self._has_sasl else self._upstream.connected
            )
        else:
            services = self._services
            await services.certificates.require_as_brokers(
                by_certificate=self._is_authenticated, by_sasl=self._has_sasl
            )
            # Brokers show their certificate to whoever asks for one: who was asked and shows none is none.
            if services.authorizers.guarded and (self._has_sasl or self._was_asked):
                principal = self._caller.identity.principal
                await services.principals.require(principal, self._listener, has_sasl=self._has_sasl)

    @property
    def _is_anonymous(self) -> bool:
        return self._caller.certificate is None and not self._has_sasl

    def _may_know(self, key: ApiKey) -> bool:
        """Whether the client may see what this controller says of itself; only its directory is anybody's secret."""
        rules = self._services.rules
        if key is not ApiKey.DESCRIBE_LOG_DIRS or rules is None:
            return True
        return CallerRights(self._caller.identity, rules.authorizer).may(Operation.DESCRIBE, CLUSTER)
