"""Options of `klamm audit run` and `verify` that give heads of logs: from a file, or from the cluster itself."""

from pathlib import Path
from typing import Annotated

import typer

from audit.commands.joined import Joined
from state_log.heads_file import GivenHead, HeadsError, read_heads_file

HeadsOption = Annotated[
    Path | None,
    typer.Option(
        "--heads", metavar="FILE", exists=True, dir_okay=False, help="Heads of the logs, from 'klamm audit heads'."
    ),
]
ZooKeeperOption = Annotated[
    str, typer.Option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="Read the heads of the logs from ZooKeeper.")
]
BootstrapOption = Annotated[
    str, typer.Option("--bootstrap", metavar="HOST:PORT[,…]", help="Ask controllers and brokers for their heads.")
]
CommandConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Properties of a client of a secured cluster. For --bootstrap: security.protocol, ssl.*, sasl.* \\[env: "
        "KLAMM_COMMAND_CONFIG]. For --zookeeper: zookeeper.ssl.*, java.security.auth.login.config.",
    ),
]
RequireHeadsOption = Annotated[
    bool,
    typer.Option("--require-heads", help="Incomplete unless the newest log of each node has a head."),
]


def given_heads(
    context: typer.Context, file: Path | None, zookeeper: str, bootstrap: str, command_config: Path | None
) -> tuple[GivenHead, ...]:
    """The heads that the options name."""
    try:
        given = () if file is None else read_heads_file(file)
    except HeadsError as error:
        raise typer.BadParameter(str(error), param_hint="--heads") from None
    if not zookeeper and not bootstrap:
        return given
    joined: Joined = context.obj
    return (*given, *joined.read_heads(zookeeper, bootstrap, command_config))
