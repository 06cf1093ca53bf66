"""A controller process as a request handler: routes requests, whether this process is active or standby."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from msgspec.structs import replace

from cluster.aio.off_loop import THREAD
from cluster.aio.parking import parked
from cluster.model.broker import ControllerEpoch, TopicId
from cluster.model.errors import ApiError, ErrorCode, MalformedZnodeError, ZooKeeperError
from cluster.model.listeners import has_one_address
from cluster.process.descriptors import few_open_files_left
from cluster.requests.cluster import (
    NO_ZOOKEEPER,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribedController,
    DescribeFindingsRequest,
    DescribeFindingsResponse,
    Finding,
    WatchRequest,
    WatchResponse,
)
from cluster.requests.context import RequestContext
from cluster.rpc.apis import Api, ApiKind, DirectApi, check_listener
from cluster.rpc.muted_senders import MutedSenders, Sender
from cluster.rpc.refusals import handle_within_bounds
from cluster.security.authorization import FixedRules
from cluster.security.principals import ANONYMOUS, Principal
from cluster.znodes.cluster_wide import readable_cluster_id
from cluster.znodes.controller import decode_controller_epoch
from cluster.znodes.paths import CLUSTER_ID, CONTROLLER, CONTROLLER_EPOCH
from cluster.zookeeper.access_rules import AccessRules
from cluster.zookeeper.port import ZooKeeper
from cluster.zookeeper.registrations import registered_controllers
from controller.apis import APIS
from controller.controller import Controller
from controller.event_loop import preempt
from controller.handlers.malformed_znode_findings import malformed_of, znode_finding
from controller.request_events import ControllerApi, RequestEvent

UNFIT_CONTROLLER: Final = "unfit_controller"
_NOT_ADOPTED: Final = "waits for 'klamm adopt --execute'"
STANDBY_DIFFERED: Final = "standby_differed"
REDIRECT_TIMEOUT_S: Final = 2
"""Timeout for a standby to find the active controller, before it refuses without an address."""


ANSWERS_MAX: Final = 1_000
"""Far more than clients have in flight; the oldest is removed first."""

Ask = Callable[[asyncio.Future[Any]], None]
"""Makes sure that the future is completed: by an event in the queue, or at once if that is not possible."""


class _Answered(NamedTuple):
    request: object
    answer: asyncio.Future[Any]


class AnsweredRequests:
    """Deduplicates mutations by request id: a repeated request gets the first response.

    A client that lost its connection cannot know whether its request was carried out. It repeats the request with the
    same id, and the mutation is carried out once. The decision is stored, also a pending one, whatever becomes of the
    call; each call waits for its effects (leaders elected, topic deleted) separately. Local to this process:
    after a failover the next controller answers from the cluster state. Not thread-safe: used from one event loop.
    """

    def __init__(self) -> None:
        self._answered: dict[tuple[Principal, str], _Answered] = {}

    async def first_answer(self, request_id: str, request: object, ask: Ask, principal: Principal = ANONYMOUS) -> Any:
        """The response to `request`, enqueued unless it was before. Without an id nothing is stored.

        An id is one of the principal who used it: nobody else is answered with what it got.

        A failure is not stored, since then nothing was decided. Raises ApiError(INVALID_REQUEST) if the id was used by
        another request.
        """
        key = principal, request_id
        known = self._answered.get(key)
        if known is None:
            known = _Answered(request, asyncio.get_running_loop().create_future())
            ask(known.answer)
            if request_id:
                self._remember(key, known)
        elif known.request != request:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "another request had this id", field="x-request-id", value=request_id
            )
        # The event is queued whatever happens to this caller, so its response must not be cancelled with the caller.
        return await asyncio.shield(known.answer)

    def _remember(self, key: tuple[Principal, str], answered: _Answered) -> None:
        while len(self._answered) >= ANSWERS_MAX:
            del self._answered[next(iter(self._answered))]
        self._answered[key] = answered

        def forget_failure(answer: asyncio.Future[Any]) -> None:
            if (answer.cancelled() or answer.exception() is not None) and self._answered.get(key) is answered:
                del self._answered[key]

        answered.answer.add_done_callback(forget_failure)


class ControllerNode:
    """The RequestHandler of a controller process. `apis`: further APIs of the process. `rules`: None without an
    authorizer. `findings_of_process`: what the process knows to be wrong with itself.
    """

    def __init__(
        self,
        controller: Controller,
        zookeeper: ZooKeeper,
        apis: Iterable[DirectApi[Any]],
        rules: AccessRules | FixedRules | None = None,
        findings_of_process: Callable[[], Iterable[Finding]] = tuple,
    ) -> None:
        self._controller, self._rules = controller, rules
        self._findings_of_process = findings_of_process
        self._zookeeper = zookeeper
        self._answered = AnsweredRequests()
        self._muted = MutedSenders()
        local: tuple[DirectApi[Any], ...] = (
            DirectApi(DescribeClusterRequest, ApiKind.LOCAL, self._describe_cluster),
            DirectApi(DescribeFindingsRequest, ApiKind.LOCAL, self._describe_findings),
            DirectApi(WatchRequest, ApiKind.LOCAL, self._watch),
            *apis,
        )
        self.apis: dict[type, ControllerApi[Any, Any] | DirectApi[Any]] = {
            **APIS,
            **{api.request: api for api in local},
        }

    async def handle(self, context: RequestContext, request: Any) -> Any:
        """Handle a request of ControllerService or ClusterService.

        Between nodes an error is a code in the response. Administrative requests raise ApiError; NOT_CONTROLLER then
        carries the address of the active controller, if there is one.
        """
        api = self.apis.get(type(request))
        if api is None:
            kind = type(request).__name__
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"a controller does not answer {kind}")
        handler = partial(self._ask, api, context) if isinstance(api, ControllerApi) else api.handler
        sender = Sender(context.identity.principal.name, context.client_id, context.peer)
        if self._muted and api.kind is not ApiKind.INTER_NODE:
            await self._muted.wait_for_turn(sender)
        try:
            self._check_listener(api, context, request)
            if isinstance(api, ControllerApi) and api.kind is ApiKind.MUTATION and not api.is_dry_run(request):
                self._check_authorizers(context)
            response = await handle_within_bounds(request, handler)
            if throttle_ms := getattr(response, "throttle_time_ms", 0):
                self._muted.mute(sender, throttle_ms)
            return response
        except ApiError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
            message = error.message
        raise ApiError(ErrorCode.NOT_CONTROLLER, message, leader_address=await self._active_address())

    def _check_listener(self, api: Api[Any], context: RequestContext, request: Any) -> None:
        """Refuse a request at the wrong listener, unless it is of a broker that knows no other (LS-3).

        A standby refuses all requests of brokers anyway.
        """
        if api.kind is ApiKind.INTER_NODE:
            active = self._controller.active
            broker = None if active is None else active.context.brokers.registered.get(request.broker_id)
            if active is None or (broker is not None and has_one_address(broker.endpoints)):
                return
        config = self._controller.config
        check_listener(api, context, config.listeners, config.endpoints)

    def topic_of(self, topic_id: TopicId) -> str | None:
        """The name of the topic with this id; None if it is not known, and while this controller is not active."""
        active = self._controller.active
        return None if active is None else active.context.topics.names_by_id.get(topic_id)

    def _check_authorizers(self, context: RequestContext) -> None:
        """Refuse a change that comes from another host while a broker has an authorizer, and this controller has none
        (D-112).
        """
        if self._rules is not None:
            return
        active = self._controller.active
        guarded = () if active is None else active.brokers.brokers_with_authorizer()
        if guarded and not is_on_this_host(context.peer):
            raise ApiError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"broker {min(guarded)} has an authorizer, and this controller has none: it takes changes from its own "
                "host only; give it the authorizer.class.name and super.users of the brokers, or run the command on "
                "the host of the active controller",
            )

    async def _ask(self, api: ControllerApi[Any, Any], context: RequestContext, request: Any) -> Any:
        """The response from the event loop, after what the caller waits for; the first one for a repeated mutation."""
        handled, active = request, self._controller.active
        if api.gather is not None and active is not None:
            async with parked():
                handled = await api.gather(active, request)

        def put(reply: asyncio.Future[Any]) -> None:
            event = RequestEvent(api, handled, reply, context, THREAD.get())
            if self._controller.is_active:
                self._controller.events.put(event)
            else:
                preempt(event)

        if api.kind is ApiKind.MUTATION and not api.is_dry_run(request):
            principal = context.identity.principal
            answer = await self._answered.first_answer(context.request_id, request, put, principal)
        else:
            reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            put(reply)
            answer = await reply
        if api.finish is None:
            return answer
        async with parked():
            return await api.finish(answer, request)

    async def _watch(self, request: WatchRequest) -> AsyncIterator[WatchResponse]:
        feed = self._controller.feed
        if feed is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller is not active")
        return feed.follow(request)

    async def _active_address(self) -> str | None:
        try:
            async with asyncio.timeout(REDIRECT_TIMEOUT_S):
                _, address = await self._controller.election.address_of_another()
        except (TimeoutError, ZooKeeperError):
            return None
        return address if address else None

    async def _describe_cluster(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        """The active controller describes the cluster; a standby only who is active."""
        if not self._controller.is_connected:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, NO_ZOOKEEPER)
        described: DescribeClusterResponse | None = None
        try:
            async with asyncio.timeout(REDIRECT_TIMEOUT_S):
                described = await self._ask(APIS[DescribeClusterRequest], RequestContext(), request)
        except TimeoutError:
            why = "active, but busy or waiting for ZooKeeper"
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, why) from None
        except ApiError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
        try:
            async with asyncio.timeout(REDIRECT_TIMEOUT_S):
                if described is None:
                    described = await self._describe_from_zookeeper()
                return replace(described, controllers=await self._registered_controllers())
        except (TimeoutError, ZooKeeperError):
            if described is not None:
                return described
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, NO_ZOOKEEPER) from None

    async def _describe_findings(self, request: DescribeFindingsRequest) -> DescribeFindingsResponse:
        """The active controller's findings; of a standby, what keeps everyone from becoming active.

        Whichever it is, it says if it can hardly be reached.
        """
        found = await self._of_cluster(request)
        of_process = (
            *few_open_files_left(f"controller {self._controller.config.id}"),
            *self._findings_of_process(),
        )
        problems = {} if self._rules is None else self._rules.problems
        of_rules = (znode_finding(path, "; ".join(whys)) for path, whys in problems.items())
        return replace(found, findings=(*of_process, *of_rules, *self._standby_differed(), *found.findings))

    async def _of_cluster(self, request: DescribeFindingsRequest) -> DescribeFindingsResponse:
        try:
            response: DescribeFindingsResponse = await self._ask(
                APIS[DescribeFindingsRequest], RequestContext(), request
            )
        except ApiError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
        else:
            return response
        try:
            async with asyncio.timeout(REDIRECT_TIMEOUT_S):
                found = await malformed_of(self._zookeeper, (CONTROLLER, CONTROLLER_EPOCH))
        except (TimeoutError, ZooKeeperError):
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, NO_ZOOKEEPER) from None
        of_znodes = (znode_finding(path, why) for path, why in found.items())
        return DescribeFindingsResponse((*self._own_unfitness(), *of_znodes))

    async def _registered_controllers(self) -> tuple[DescribedController, ...]:
        """Find all candidates. That this one waits for an adoption is in no registration: it is no fault of its own."""
        found = await registered_controllers(self._zookeeper)
        if not self._controller.election.gives_way:
            return found
        own_id = self._controller.config.id
        return tuple(replace(c, unfit=_NOT_ADOPTED) if c.id == own_id and not c.unfit else c for c in found)

    def _standby_differed(self) -> tuple[Finding, ...]:
        where, own_id = self._controller.standby.difference, self._controller.config.id
        detail = (
            f"controller {own_id} took over what it had followed as a standby, which differed from ZooKeeper in "
            f"{where}; it has read everything since, and follows no more until it is restarted; this is a defect of "
            "klamm: report it with the archive of klamm bundle"
        )
        return (Finding(STANDBY_DIFFERED, detail),) if where else ()

    def _own_unfitness(self) -> tuple[Finding, ...]:
        why, own_id = self._controller.fitness.why, self._controller.config.id
        detail = f"controller {own_id} takes no part in elections: it {why}"
        return (Finding(UNFIT_CONTROLLER, detail),) if why else ()

    async def _describe_from_zookeeper(self) -> DescribeClusterResponse:
        active, address = await self._controller.election.address_of_another()
        cluster_id = await self._zookeeper.get(CLUSTER_ID)
        epoch = await self._zookeeper.get(CONTROLLER_EPOCH)
        try:
            controller_epoch = ControllerEpoch(0) if epoch is None else decode_controller_epoch(epoch.data)
        except MalformedZnodeError as error:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        return DescribeClusterResponse(
            cluster_id="" if cluster_id is None else readable_cluster_id(cluster_id.data),
            controller_id=active,
            controller_address=address,
            controller_epoch=controller_epoch,
            brokers=(),
            node_id=self._controller.config.id,
            node_role="controller",
            broker_protocol=self._controller.config.broker_protocol,
        )


def is_on_this_host(peer: str) -> bool:
    """Whether a caller is on this host.

    `peer`: gRPC's name of the other end, such as `ipv4:10.0.0.7:4711`; empty for a request of the process itself.
    """
    kind, _, rest = unquote(peer).partition(":")
    if kind in ("", "unix"):
        return True
    host, _, _ = rest.rpartition(":")
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_loopback or _is_own(address)


def _is_own(address: IPv4Address | IPv6Address) -> bool:
    """Whether an interface of this host has it: only then a socket can be bound to it."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return not (address.is_multicast or address.is_unspecified)
