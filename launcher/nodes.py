"""`klamm zookeeper|controller|broker`: one long-running process in the foreground."""

import sys
from pathlib import Path
from typing import Annotated

import typer

_ConfigOption = Annotated[
    Path, typer.Option("--config", metavar="FILE", help="TOML: id, zookeeper, listen, data, settings, …")
]


def zookeeper(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = 2181,
    data: Annotated[Path, typer.Option(help="Folder of its data and logs.")] = Path(".klamm/zookeeper"),
    heap: Annotated[int, typer.Option(min=64, metavar="MB", help="Ceiling of the server's memory.")] = 1024,
) -> None:
    """Run the embedded ZooKeeper server. Prints its address."""
    from deploy.local.zookeeper import ServerSettings, run_foreground

    run_foreground(port, data, ServerSettings(heap_mb=heap))


def controller(config: _ConfigOption) -> None:
    """Run one controller process."""
    from controller.__main__ import main

    sys.exit(main(config))


def broker(config: _ConfigOption) -> None:
    """Run one broker agent."""
    from broker_agent.__main__ import main

    sys.exit(main(config))
