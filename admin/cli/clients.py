"""`klamm clients`: what clients may produce, consume, occupy and change, by their client id."""

from typing import Annotated, Any

import typer

from admin.cli.broker_documents import config_documents, write_configs
from admin.cli.options import Cluster, ConfigOption, DryRunOption, talks_to_cluster
from admin.cli.output import examples, say
from admin.cli.parsing import alterations, parse_configs
from admin.cli.plans import plan_document, write_plan
from admin.client import AdminClient
from cluster.cli.documents import Format, write_document
from cluster.model.errors import ApiError, ErrorCode
from cluster.requests.configs import CLIENT_RESOURCE, AlterConfigsResource, ConfigResource
from cluster.requests.plans import Plan

app = typer.Typer(no_args_is_help=True, help="Limit what clients produce, consume and change, by their client id.")


def _check_name(client: str) -> str:
    # On the wire the empty name is that of the default, which a script with an unset variable does not mean.
    if not client:
        raise typer.BadParameter("is empty: name a client id, or 'default' for all that have no quota")
    return client


ClientArgument = Annotated[
    str,
    typer.Argument(
        metavar="CLIENT|default",
        help="A client id, or 'default' for all that have no quota.",
        callback=_check_name,
    ),
]


@app.command(epilog=examples("klamm clients describe reports", "klamm clients describe default -o json"))
@talks_to_cluster()
def describe(client: ClientArgument, *, cluster: Cluster) -> None:
    """Show the quotas of a client id, or those of all clients without quotas of their own."""
    found = cluster.ask(lambda connected: _configs(connected, client))
    if cluster.form is not Format.TABLE:
        write_document({"client": client, "configs": found}, cluster.form)
    elif found:
        write_configs(found)
    else:
        say(
            f"client {client} has no quota"
            + ("" if client == "default" else "; see also 'klamm clients describe default'")
        )


@app.command(
    epilog=examples(
        "klamm clients alter reports --config consumer_byte_rate=5000000",
        "klamm clients alter default --config producer_byte_rate=20000000",
        "klamm clients alter default --config controller_mutation_rate=10",
        "klamm clients alter reports --delete-config consumer_byte_rate --dry-run",
    )
)
@talks_to_cluster()
def alter(
    client: ClientArgument,
    *,
    config: ConfigOption = None,
    delete_config: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Remove a quota. Repeatable.")] = None,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Set the quotas of a client id.

    producer_byte_rate, consumer_byte_rate: bytes per second at each broker.
    request_percentage: percent of one thread of each broker.
    controller_mutation_rate: partitions created and deleted per second.

    A client over its quota is answered with the time for which it is
    throttled, and its next request waits until then. There are no quotas of users.
    """
    configs, deleted = parse_configs(config), list(delete_config or ())
    if not configs and not deleted:
        raise typer.BadParameter("nothing to change: pass --config KEY=VALUE or --delete-config KEY")

    async def main(connected: AdminClient) -> tuple[Plan | None, list[dict[str, Any]]]:
        resource = AlterConfigsResource(CLIENT_RESOURCE, _name(client), alterations(configs, deleted))
        response = await connected.alter_configs([resource], validate_only=dry_run)
        (result,) = connected.results_for([f"client {client}"], response.responses)
        if result.error_code is not ErrorCode.NONE:
            message = result.error_message or "refused"
            raise ApiError(result.error_code, message, field="client", value=client, violations=result.violations)
        return response.plan, await _configs(connected, client)

    plan, present = cluster.ask(main, check=f"klamm clients describe {client}")
    if plan is None or plan.settings:
        say(f"quotas of client {client} {'would be ' if dry_run else ''}changed")
    if cluster.form is not Format.TABLE:
        document = {"client": client, "dry_run": dry_run, "set": configs, "deleted": deleted, "configs": present}
        write_document(document | {"plan": None if plan is None else plan_document(plan)}, cluster.form)
    elif plan is None:
        write_configs(present)
    else:
        write_plan(plan)


def _name(client: str) -> str:
    return "" if client == "default" else client


async def _configs(connected: AdminClient, client: str) -> list[dict[str, Any]]:
    described = await connected.describe_configs([ConfigResource(CLIENT_RESOURCE, _name(client))])
    (result,) = connected.results_for([f"client {client}"], described.results)
    if result.error_code is not ErrorCode.NONE:
        message = result.error_message or "cannot describe the quotas of the client"
        raise ApiError(result.error_code, message, value=client)
    # Kafka has no number for this source.
    source = "default of clients" if client == "default" else "client"
    return [{**document, "source": source} for document in config_documents(result.configs)]
