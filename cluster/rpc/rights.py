"""Lets through what the caller of a request may do, in front of the node that handles it.

One place for the gRPC ports and for the listeners of Kafka's clients. What each request needs is in
`cluster.security.operations`. Source: Kafka KafkaApis, AuthHelper; AclAuthorizer for the lines of the log.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import cache, partial
from shlex import quote
from typing import Any, Final, Protocol

import structlog
from msgspec import Struct
from msgspec.structs import fields, replace

from cluster.metrics.registry import Metrics
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.printable import printable
from cluster.requests.context import RequestContext, RequestHandler
from cluster.rpc.methods import METHOD_OF_REQUEST
from cluster.rpc.refusals import results_in
from cluster.security.acls import Authorizer, ResourceType
from cluster.security.judgement import CLUSTER, Caller, DeniedItem, Judgement, Resource, judge, may_be_shown
from cluster.security.operations import CODE_OF_DENIAL, REQUIREMENTS, Requirement

_NAMED_IN_LOG: Final = 5
_LONG: Final = 1_000
_NAME_MAX: Final = 249
_log = structlog.stdlib.get_logger("kafka.authorizer.logger")


class KnownRules(Protocol):
    """What is known of the rules at present."""

    @property
    def authorizer(self) -> Authorizer: ...


class AuthorizedHandler:
    """Stands as a RequestHandler in front of that of the process, and hands on what the caller may do.

    `topic_of`: the name of the topic with an id; None if it is not known, of which the handler answers that.
    """

    def __init__(
        self,
        handler: RequestHandler,
        rules: KnownRules,
        metrics: Metrics,
        topic_of: Callable[[Any], str | None] = lambda _: None,
    ) -> None:
        self._handler, self._rules, self._topic_of = handler, rules, topic_of
        self._denials = metrics.meter("klamm.security", "Authorizer", "DeniedPerSec")

    async def handle(self, context: RequestContext, request: Any) -> Any:
        """Handle a request. Raises ApiError if it is refused as a whole; between nodes the response has the error."""
        name = request_name(request)
        caller = Caller(context.identity, self._rules.authorizer)
        judging = partial(judge, REQUIREMENTS[name], request, caller, self._topic_of)
        judged = await asyncio.to_thread(judging) if _is_long(request) else judging()
        if judged.is_refused:
            self._report(name, judged, caller, [CLUSTER])
            return _refusal(judged, caller, request)
        if not judged.denied:
            _log.debug("Allowed", **_described(name, judged, caller))
            response = await self._handler.handle(context, request)
        else:
            self._report(name, judged, caller, [item.resource for item in judged.denied])
            response = await self._handle_rest(context, request, judged, caller)
        if not judged.filters:
            return response
        if METHOD_OF_REQUEST[type(request)].streams:
            return self._filter_each(judged.requirement, response, context)
        return _filtered(judged.requirement, response, caller)

    async def _handle_rest(self, context: RequestContext, request: Any, judged: Judgement, caller: Caller) -> Any:
        """Have the items handled that are not denied, and add an error for each of the others."""
        listed, _, _ = judged.requirement.items.partition(".")
        denied = {item.position for item in judged.denied}
        items = getattr(request, listed)
        rest = tuple(item for position, item in enumerate(items) if position not in denied)
        kind: Any = type(request)
        if rest or not _can_be_empty(kind):
            response = await self._handler.handle(context, replace(request, **{listed: rest}))
        else:
            response = _empty(kind)
        field, _ = _results(kind)
        errors = {item.position: _error(items[item.position], item, request, judged, caller) for item in judged.denied}
        return replace(response, **{field: _merged(getattr(response, field), errors, len(items))})

    async def _filter_each(
        self, requirement: Requirement, responses: Any, context: RequestContext
    ) -> AsyncIterator[Any]:
        async with aclosing(responses):
            async for response in responses:
                # The rules may have changed since the stream began.
                yield _filtered(requirement, response, Caller(context.identity, self._rules.authorizer))

    def _report(self, name: str, judged: Judgement, caller: Caller, resources: Sequence[Resource]) -> None:
        self._denials.mark()
        names = list(dict.fromkeys(f"{resource.type}:LITERAL:{_shown_name(resource)}" for resource in resources))
        more = {"more": len(names) - _NAMED_IN_LOG} if len(names) > _NAMED_IN_LOG else {}
        _log.info("Denied", **_described(name, judged, caller), resources=names[:_NAMED_IN_LOG], **more)


def request_name(request: Any) -> str:
    """The name of a request in the table of rights."""
    return type(request).__name__.removesuffix("Request")


def _is_long(request: Any) -> bool:
    """Whether a list of the request is so long that others must not wait while it is judged."""
    listed, _, _ = REQUIREMENTS[request_name(request)].items.partition(".")
    return bool(listed) and len(getattr(request, listed) or ()) > _LONG


def _described(name: str, judged: Judgement, caller: Caller) -> dict[str, Any]:
    identity = caller.identity
    described = {
        "principal": str(identity.principal),
        "host": identity.host,
        "operation": str(judged.requirement.operation or "none"),
        "request": name,
    }
    return described if identity.node is None else {**described, "certificate": str(identity.node)}


def _refusal(judged: Judgement, caller: Caller, request: Any) -> Any:
    """The response that refuses a request between nodes. Raises ApiError for all others."""
    error = ApiError(CODE_OF_DENIAL[ResourceType.CLUSTER], _why(judged, caller, CLUSTER, request))
    method = METHOD_OF_REQUEST.get(type(request))
    if judged.requirement.sender is None or method is None:
        raise error
    response: Any = method.response_type
    if {field.name for field in fields(response) if field.required} != {"error_code"}:
        raise error
    return response(error_code=error.code)


def _shown_name(resource: Resource) -> str:
    """The name, as far as a topic or an id can have one: it is the caller's own text."""
    return printable(resource.name[:_NAME_MAX])


def _why(judged: Judgement, caller: Caller, resource: Resource, request: Any = None) -> str:
    requirement, identity = judged.requirement, caller.identity
    if requirement.sender is not None and identity.node is not None:
        sent_id = getattr(request, requirement.sender_id, None)
        sender = requirement.sender if sent_id is None else f"{requirement.sender} {sent_id}"
        return f"only {sender} may send this, and the certificate of the caller names {identity.node}"
    name = _shown_name(resource)
    option = "--cluster" if resource.type is ResourceType.CLUSTER else f"--topic {quote(name)}"
    where = f" at {identity.host}" if identity.host else ""
    right = (
        f"--allow-principal {quote(printable(str(identity.principal)))} --operation {requirement.operation} {option}"
    )
    return (
        f"{identity.principal}{where} may not {requirement.operation} {resource.type} {name}; "
        f"an administrator allows it with: klamm acls add {right}"
    )


def _filtered(requirement: Requirement, response: Any, caller: Caller) -> Any:
    """The response without what the caller may not see."""
    listed, _, _ = requirement.shown.partition(".")
    items = getattr(response, listed)
    shown = tuple(item for item in items if may_be_shown(requirement, item, caller))
    return response if len(shown) == len(items) else replace(response, **{listed: shown})


@cache
def _results(kind: Any) -> tuple[str, Any]:
    """The list of results in the response to this type of request, and their type."""
    return next(results_in(METHOD_OF_REQUEST[kind].response_type))


@cache
def _can_be_empty(kind: Any) -> bool:
    """Whether a response without results says nothing that only the handler knows."""
    known = {"error_code", _results(kind)[0]}
    return all(field.name in known for field in fields(METHOD_OF_REQUEST[kind].response_type) if field.required)


def _empty(kind: Any) -> Any:
    response: Any = METHOD_OF_REQUEST[kind].response_type
    codes = {"error_code": ErrorCode.NONE} if "error_code" in response.__struct_fields__ else {}
    return response(**codes, **{_results(kind)[0]: ()})


def _merged(results: Sequence[Any], errors: Mapping[int, Any], count: int) -> tuple[Any, ...]:
    """All results in the order of the items; errors come last where the handler has not one result for each item."""
    if len(results) + len(errors) != count:
        return (*results, *errors.values())
    handled = iter(results)
    return tuple(errors[position] if position in errors else next(handled) for position in range(count))


def _error(item: Any, denied: DeniedItem, request: Any, judged: Judgement, caller: Caller) -> Struct:
    """The result of a denied item, which names what the item names."""
    kind: Any = type(request)
    _, result = _results(kind)
    values: dict[str, Any] = {"error_code": CODE_OF_DENIAL[denied.resource.type]}
    if "error_message" in result.__struct_fields__:
        values["error_message"] = _why(judged, caller, denied.resource) if denied.is_named else "not authorised"
    for field in fields(result):
        if field.required and field.name not in values:
            is_name = isinstance(item, str) and field.name == "name"
            values[field.name] = item if is_name else getattr(item, field.name, None)
    made: Struct = result(**values)
    return made
