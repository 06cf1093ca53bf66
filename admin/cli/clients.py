"""`klamm clients`: what clients may produce, consume, occupy and change, by their client id."""

from typing import Annotated

import typer

from admin.cli.broker_documents import write_configs
from admin.cli.options import Cluster, ConfigOption, DryRunOption, talks_to_cluster
from admin.cli.output import examples, say
from admin.cli.quotas import (
    DEFAULT,
    DeleteOption,
    QuotaTarget,
    alter_quotas,
    checked_name,
    quotas_and_tool,
    quotas_of,
    quotas_text,
)
from cluster.cli.documents import Format, write_document, write_table
from cluster.requests.configs import CLIENT_RESOURCE

app = typer.Typer(no_args_is_help=True, help="Limit what clients produce, consume and change, by their client id.")


ClientArgument = Annotated[
    str,
    typer.Argument(
        metavar="CLIENT|default",
        help="A client id, or 'default' for all that have no quota.",
        callback=checked_name,
    ),
]


@app.command("list", epilog=examples("klamm clients list", "klamm clients list -o json"))
@talks_to_cluster()
def list_clients(*, cluster: Cluster) -> None:
    """List the client ids with quotas, and the default of all others.

    Quotas of a user, with a client id or without, are in 'klamm users list'.
    """
    quotas, tool = cluster.ask(lambda connected: quotas_and_tool(connected, "'klamm clients alter'"))
    found = [owned for owned in quotas if owned.user is None]
    if cluster.form is not Format.TABLE:
        documents = [{"client": owned.client, "configs": owned.documents} for owned in found]
        write_document({"clients": documents}, cluster.form)
    elif found:
        write_table(("client", "quotas"), [(owned.client, quotas_text(owned.documents)) for owned in found])
    else:
        say(f"no client id has a quota; {tool} gives one")


@app.command(epilog=examples("klamm clients describe reports", "klamm clients describe default -o json"))
@talks_to_cluster()
def describe(client: ClientArgument, *, cluster: Cluster) -> None:
    """Show the quotas of a client id, or those of all clients without quotas of their own."""
    found = cluster.ask(lambda connected: quotas_of(connected, _owner(client)))
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
    delete_config: DeleteOption = None,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Set the quotas of a client id.

    producer_byte_rate, consumer_byte_rate: bytes per second at each broker.
    request_percentage: percent of one thread of each broker.
    controller_mutation_rate: partitions created and deleted per second.

    A client over its quota is answered with the time for which it is
    throttled, and its next request waits until then. Quotas of users come
    before these: see 'klamm users alter'.
    """
    check = f"klamm clients describe {client}"
    alter_quotas(cluster, _owner(client), config, list(delete_config or ()), check, dry_run=dry_run)


def _owner(client: str) -> QuotaTarget:
    is_default = client == DEFAULT
    return QuotaTarget(CLIENT_RESOURCE, "" if is_default else client, {"client": client}, is_default)
