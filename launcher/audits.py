"""`klamm audit`: the commands of the audit, after finding a Java for Spark, and what reads the heads of a cluster."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from admin.cli.output import examples
from audit import cli
from audit.cli import FormatOption, LimitOption, LogDirOption, TimezoneOption, time_zone
from audit.commands.heads_options import BootstrapOption, CommandConfigOption, ZooKeeperOption
from audit.commands.joined import Joined
from cluster.cli.documents import Format
from deploy.local.java import find_java, spark_environment, user_shim_folder
from launcher.installation import require_extras

if TYPE_CHECKING:
    from audit.batches.decisions import Replayer
    from state_log.heads_file import GivenHead

_WITHOUT_EXTRA: Final = ("heads", "replay")
app = typer.Typer(no_args_is_help=True, help=cli.app.info.help)
# Beside the audit's own commands, without changing `cli.app`, which runs alone where there is no launcher.
app.registered_commands += cli.app.registered_commands


@app.callback()
def prepare(context: typer.Context) -> None:
    """Find a Java for `run`, which starts Spark. All but `heads` and `replay` need the extra `audit`."""
    if "--help" in sys.argv:
        return
    context.obj = Joined(_read_heads, _make_replayer)
    if context.invoked_subcommand not in _WITHOUT_EXTRA:
        require_extras("audit")
    if context.invoked_subcommand == "run":
        java = find_java()
        os.environ.update(spark_environment(java, user_shim_folder(java)))


@app.command(
    epilog=examples(
        "klamm audit heads --zookeeper localhost:2181 > heads.json",
        "klamm audit heads --zookeeper zk-1:2281/klamm --command-config owner.properties > heads.json",
        "klamm audit heads --bootstrap localhost:9092 > heads.json",
        "klamm audit heads --bootstrap broker-1:9092 --command-config admin.properties > heads.json",
        exit_codes="0 done; 1 not reachable; 2 wrong usage.",
    )
)
def heads(
    zookeeper: ZooKeeperOption = "", bootstrap: BootstrapOption = "", command_config: CommandConfigOption = None
) -> None:
    """Write where the state-change logs of a cluster end, as JSON.

    ZooKeeper has what the nodes wrote last, ten seconds ago or less, also
    of nodes that are down; the nodes themselves know their present heads.
    For 'klamm audit run --heads' and 'verify --heads', which can also read
    them directly.
    """
    from launcher.log_heads import write_heads

    if not zookeeper and not bootstrap:
        raise typer.BadParameter("give --zookeeper or --bootstrap", param_hint="--zookeeper")
    write_heads(zookeeper, bootstrap, command_config)


@app.command(
    epilog=examples(
        "klamm audit replay --log-dir .klamm/state-changes",
        "klamm audit replay --log-dir /var/log/kafka-all --timezone Europe/Berlin -o json",
        exit_codes="0 clean; 2 wrong usage; 3 findings; 4 incomplete.",
    )
)
def replay(
    log_dir: LogDirOption,
    *,
    timezone: TimezoneOption = "UTC",
    form: FormatOption = Format.TABLE,
    limit: LimitOption = 20,
) -> None:
    """Replay what controllers decided, and find what this klamm would have decided otherwise.

    Every election, ISR change and step of a reassignment in the logs is
    decided once more by the code of the controller, from the state that the
    log shows before it. Where the log lacks what a decision rested on, the
    result is incomplete and names it. Needs no Spark, no Java and no cluster.
    """
    from launcher.decision_replays import show_replay

    raise typer.Exit(show_replay(log_dir, time_zone(timezone), form, limit))


def _make_replayer() -> "Replayer":
    from launcher.decision_replays import StreamedReplay

    return StreamedReplay()


def _read_heads(zookeeper: str, bootstrap: str, command_config: Path | None) -> list["GivenHead"]:
    from launcher.log_heads import read_heads

    return read_heads(zookeeper, bootstrap, command_config=command_config)
