"""Adds, describes and deletes access control lists in ZooKeeper, where Kafka's brokers and tools have them.

Rules are stored whether this cluster has an authorizer or not, so that they can be there before it is switched on.
Source: Kafka AclApis, AclAuthorizer.createAcls, deleteAcls, acls.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import structlog

from cluster.model.errors import ApiError, ErrorCode
from cluster.requests import acls
from cluster.security.acl_numbers import (
    NUMBER_OF_OPERATION,
    NUMBER_OF_PATTERN_TYPE,
    NUMBER_OF_PERMISSION,
    NUMBER_OF_RESOURCE_TYPE,
)
from cluster.security.acls import AccessRule, Pattern
from controller.active_controller import ActiveController
from controller.changes import AccessRulesChanged
from controller.decisions.configs.access_lists import AclBinding, binding_of, check_filter, matching
from controller.fenced_writes import Conflict, Missing, Written

_ATTEMPTS: Final = 10
"""Attempts to write a znode that others change at the same time. Source: AclAuthorizer.maxUpdateRetries."""
_log = structlog.stdlib.get_logger("kafka.authorizer.logger")

_Rules = frozenset[AccessRule]
_Change = Callable[[_Rules], _Rules]


async def create_acls(active: ActiveController, request: acls.CreateAclsRequest) -> acls.CreateAclsResponse:
    """Add the rules, each pattern's together with the notice for those who follow; one result for each.

    Raises ControllerMovedError when a write is fenced; some patterns may have been changed by then.
    """
    found = [_binding_or_error(creation) for creation in request.creations]
    added: dict[Pattern, set[AccessRule]] = defaultdict(set)
    for binding in found:
        if not isinstance(binding, ApiError):
            added[binding.pattern].add(binding.rule)
    changes: dict[Pattern, _Change] = {p: frozenset(rules).union for p, rules in added.items()}
    errors = await _change(active, changes)
    return acls.CreateAclsResponse(
        tuple(_result(each if isinstance(each, ApiError) else errors.get(each.pattern)) for each in found)
    )


async def describe_acls(active: ActiveController, request: acls.DescribeAclsRequest) -> acls.DescribeAclsResponse:
    """Describe the rules that match, as they are in ZooKeeper now. Raises ApiError for a filter that makes no sense."""
    check_filter(request)
    by_pattern: dict[Pattern, list[AccessRule]] = defaultdict(list)
    for pattern, rule in matching(request, await _all_rules(active)):
        by_pattern[pattern].append(rule)
    return acls.DescribeAclsResponse(
        tuple(
            acls.DescribeAclsResource(
                NUMBER_OF_RESOURCE_TYPE[pattern.resource_type],
                pattern.name,
                NUMBER_OF_PATTERN_TYPE[pattern.type],
                tuple(map(_described, rules)),
            )
            for pattern, rules in by_pattern.items()
        )
    )


async def delete_acls(active: ActiveController, request: acls.DeleteAclsRequest) -> acls.DeleteAclsResponse:
    """Delete the rules that each filter matches. What was changed by others meanwhile is matched again."""
    results: list[ApiError | list[AclBinding]] = []
    rules = await _all_rules(active)
    for wanted in request.filters:
        try:
            check_filter(wanted)
        except ApiError as error:
            results.append(error)
        else:
            results.append(list(matching(wanted, rules)))
    removed: dict[Pattern, set[AccessRule]] = defaultdict(set)
    for bindings in results:
        for binding in bindings if isinstance(bindings, list) else ():
            removed[binding.pattern].add(binding.rule)
    changes: dict[Pattern, _Change] = {p: _without(frozenset(gone)) for p, gone in removed.items()}
    errors = await _change(active, changes)
    return acls.DeleteAclsResponse(tuple(_deleted(result, errors) for result in results))


async def _all_rules(active: ActiveController) -> dict[Pattern, _Rules]:
    return {pattern: stored.rules for pattern, stored in (await active.access_lists.read_all()).items()}


async def _change(active: ActiveController, changes: Mapping[Pattern, _Change]) -> dict[Pattern, ApiError]:
    """Write the changed rules of each pattern, and return the error of each that is not changed."""
    errors: dict[Pattern, ApiError] = {}
    left = list(changes)
    for _ in range(_ATTEMPTS):
        if not left:
            return errors
        wanted: dict[Pattern, tuple[_Rules, _Rules]] = {}
        versions: dict[Pattern, int | None] = {}
        for pattern, stored in (await active.access_lists.read(left)).items():
            if stored.is_unknown:
                why = f"{pattern.resource_type} {pattern.name}: {'; '.join(stored.problems)}: it is left as it is"
                errors[pattern] = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, why)
                continue
            now = changes[pattern](stored.rules)
            if now != stored.rules:
                wanted[pattern], versions[pattern] = (stored.rules, now), stored.version
        outcomes = await active.access_lists.write({p: (now, versions[p]) for p, (_, now) in wanted.items()})
        for pattern, outcome in outcomes.items():
            if isinstance(outcome, Written):
                _record(active, pattern, *wanted[pattern])
            elif not isinstance(outcome, Conflict | Missing):
                errors[pattern] = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper refused: {outcome}")
        if any(isinstance(outcome, Missing) for outcome in outcomes.values()):
            await active.access_lists.create_paths()
        left = [pattern for pattern, outcome in outcomes.items() if isinstance(outcome, Conflict | Missing)]
    busy = ApiError(ErrorCode.OPERATION_NOT_ATTEMPTED, "others keep changing the same access control list: try again")
    return errors | dict.fromkeys(left, busy)


def _record(active: ActiveController, pattern: Pattern, before: _Rules, now: _Rules) -> None:
    """Write the change into the state-change log and the log of the authorizer, with who asked for it."""
    active.commit(AccessRulesChanged(pattern, now - before, before - now))
    caller = active.asked_by
    _log.info(
        "Access rules changed",
        principal="" if caller is None else str(caller.identity.principal),
        host="" if caller is None else caller.identity.host,
        resource=str(pattern),
        added=_texts(now - before),
        removed=_texts(before - now),
    )


def _texts(rules: Iterable[AccessRule]) -> list[str]:
    return [str(rule) for rule in sorted(rules)]


def _without(gone: _Rules) -> _Change:
    return lambda rules: rules - gone


def _binding_or_error(creation: acls.AclCreation) -> AclBinding | ApiError:
    try:
        return binding_of(creation)
    except ApiError as error:
        return error


def _result(error: ApiError | None) -> acls.AclCreationResult:
    if error is None:
        return acls.AclCreationResult(ErrorCode.NONE)
    return acls.AclCreationResult(error.code, error.message)


def _described(rule: AccessRule) -> acls.AclDescription:
    operation, permission = NUMBER_OF_OPERATION[rule.operation], NUMBER_OF_PERMISSION[rule.permission]
    return acls.AclDescription(str(rule.principal), rule.host, operation, permission)


def _deleted(result: ApiError | list[AclBinding], errors: Mapping[Pattern, ApiError]) -> acls.DeleteAclsFilterResult:
    if isinstance(result, ApiError):
        return acls.DeleteAclsFilterResult(result.code, result.message)
    return acls.DeleteAclsFilterResult(
        ErrorCode.NONE, None, tuple(_deleted_rule(binding, errors.get(binding.pattern)) for binding in result)
    )


def _deleted_rule(binding: AclBinding, error: ApiError | None) -> acls.DeleteAclsMatchingAcl:
    described = _described(binding.rule)
    return acls.DeleteAclsMatchingAcl(
        ErrorCode.NONE if error is None else error.code,
        NUMBER_OF_RESOURCE_TYPE[binding.pattern.resource_type],
        binding.pattern.name,
        described.principal,
        described.host,
        described.operation,
        described.permission_type,
        NUMBER_OF_PATTERN_TYPE[binding.pattern.type],
        None if error is None else error.message,
    )
