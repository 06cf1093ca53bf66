"""Connects a client to a cluster: finds its nodes, and the active controller, through any known address.

A bootstrap address may be any controller or agent. A request that only the active controller may answer is sent to it;
a refusal with NOT_CONTROLLER names the active controller, to which the request is then sent. Unreachable nodes are
tried again until the client's timeout.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

from msgspec import Struct

from admin.connecting.call_limits import CallLimits
from admin.connecting.node_search import NoAnswerError, NodeSearch
from admin.connecting.request_parts import send_in_parts
from admin.connecting.waiting import ClientWaits, OnWait
from cluster.model.errors import (
    ApiError,
    ErrorCode,
    ForeignProtocolError,
    PeerBusyError,
    PeerNotConnectedError,
    PeerUnreachableError,
)
from cluster.requests.cluster import DescribeClusterRequest, DescribeClusterResponse, DescribedBroker
from cluster.requests.configs import UpdateFeaturesRequest
from cluster.requests.data import MetadataRequest, MetadataResponse
from cluster.requests.recovery import RecoverClusterRequest
from cluster.requests.request import RequestFor
from cluster.requests.users import AlterUserScramCredentialsRequest
from cluster.sasl.clients import ReadCredentials
from cluster.tls.settings import TlsSettings

if TYPE_CHECKING:
    import ssl

    from admin.kafka.kafka_brokers import KafkaBrokers
    from cluster.rpc.transport_security import ChannelSecurity
    from cluster.tls.live import LiveMaterial

_T = TypeVar("_T")
_Response = TypeVar("_Response", bound=Struct)

RETRY_PAUSE_S = 0.2
_GRACE_MS = 1_000
"""The time beyond a request's own timeout within which the controller's answer arrives."""
_SURVEY_AFTER_S = 1.0
_CONNECT_TIMEOUT_MS = 2_000
KLAMM, KAFKA = "klamm", "kafka"
"""The values of `broker_protocol`: the kinds of brokers."""


class ClusterConnection:
    """Connects to a cluster of which some addresses are known. Use it as an async context manager.

    Each call raises PeerUnreachableError when nobody answered within `timeout_ms`, and ApiError when the
    cluster refused. In a block `within_timeout` that is the limit of all calls together.
    """

    def __init__(
        self,
        bootstrap: Sequence[str],
        *,
        timeout_ms: int = 30_000,
        names: Mapping[str, str] | None = None,
        origin: str = "",
        on_wait: OnWait | None = None,
        client_id: str = "klamm",
        tls: TlsSettings | None = None,
        sasl: ReadCredentials | None = None,
    ) -> None:
        """Take the bootstrap addresses.

        `names`: the names of these nodes in messages, such as "controller 1001"; `origin`: the source of the addresses,
        such as "--bootstrap"; `on_wait` is called once a wait has lasted for two seconds, with its reason.
        `client_id`: its name, by which brokers choose its quotas. `tls`: what it shows and trusts; None: the cluster
        is called without TLS. `sasl`: reads the credentials of the user whose the calls are; None: they are those of
        whoever the certificate names. Raises ConfigError if files cannot be used.
        """
        from cluster.rpc.client import RpcClient  # noqa: PLC0415 - gRPC loads slowly; the help of a command needs none.

        assert bootstrap, "a client needs an address to start from"
        self._tls, self._material = tls, None if tls is None else _material(tls)
        self._refreshing: asyncio.Task[None] | None = None
        self.rpc = RpcClient(
            connect_timeout_ms=_CONNECT_TIMEOUT_MS,
            connect_timeout_max_ms=_CONNECT_TIMEOUT_MS,
            client_id=client_id,
            security=None if self._material is None else _security(self._material),
            sasl=sasl,
        )
        self.client_id = client_id
        self.waiting = ClientWaits(on_wait)
        self._search = NodeSearch(bootstrap, names or {}, origin)
        self.limits = CallLimits(timeout_ms)
        self._failure: NoAnswerError | None = None
        """Of the last attempt that had no answer; a search that is under way knows less."""
        self._controller: str | None = None
        self._found_to_speak_kafka: dict[str, bool] = {}
        self.kafka: KafkaBrokers | None = None
        """The brokers, if they are of Apache Kafka; known after the first description of the cluster."""

    async def __aenter__(self) -> Self:
        if self._material is not None:
            self._refreshing = asyncio.create_task(_follow_files(self._material))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
        await self.rpc.close()
        if self.kafka is not None:
            self.kafka.close()

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """The bootstrap addresses that were given."""
        return self._search.bootstrap

    def name(self, address: str) -> str:
        """The name of the node at an address, for messages."""
        return self._search.name(address)

    @contextmanager
    def within_timeout(self) -> Iterator[None]:
        """Bound all calls in this block, together, by the timeout of the client."""
        with self.limits.together(), self.waiting.command():
            yield

    async def describe_cluster(self, *, require_controller: bool = False) -> DescribeClusterResponse:
        """Return the first node's description of the cluster; with `require_controller` the first that names the active
        controller.
        """
        return await self._until_timeout(lambda _: self._first_description(require_controller=require_controller))

    async def describe_node(self, address: str, timeout_ms: int | None = None) -> DescribeClusterResponse:
        """Ask one node to describe the cluster, without retries. `timeout_ms`: default `CallLimits.probe_ms`."""
        try:
            limit_ms = self.limits.probe_ms if timeout_ms is None else timeout_ms
            response = await self.rpc.call(address, DescribeClusterRequest(), limit_ms)
        except PeerUnreachableError as error:
            if self._search.is_unproven and await self._speaks_kafka(address):
                why = "it speaks Kafka's protocol: name the address that a controller of klamm has as --listen"
                raise ForeignProtocolError(address, why) from error
            raise
        if response.broker_protocol == KAFKA:
            self._learn_kafka_brokers(response.brokers)
        return response

    async def _speaks_kafka(self, address: str) -> bool:
        """Whether a Kafka listener answers there; the result of the first attempt is kept."""
        from admin.kafka.kafka_brokers import speaks_kafka  # noqa: PLC0415 - as below.

        if address not in self._found_to_speak_kafka:
            self._found_to_speak_kafka[address] = await speaks_kafka(address, self._context())
        return self._found_to_speak_kafka[address]

    def _context(self) -> "ssl.SSLContext | None":
        if self._tls is None or self._material is None:
            return None
        from cluster.tls.contexts import client_context  # noqa: PLC0415 - cryptography loads slowly.

        return client_context(self._tls, self._material.current)

    def _learn_kafka_brokers(self, brokers: Sequence[DescribedBroker]) -> None:
        from admin.kafka.kafka_brokers import KafkaBrokers  # noqa: PLC0415 - most clusters need no codec of Kafka's protocol.

        self.kafka = self.kafka or KafkaBrokers()
        self.kafka.learn(brokers)

    async def describe_controller(self) -> DescribeClusterResponse:
        """Return the active controller's description, which is authoritative for broker epochs and states."""

        async def attempt(_: asyncio.Timeout) -> DescribeClusterResponse:
            address = await self._controller_address()
            try:
                described = await self._calling(address, self.describe_node(address))
            except ApiError as error:
                self._search.refused(address, error)
                raise self._search.failure() from error
            if described.node_id != described.controller_id:
                self._controller = None
                raise NoAnswerError("no active controller", f"{self._search.name(address)} is no longer active")
            return described

        return await self._until_timeout(attempt)

    async def find_controller(self) -> str:
        """Wait for an active controller and return its address."""
        return await self._until_timeout(lambda _: self._controller_address())

    def without_controller(self, limit_s: float) -> NoAnswerError | None:
        """Return what the nodes answered within `limit_s`; None if an active controller is known."""
        return None if self._controller is not None else self.no_answer_within(limit_s)

    @property
    def has_answered(self) -> bool:
        """Whether any node has answered since all were last asked."""
        return self._search.has_answered

    @property
    def no_answer_yet(self) -> str:
        """The answers of the nodes until now, for a notice."""
        return self._search.failure().so_far

    @property
    def why_no_controller(self) -> str:
        """The reason, in a few words, why the active controller has not answered."""
        known = self._failure or self._search.failure()
        return known.cause or "no active controller answers"

    def no_answer_within(self, limit_s: float) -> NoAnswerError:
        """Return what the nodes have answered until now, `limit_s` after they were asked."""
        last = self._search.failure()
        return self._with_advice(f"{last.missing} within {limit_s:g} s", last)

    async def find_brokers(self) -> list[str]:
        """Return the addresses of the live brokers from the first node that knows any; one round, without retries.

        A standby controller knows no brokers, but the active controller, which is asked next.
        """
        with self.waiting.named(lambda: self.no_answer_yet, self.limits.left_s):
            described = await self._search.first(self.describe_node, lambda node: bool(node.brokers))
        return [] if described is None else [b.endpoint.address for b in described.brokers]

    def nodes_of(self, described: DescribeClusterResponse) -> list[str]:
        """Return the addresses of all known processes of klamm.

        These are the given ones, all registered controllers, and all live brokers unless they are of Apache Kafka.
        """
        return list(dict.fromkeys((*self.bootstrap, *self.registered_nodes_of(described))))

    def registered_nodes_of(self, described: DescribeClusterResponse) -> list[str]:
        """The addresses in `nodes_of` without the given ones, at which there need not be a node."""
        brokers = () if self.kafka is not None else described.brokers
        return [c.address for c in described.controllers] + [b.endpoint.address for b in brokers]

    def results_for(self, asked: Sequence[str], results: Sequence[_T]) -> Sequence[_T]:
        """Return the results in an answer of the active controller. Raises ApiError if their number is wrong."""
        if len(results) == len(asked):
            return results
        found = f"with a wrong number of results ({len(results)})" if results else "without a result"
        controller = self._search.name(self._controller or "the controller")
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{controller} answered {found} for {', '.join(asked)}: is it a klamm of another version?",
        )

    async def ask_broker(self, address: str, request: RequestFor[_Response], timeout_ms: int) -> _Response:
        """Ask one broker, without retries; a broker of Apache Kafka by Kafka's protocol, which lacks some requests.

        Raises PeerUnreachableError, ApiError.
        """
        if self.kafka is not None:
            response: _Response = await self.kafka.call(address, request, timeout_ms)
            return response
        return await self.rpc.call(address, request, timeout_ms)

    async def metadata(self, address: str, request: MetadataRequest, timeout_ms: int) -> MetadataResponse:
        """Ask one broker for its metadata cache, without retries."""
        return await self.ask_broker(address, request, timeout_ms)

    async def ask_controller(self, request: RequestFor[_Response]) -> _Response:
        """Send a request to the active controller, and again until the timeout, under one request id.

        A request that is too large for it is sent in parts. Raises NoAnswerError, which says whether a change may
        still be carried out.
        """
        return await send_in_parts(request, self._ask_controller)

    async def _ask_controller(self, request: RequestFor[_Response]) -> _Response:
        waits_ms = getattr(request, "timeout_ms", None)
        limit_ms = max(self.limits.left_ms, waits_ms or 0)
        grace_ms = 0 if waits_ms is None else _GRACE_MS
        request_id = uuid4().hex
        may_be_done = False

        async def attempt(ends: asyncio.Timeout) -> _Response:
            nonlocal may_be_done
            asked = await self._controller_address()
            call = self.rpc.call(asked, request, limit_ms + grace_ms, request_id=request_id)
            before, may_be_done = may_be_done, _changes_something(request)
            try:
                with _longer(ends, grace_ms):
                    response = await self._calling(asked, call)
            except ApiError as error:
                self._follow(error, asked)
                may_be_done = before
                raise NoAnswerError("no active controller", f"{self._search.name(asked)} is not active") from error
            except NoAnswerError as error:
                if isinstance(error.__cause__, PeerNotConnectedError | PeerBusyError):
                    may_be_done = before
                raise
            return response

        try:
            return await self._until_timeout(attempt, limit_s=limit_ms / 1000)
        except NoAnswerError as error:
            raise NoAnswerError(error.missing, error.reasons, error.cause, may_be_done=may_be_done) from error

    async def _controller_address(self) -> str:
        if self._controller is None:
            self._controller = (await self._first_description(require_controller=True)).controller_address
        return self._controller

    async def _first_description(self, *, require_controller: bool) -> DescribeClusterResponse:
        described = await self._search.first(
            self.describe_node, lambda node: bool(node.controller_address) or not require_controller
        )
        if described is None:
            raise self._search.failure()
        return described

    async def _calling(self, address: str, call: Awaitable[_T]) -> _T:
        """Await the answer of the active controller; if there is none, the next call searches for the controller."""
        self._search.called(address)
        survey = asyncio.create_task(self._survey_later())
        try:
            return await call
        except PeerUnreachableError as error:
            self._controller = None
            self._search.called(address, error.why)
            raise self._search.failure() from error
        finally:
            survey.cancel()

    async def _survey_later(self) -> None:
        """Ask the other nodes after a while, so that the message says how the cluster is if no answer comes in time."""
        await asyncio.sleep(_SURVEY_AFTER_S)
        await self._search.survey(self.describe_node)

    def _follow(self, error: ApiError, asked: str) -> None:
        """Remember the controller named by a NOT_CONTROLLER error. Any other error is raised."""
        if error.code is not ErrorCode.NOT_CONTROLLER:
            raise error
        # A standby that names itself has not caught up with its own fall.
        leader = error.leader_address
        self._controller = leader if leader and leader != asked else None

    async def _until_timeout(
        self, attempt: Callable[[asyncio.Timeout], Awaitable[_T]], *, limit_s: float | None = None
    ) -> _T:
        """Retry an attempt that gets no answer, until the limit (default: the client's timeout).

        The attempt may extend the timeout that it is given. Raises NoAnswerError, and at once if no address can be
        right.
        """
        limit = self.limits.left_s if limit_s is None else limit_s
        within_s = self.limits.named_s(limit)
        failure: NoAnswerError | None = None

        def last() -> NoAnswerError:
            # While an attempt runs, only the search knows who has answered so far.
            return self._search.failure() if failure is None or self._search.is_calling else failure

        async def retry(ends: asyncio.Timeout) -> _T:
            nonlocal failure
            while True:
                try:
                    return await attempt(ends)
                except NoAnswerError as error:
                    failure = self._failure = error
                if self._search.is_hopeless:
                    raise self._with_advice(failure.missing, failure)
                await asyncio.sleep(RETRY_PAUSE_S)

        try:
            with self.waiting.named(lambda: last().so_far, limit):
                async with asyncio.timeout(limit) as ends:
                    return await retry(ends)
        except TimeoutError:
            raise self._with_advice(f"{last().missing} within {within_s:g} s", last()) from None

    def _with_advice(self, missing: str, last: NoAnswerError) -> NoAnswerError:
        return NoAnswerError(missing, "; ".join(filter(None, (last.reasons, self._search.advice))), last.cause)


def _material(tls: TlsSettings) -> "LiveMaterial":
    from cluster.tls.live import LiveMaterial  # noqa: PLC0415 - cryptography loads slowly.

    return LiveMaterial(tls, "client")


async def _follow_files(material: "LiveMaterial") -> None:
    from cluster.tls.live import keep_fresh  # noqa: PLC0415 - as above.

    await keep_fresh(lambda: (material,))


def _security(material: "LiveMaterial") -> "ChannelSecurity":
    from cluster.rpc.transport_security import ChannelSecurity  # noqa: PLC0415 - gRPC loads slowly.

    return ChannelSecurity(material)


def _changes_something(request: Any) -> bool:
    """Whether a request, if it is carried out, leaves the cluster changed."""
    return isinstance(request, UpdateFeaturesRequest | RecoverClusterRequest | AlterUserScramCredentialsRequest) or (
        getattr(request, "validate_only", None) is False
    )


@contextmanager
def _longer(timeout: asyncio.Timeout, by_ms: float) -> Iterator[None]:
    """Extend a timeout for the block."""
    ends = timeout.when()
    assert ends is not None, "a call to the controller has an end"
    timeout.reschedule(ends + by_ms / 1000)
    try:
        yield
    finally:
        if not timeout.expired():
            timeout.reschedule(ends)
