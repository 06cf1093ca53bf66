"""Lets through what the caller of a request may do, in front of the node that handles it.

One place for the gRPC ports and for the listeners of Kafka's clients. What each request needs is in
`cluster.security.operations`. Source: Kafka KafkaApis, AuthHelper; AclAuthorizer for the lines of the log.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import cache
from shlex import quote
from typing import Any, Final, Protocol

import structlog
from msgspec import Struct
from msgspec.structs import fields, replace

from cluster.aio.slices import in_slices
from cluster.metrics.registry import Metrics
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.printable import printable
from cluster.requests.context import RequestContext, RequestHandler
from cluster.rpc.methods import METHOD_OF_REQUEST
from cluster.rpc.refusals import results_in
from cluster.rpc.request_bounds import count_violation
from cluster.security.acls import Authorizer, ResourceType
from cluster.security.authorization import (
    CLUSTER,
    CallerRights,
    NamedResource,
    Resource,
    authorize,
    may_be_shown,
    resource_of,
)
from cluster.security.operations import CODE_OF_DENIAL, REQUIREMENTS, Requirement

_NAMED_IN_LOG: Final = 5
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
        asked = _Asked(request, CallerRights(context.identity, self._rules.authorizer))
        if asked.authorization.is_refused:
            self._report(asked, [CLUSTER])
            return _refusal(asked)
        _check_count(asked)
        denied = await self._denied(asked, asked.authorization.items)
        if not denied:
            _log.debug("Allowed", **asked.described())
            response = await self._handler.handle(context, request)
        else:
            self._report(asked, [item.resource for item in denied.values()])
            response = await self._handle_rest(context, asked, denied)
        if asked.requirement.results:
            response = await self._with_denied_results(asked, response)
        if not asked.authorization.filters:
            return response
        if METHOD_OF_REQUEST[type(request)].streams:
            return self._filter_each(asked.requirement, response, context)
        return _filtered(asked.requirement, response, asked.caller)

    async def _with_denied_results(self, asked: "_Asked", response: Any) -> Any:
        """The response with an error for each result that is denied and has another."""
        listed, _, _ = asked.requirement.results.partition(".")
        results = getattr(response, listed)
        denied = {
            position: named
            for position, named in (await self._denied(asked, results)).items()
            if results[position].error_code is not CODE_OF_DENIAL[named.resource.type]
        }
        if not denied:
            return response
        self._report(asked, [named.resource for named in denied.values()])
        results_now = list(results)
        for position, named in denied.items():
            results_now[position] = _error(results[position], named, asked)
        return replace(response, **{listed: tuple(results_now)})

    async def _denied(self, asked: "_Asked", items: Sequence[Any]) -> dict[int, NamedResource]:
        """The resources of the items that are denied, by the positions of these."""
        requirement, caller = asked.requirement, asked.caller
        # A request names few topics with many partitions each.
        known: dict[Resource, bool] = {}
        denied: dict[int, NamedResource] = {}
        async for position, item in in_slices(enumerate(items)):
            named = resource_of(requirement, item, self._topic_of)
            if named is None:
                continue
            if named.resource not in known:
                assert requirement.operation is not None, "what needs no right has no items to authorise"
                known[named.resource] = caller.may(requirement.operation, named.resource)
            if not known[named.resource]:
                denied[position] = named
        return denied

    async def _handle_rest(self, context: RequestContext, asked: "_Asked", denied: Mapping[int, NamedResource]) -> Any:
        """Have the items handled that are not denied, and add an error for each of the others."""
        listed, _, _ = asked.requirement.items.partition(".")
        items = asked.authorization.items
        rest = tuple(item for position, item in enumerate(items) if position not in denied)
        kind: Any = type(asked.request)
        # A request in a session counts there even if it names nothing.
        if rest or asked.requirement.results or not _can_be_empty(kind):
            response = await self._handler.handle(context, replace(asked.request, **{listed: rest}))
        else:
            response = _empty(kind)
        errors = {
            position: _error(items[position], named, asked) async for position, named in in_slices(denied.items())
        }
        field, _ = _results(kind)
        return replace(response, **{field: _merged(getattr(response, field), errors, len(items))})

    async def _filter_each(
        self, requirement: Requirement, responses: Any, context: RequestContext
    ) -> AsyncIterator[Any]:
        async with aclosing(responses):
            async for response in responses:
                # The rules may have changed since the stream began.
                yield _filtered(requirement, response, CallerRights(context.identity, self._rules.authorizer))

    def _report(self, asked: "_Asked", resources: Sequence[Resource]) -> None:
        self._denials.mark()
        names = list(dict.fromkeys(f"{resource.type}:LITERAL:{_shown_name(resource)}" for resource in resources))
        more = {"more": len(names) - _NAMED_IN_LOG} if len(names) > _NAMED_IN_LOG else {}
        _log.info("Denied", **asked.described(), resources=names[:_NAMED_IN_LOG], **more)


class _Asked:
    """One request, with what the rights of its caller say of it."""

    def __init__(self, request: Any, caller: CallerRights) -> None:
        self.request, self.caller = request, caller
        self.authorization = authorize(REQUIREMENTS[request_name(request)], request, caller)
        self.requirement = self.authorization.requirement

    def described(self) -> dict[str, Any]:
        """The fields of its line in the log."""
        identity = self.caller.identity
        described = {
            "principal": str(identity.principal),
            "host": identity.host,
            "operation": str(self.requirement.operation or "none"),
            "request": request_name(self.request),
        }
        return described if identity.node is None else {**described, "certificate": str(identity.node)}


def guarded(
    handler: RequestHandler,
    rules: KnownRules | None,
    metrics: Metrics,
    topic_of: Callable[[Any], str | None] = lambda _: None,
) -> RequestHandler:
    """The handler behind an AuthorizedHandler; the handler itself without rules."""
    return handler if rules is None else AuthorizedHandler(handler, rules, metrics, topic_of)


def request_name(request: Any) -> str:
    """The name of a request in the table of rights."""
    return type(request).__name__.removesuffix("Request")


def _refusal(asked: _Asked) -> Any:
    """The response that refuses a request between nodes. Raises ApiError for all others."""
    error = ApiError(CODE_OF_DENIAL[ResourceType.CLUSTER], _why(asked, CLUSTER))
    method = METHOD_OF_REQUEST.get(type(asked.request))
    if asked.requirement.sender is None or method is None:
        raise error
    response: Any = method.response_type
    if {field.name for field in fields(response) if field.required} != {"error_code"}:
        raise error
    return response(error_code=error.code)


def _check_count(asked: _Asked) -> None:
    """Raise ApiError for more items than a request may have: what is refused as a whole is not authorised first."""
    listed, _, _ = asked.requirement.items.partition(".")
    violation = count_violation(asked.request, listed) if listed else None
    if violation is not None:
        raise ApiError(violation.code, violation.message, field=violation.field, value=violation.value)


def _shown_name(resource: Resource) -> str:
    """The name, as far as a topic or an id can have one: it is the caller's own text."""
    return printable(resource.name[:_NAME_MAX])


def _why(asked: _Asked, resource: Resource) -> str:
    requirement, identity = asked.requirement, asked.caller.identity
    if requirement.sender is not None and identity.node is not None:
        sent_id = getattr(asked.request, requirement.sender_id, None)
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


def _filtered(requirement: Requirement, response: Any, caller: CallerRights) -> Any:
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
    """Put all results into the order of the items; errors come last where there is not one result for each item."""
    if len(results) + len(errors) != count:
        return (*results, *errors.values())
    handled = iter(results)
    return tuple(errors[position] if position in errors else next(handled) for position in range(count))


def _error(item: Any, denied: NamedResource, asked: _Asked) -> Struct:
    """The result of a denied item, which names what the item names."""
    kind: Any = type(asked.request)
    _, result = _results(kind)
    values: dict[str, Any] = {"error_code": CODE_OF_DENIAL[denied.resource.type]}
    if "error_message" in result.__struct_fields__:
        values["error_message"] = _why(asked, denied.resource) if denied.is_named else "not authorised"
    for field in fields(result):
        if field.required and field.name not in values:
            is_name = isinstance(item, str) and field.name == "name"
            values[field.name] = item if is_name else getattr(item, field.name, None)
    made: Struct = result(**values)
    return made
