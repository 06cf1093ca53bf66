"""`klamm cluster` and `klamm brokers`: who is there, and who is in office."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from admin.cli.options import (
    DEFAULT_DATA,
    BootstrapOption,
    DataOption,
    Format,
    FormatOption,
    TimeoutOption,
    connect,
    run,
)
from admin.cli.output import write

if TYPE_CHECKING:
    from cluster.requests import DescribeClusterResponse

cluster_app = typer.Typer(no_args_is_help=True, help="Look at the whole cluster.")
brokers_app = typer.Typer(no_args_is_help=True, help="Look at the brokers.")

_BROKER_COLUMNS = ("id", "address", "rack", "epoch", "state")


@cluster_app.command()
def describe(
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DATA,
    timeout: TimeoutOption = 30,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show the cluster id, the controller in office and the live brokers."""
    described = run(_ask(bootstrap, data, timeout))
    controller = {
        "id": described.controller_id,
        "address": described.controller_address,
        "epoch": described.controller_epoch,
    }
    document = {"cluster_id": described.cluster_id, "controller": controller, "brokers": _brokers(described)}
    if form is Format.TABLE:
        typer.echo(f"cluster {described.cluster_id}")
        typer.echo("controller {id} at {address}, epoch {epoch}\n".format_map(controller))
    write(document, form, _BROKER_COLUMNS, ([b[c] for c in _BROKER_COLUMNS] for b in _brokers(described)))


@brokers_app.command("list")
def list_(
    bootstrap: BootstrapOption = None,
    data: DataOption = DEFAULT_DATA,
    timeout: TimeoutOption = 30,
    form: FormatOption = Format.TABLE,
) -> None:
    """List the live brokers."""
    brokers = _brokers(run(_ask(bootstrap, data, timeout)))
    write({"brokers": brokers}, form, _BROKER_COLUMNS, ([b[c] for c in _BROKER_COLUMNS] for b in brokers))


async def _ask(bootstrap: str | None, data: Path, timeout_s: float) -> "DescribeClusterResponse":
    """The controller's own answer: it alone knows every broker's epoch and state for certain."""
    async with connect(bootstrap, data, timeout_s) as client:
        described = await client.describe_cluster(require_controller=True)
        return await client.describe_node(described.controller_address, int(timeout_s * 1000))


def _brokers(described: "DescribeClusterResponse") -> list[dict[str, Any]]:
    return [
        {"id": b.id, "address": b.endpoint.address, "rack": b.rack, "epoch": b.epoch, "state": b.state}
        for b in sorted(described.brokers, key=lambda b: b.id)
    ]
