"""What `klamm clients` and `klamm users` share: the quotas of a client id, of a user, or of a user with a client id."""

from typing import Annotated, Any

import typer
from msgspec import Struct

from admin.cli.broker_documents import config_documents, write_configs
from admin.cli.output import say
from admin.cli.parsing import alterations, parse_configs
from admin.cli.plans import plan_document, write_plan
from admin.connecting.client import AdminClient
from admin.connecting.connection import KAFKA
from cluster.cli.documents import Format, write_document
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.configs import AlterConfigsResource, ConfigResource
from cluster.requests.plans import Plan
from cluster.requests.quotas import CLIENT_ENTITY, USER_ENTITY
from cluster.znodes.configs import DEFAULT_ENTITY

DEFAULT = "default"
DeleteOption = Annotated[list[str] | None, typer.Option(metavar="KEY", help="Remove a quota. Repeatable.")]


class QuotaTarget(Struct, frozen=True):
    """Whose quotas these are: in requests by type and name, in documents by `fields`, in messages by `text`."""

    resource_type: int
    resource_name: str
    fields: dict[str, str]
    is_default: bool

    @property
    def text(self) -> str:
        return " with ".join(f"{what} {name}" for what, name in self.fields.items())


def checked_name(name: str) -> str:
    """The name as it was given, and `default` for `<default>`, which lists have. Raises BadParameter for an empty one:
    on the wire that is the default, which a script with an unset variable does not mean.
    """
    if not name:
        raise typer.BadParameter("is empty: name one, or 'default' for all that have no quota")
    return DEFAULT if name == DEFAULT_ENTITY else name


async def quotas_of(connected: AdminClient, owner: QuotaTarget) -> list[dict[str, Any]]:
    """The quotas as documents. Raises ApiError if they cannot be described."""
    described = await connected.describe_configs([ConfigResource(owner.resource_type, owner.resource_name)])
    (result,) = connected.results_for([owner.text], described.results)
    if result.error_code is not ErrorCode.NONE:
        message = result.error_message or "cannot describe the quotas"
        raise ApiError(result.error_code, message, value=owner.text)
    # Kafka has no number for this source.
    what = "client id" if "client" in owner.fields else "user"
    source = f"default of {what}s" if owner.is_default else f"this {what}"
    if len(owner.fields) > 1:
        source += " of any user" if owner.fields["user"] == DEFAULT else " of this user"
    return [{**document, "source": source} for document in config_documents(result.configs)]


class OwnedQuotas(Struct, frozen=True):
    """Quotas of a user, of a client id, or of both. A name is `<default>` for all that have none of their own, as in
    ZooKeeper, so that one who is called `default` is told apart; None where it does not matter.
    """

    user: str | None
    client: str | None
    values: dict[str, str]

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [{"name": name, "value": value} for name, value in self.values.items()]


def quotas_text(documents: list[dict[str, Any]]) -> str:
    """Write quotas as `--config` takes them."""
    return ", ".join(f"{quota['name']}={quota['value']}" for quota in documents)


async def all_quotas(connected: AdminClient) -> list[OwnedQuotas]:
    """List the quotas of all users and client ids. Raises ApiError."""
    found = []
    for entry in (await connected.describe_client_quotas()).entries:
        names = {e.entity_type: DEFAULT_ENTITY if e.entity_name is None else e.entity_name for e in entry.entity}
        values = {value.key: value.value for value in entry.values}
        found.append(OwnedQuotas(names.get(USER_ENTITY), names.get(CLIENT_ENTITY), values))
    return found


async def quotas_and_tool(connected: AdminClient, own: str) -> tuple[list[OwnedQuotas], str]:
    """List all quotas, and say what gives one: the `own` command, or the tool of Apache Kafka where brokers are of it.
    Raises ApiError.
    """
    is_kafka = (await connected.describe_cluster()).broker_protocol == KAFKA
    return await all_quotas(connected), "kafka-configs.sh at a broker" if is_kafka else own


def alter_quotas(
    cluster: Any, owner: QuotaTarget, config: list[str] | None, deleted: list[str], check: str, *, dry_run: bool
) -> None:
    """Set and delete quotas, and write what is set then, or with `dry_run` what would change."""
    configs = parse_configs(config)
    if not configs and not deleted:
        raise typer.BadParameter("nothing to change: pass --config KEY=VALUE or --delete-config KEY")

    async def main(connected: AdminClient) -> tuple[Plan | None, set[str], list[dict[str, Any]]]:
        before = {quota["name"] for quota in await quotas_of(connected, owner)} if deleted and not dry_run else set()
        changes = alterations(configs, deleted)
        resource = AlterConfigsResource(owner.resource_type, owner.resource_name, changes)
        response = await connected.alter_configs([resource], validate_only=dry_run)
        (result,) = connected.results_for([owner.text], response.responses)
        if result.error_code is not ErrorCode.NONE:
            message = result.error_message or "refused"
            field, value = next(reversed(owner.fields.items()))
            raise ApiError(result.error_code, message, field=field, value=value, violations=result.violations)
        return response.plan, before, await quotas_of(connected, owner)

    plan, before, present = cluster.ask(main, check=check)
    if plan is None and not configs and before.isdisjoint(deleted):
        say(f"nothing changed: {owner.text} had no {', '.join(deleted)}")
    elif plan is None or plan.settings:
        say(f"quotas of {owner.text} {'would be ' if dry_run else ''}changed")
    if cluster.form is not Format.TABLE:
        document = {**owner.fields, "dry_run": dry_run, "set": configs, "deleted": deleted, "configs": present}
        write_document(document | {"plan": None if plan is None else plan_document(plan)}, cluster.form)
    elif plan is None and not present:
        say(f"{owner.text} has no quota now")
    elif plan is None:
        write_configs(present)
    else:
        write_plan(plan)
