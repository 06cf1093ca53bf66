"""`klamm acls`: who may do what. The options are those of kafka-acls."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import typer

from admin.cli.options import Cluster, DryRunOption, YesOption, confirm, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.shared_options import with_options
from admin.connecting.client import AdminClient
from admin.describing.access_lists import (
    Grants,
    Resources,
    as_description,
    document,
    documents,
    filters,
    rules_to_add,
)
from cluster.model.errors import ApiError, ConfigError, ErrorCode
from cluster.model.printable import counted
from cluster.requests.acls import AclCreation, DeleteAclsFilter

app = typer.Typer(no_args_is_help=True, help="List, add and remove access rules: who may do what.")

_COLUMNS: Final = ("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "PERMISSION", "OPERATION", "HOST")
_SHOWN: Final = 10


def _repeatable(*names: str, metavar: str, text: str) -> Any:
    return Annotated[list[str] | None, typer.Option(*names, metavar=metavar, help=f"{text} Repeatable.")]


_RESOURCE_OPTIONS: Final[dict[str, tuple[Any, object]]] = {
    "topic": (_repeatable("--topic", metavar="NAME", text="A topic; '*': every one."), None),
    "group": (_repeatable("--group", metavar="NAME", text="A consumer group; '*': every one."), None),
    "of_cluster": (Annotated[bool, typer.Option("--cluster", help="The cluster.")], False),
    "transactional_id": (_repeatable("--transactional-id", metavar="ID", text="A transactional id."), None),
    "delegation_token": (_repeatable("--delegation-token", metavar="ID", text="A delegation token."), None),
    "user_principal": (_repeatable("--user-principal", metavar="USER", text="A user whose tokens it is about."), None),
    "resource_pattern_type": (
        Annotated[
            str,
            typer.Option(
                metavar="TYPE",
                help="What the names are: 'literal' or 'prefixed'; to find rules also 'any', or 'match': all that "
                "concern a resource of this name.",
            ),
        ],
        "literal",
    ),
}
_GRANT_OPTIONS: Final[dict[str, tuple[Any, object]]] = {
    "allow_principal": (
        _repeatable("--allow-principal", metavar="USER", text="Who is allowed it: User:NAME; User:* is everyone."),
        None,
    ),
    "deny_principal": (_repeatable("--deny-principal", metavar="USER", text="Who is denied it."), None),
    "allow_host": (_repeatable("--allow-host", metavar="ADDRESS", text="Only from this address."), None),
    "deny_host": (_repeatable("--deny-host", metavar="ADDRESS", text="Only from this address."), None),
    "operation": (_repeatable("--operation", metavar="NAME", text="Read, Write, Describe, All, …"), None),
}


def _resources(of_cluster: bool, resource_pattern_type: str, **named: list[str] | None) -> Resources:
    given = {name: tuple(values or ()) for name, values in named.items()}
    return Resources(
        given["topic"],
        given["group"],
        of_cluster,
        given["transactional_id"],
        given["delegation_token"],
        given["user_principal"],
        resource_pattern_type,
    )


def _grants(**named: list[str] | None) -> Grants:
    given = {name: tuple(values or ()) for name, values in named.items()}
    return Grants(
        given["allow_principal"], given["deny_principal"], given["allow_host"], given["deny_host"], given["operation"]
    )


def _about_rules(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that make up its keyword arguments `resources` and `grants`."""
    return with_options(
        with_options(command, "grants", _GRANT_OPTIONS, _grants), "resources", _RESOURCE_OPTIONS, _resources
    )


@app.command(
    "list",
    epilog=examples(
        "klamm acls list",
        "klamm acls list --topic orders --resource-pattern-type match   (all rules that concern it)",
        "klamm acls list --principal User:alice -o json",
    ),
)
@talks_to_cluster()
@_about_rules
def list_(
    *,
    principal: Annotated[
        list[str] | None, typer.Option(metavar="USER", help="Rules about this principal. Repeatable.")
    ] = None,
    resources: Resources,
    grants: Grants,
    cluster: Cluster,
) -> None:
    """List access rules. What is not given matches everything."""
    wanted = _checked(lambda: filters(_any_pattern(resources), grants, tuple(principal or ())))
    found = cluster.ask(lambda client: _found(client, wanted))
    write({"acls": found}, cluster.form, _COLUMNS, [tuple(rule.values()) for rule in found])


@app.command(
    epilog=examples(
        "klamm acls add --allow-principal User:alice --operation Read --topic orders",
        "klamm acls add --allow-principal User:alice --producer --topic orders",
        "klamm acls add --allow-principal User:bob --consumer --topic orders --group '*'",
        "klamm acls add --deny-principal User:bob --deny-host 10.0.0.7 --operation Write --topic orders",
        "klamm acls add --allow-principal User:ops --operation Alter --operation Describe --cluster",
    )
)
@talks_to_cluster()
@_about_rules
def add(
    *,
    producer: Annotated[bool, typer.Option("--producer", help="What a producer needs on the topics.")] = False,
    consumer: Annotated[bool, typer.Option("--consumer", help="What a consumer needs on topics and groups.")] = False,
    idempotent: Annotated[bool, typer.Option("--idempotent", help="With --producer: IdempotentWrite, too.")] = False,
    dry_run: DryRunOption = False,
    resources: Resources,
    grants: Grants,
    cluster: Cluster,
) -> None:
    """Add access rules: each principal with each operation on each resource.

    Without --operation it is All. What is denied is denied, whatever else is
    allowed. Rules have an effect while the brokers and controllers have
    authorizer.class.name; they can be added before.
    """
    asked = Grants(
        grants.allowed,
        grants.denied,
        grants.allowed_hosts,
        grants.denied_hosts,
        grants.operations,
        producer,
        consumer,
        idempotent,
    )
    rules = _checked(lambda: rules_to_add(resources, asked))

    async def main(client: AdminClient) -> list[dict[str, Any]]:
        wanted = [_document(rule) for rule in rules]
        present = await _found(client, _filters_of(rules))
        new = [rule for rule in wanted if rule not in present]
        if not dry_run:
            response = await client.create_acls(rules)
            _raise_refusals(client, wanted, response.results)
        return new

    added = cluster.ask(main, check="klamm acls list")
    say(f"{counted(len(added), 'rule')} {'would be ' if dry_run else ''}added")
    write({"added": added, "dry_run": dry_run}, cluster.form, _COLUMNS, [tuple(rule.values()) for rule in added])


@app.command(
    epilog=examples(
        "klamm acls remove --allow-principal User:alice --operation Read --topic orders",
        "klamm acls remove --topic orders --yes   (every rule of this topic)",
        "klamm acls remove --principal User:alice --resource-pattern-type any --dry-run",
    )
)
@talks_to_cluster()
@_about_rules
def remove(
    *,
    principal: Annotated[
        list[str] | None, typer.Option(metavar="USER", help="Rules about this principal. Repeatable.")
    ] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    resources: Resources,
    grants: Grants,
    cluster: Cluster,
) -> None:
    """Remove the access rules that match. What is not given matches everything.

    Without a resource and without a principal it is refused, as all rules
    would match.
    """
    wanted = _checked(lambda: filters(resources, grants, tuple(principal or ())))
    if any(f.resource_name_filter is None and f.principal_filter is None for f in wanted):
        raise typer.BadParameter("every rule would match: give a resource, such as --topic NAME, or --principal USER")
    found = cluster.ask(lambda client: _found(client, wanted))
    if found and not dry_run:
        for rule in found[:_SHOWN]:
            say("  ".join(map(str, rule.values())))
        if len(found) > _SHOWN:
            say(f"… and {len(found) - _SHOWN} more")
        confirm(f"Remove {counted(len(found), 'rule')}?", yes)
        found = cluster.ask(lambda client: _remove(client, wanted), check="klamm acls list")
    say(f"{counted(len(found), 'rule')} {'would be ' if dry_run else ''}removed")
    write({"removed": found, "dry_run": dry_run}, cluster.form, _COLUMNS, [tuple(rule.values()) for rule in found])


def _any_pattern(resources: Resources) -> Resources:
    """A list without a resource is of all kinds of patterns."""
    is_default = resources.pattern_type == "literal" and not list(resources.named())
    return Resources(pattern_type="any") if is_default else resources


def _checked(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except ConfigError as error:
        raise typer.BadParameter("; ".join(error.errors)) from error


async def _found(client: AdminClient, wanted: Sequence[DeleteAclsFilter]) -> list[dict[str, Any]]:
    return documents([await client.describe_acls(as_description(one)) for one in wanted])


async def _remove(client: AdminClient, wanted: Sequence[DeleteAclsFilter]) -> list[dict[str, Any]]:
    response = await client.delete_acls(wanted)
    matched = [acl for result in response.filter_results for acl in result.matching_acls]
    refused = [*response.filter_results, *matched]
    _raise_refusals(client, [{}] * len(refused), refused)
    removed = [
        document(
            kind=acl.resource_type,
            name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission=acl.permission_type,
        )
        for acl in matched
    ]
    return [rule for position, rule in enumerate(removed) if rule not in removed[:position]]


def _filters_of(rules: Sequence[AclCreation]) -> list[DeleteAclsFilter]:
    """A filter for the rules of each resource."""
    named = dict.fromkeys((r.resource_type, r.resource_name, r.resource_pattern_type) for r in rules)
    return [DeleteAclsFilter(kind, 1, 1, pattern_type, name) for kind, name, pattern_type in named]


def _document(rule: AclCreation) -> dict[str, Any]:
    return document(
        kind=rule.resource_type,
        name=rule.resource_name,
        pattern_type=rule.resource_pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission=rule.permission_type,
    )


def _raise_refusals(client: AdminClient, wanted: Sequence[dict[str, Any]], results: Sequence[Any]) -> None:
    """Raise ApiError for the first refused item."""
    for rule, result in zip(wanted, client.results_for(list(map(str, range(len(wanted)))), results), strict=True):
        if result.error_code is not ErrorCode.NONE:
            about = " ".join(map(str, rule.values()))
            message = f"{about}: {result.error_message}" if about else result.error_message
            raise ApiError(result.error_code, message or "refused")
