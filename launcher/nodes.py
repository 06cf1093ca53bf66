"""`klamm zookeeper|controller|broker`: one process of a cluster in the foreground."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from admin.cli.output import examples, say

app = typer.Typer()

_EXIT_CODES = "0 stopped; 1 it cannot run now, see its log; 2 wrong configuration; 5 disk failed; 6 id in use."
_ConfigOption = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="TOML: id, zookeeper, listen, data, settings, …")
]


@app.command(epilog=examples("klamm zookeeper --port 2181 --data /var/lib/zookeeper"))
def zookeeper(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Client port; 0 picks a free one.")] = 2181,
    data: Annotated[Path, typer.Option(help="Folder for snapshots, transactions and logs.")] = Path(".klamm/zookeeper"),
    heap: Annotated[int, typer.Option(min=64, metavar="MB", help="Maximum heap size of the JVM.")] = 1024,
) -> None:
    """Run a standalone ZooKeeper server in the foreground. Prints its address.

    For development: one server, no ensemble. Needs the extra 'embedded'.
    """
    from deploy.local.zookeeper import ServerSettings, run_foreground

    run_foreground(port, data, ServerSettings(heap_mb=heap), say)


@app.command(epilog=examples("klamm controller --config deploy/config/controller.toml", exit_codes=_EXIT_CODES))
def controller(config: _ConfigOption) -> None:
    """Run one controller in the foreground. It competes for `/controller`; one controller is active at a time.

    docs/configuration.md lists the settings, deploy/config has examples.
    SIGTERM stops it; another controller is elected when its session ends.
    """
    from controller.__main__ import main

    sys.exit(main(config))


@app.command(epilog=examples("klamm broker --config deploy/config/broker.toml", exit_codes=_EXIT_CODES))
def broker(config: _ConfigOption) -> None:
    """Run one broker in the foreground: replicated partition logs, produce and fetch.

    docs/configuration.md lists the settings, deploy/config has examples.
    SIGTERM starts a controlled shutdown: leaderships move away first.
    """
    from broker_agent.__main__ import main

    sys.exit(main(config))
