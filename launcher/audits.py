"""`klamm audit`: the commands of the audit, after finding a Java for Spark, and what reads the heads of a cluster."""

import os
import sys
from typing import TYPE_CHECKING

import typer

from admin.cli.output import examples
from audit import cli
from audit.commands.heads_options import BootstrapOption, ZooKeeperOption
from deploy.local.java import find_java, spark_environment, user_shim_folder
from launcher.installation import require_extras

if TYPE_CHECKING:
    from state_log.heads_file import GivenHead

app = typer.Typer(no_args_is_help=True, help=cli.app.info.help)
# Beside the audit's own commands, without changing `cli.app`, which runs alone where there is no launcher.
app.registered_commands += cli.app.registered_commands


@app.callback()
def prepare(context: typer.Context) -> None:
    """Find a Java for `run`, which starts Spark. All but `heads` need the extra `audit`."""
    if "--help" in sys.argv:
        return
    # The audit itself asks neither ZooKeeper nor the nodes.
    context.obj = _read_heads
    if context.invoked_subcommand != "heads":
        require_extras("audit")
    if context.invoked_subcommand == "run":
        java = find_java()
        os.environ.update(spark_environment(java, user_shim_folder(java)))


@app.command(
    epilog=examples(
        "klamm audit heads --zookeeper localhost:2181 > heads.json",
        "klamm audit heads --bootstrap localhost:9092 > heads.json",
        exit_codes="0 done; 1 not reachable; 2 wrong usage.",
    )
)
def heads(zookeeper: ZooKeeperOption = "", bootstrap: BootstrapOption = "") -> None:
    """Write where the state-change logs of a cluster end, as JSON.

    ZooKeeper has what the nodes wrote last, ten seconds ago or less, also
    of nodes that are down; the nodes themselves know their present heads.
    For 'klamm audit run --heads' and 'verify --heads', which can also read
    them directly.
    """
    from launcher.log_heads import write_heads

    if not zookeeper and not bootstrap:
        raise typer.BadParameter("give --zookeeper or --bootstrap", param_hint="--zookeeper")
    write_heads(zookeeper, bootstrap)


def _read_heads(zookeeper: str, bootstrap: str) -> list["GivenHead"]:
    from launcher.log_heads import read_heads

    return read_heads(zookeeper, bootstrap)
