"""`klamm up|down|status`: the embedded cluster of a folder."""

import asyncio
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from admin.cli.options import DEFAULT_DATA, DataOption, FormatOption
from admin.cli.output import say, write
from admin.cli.parsing import parse_configs
from cluster.errors import StartupError
from cluster.process.documents import Format

if TYPE_CHECKING:
    from deploy.local.cluster import LocalCluster

_WATCH_S = 0.5
_SetAclOption = Annotated[
    bool, typer.Option("--zookeeper-set-acl", help="Let nodes in ZooKeeper belong to this cluster; others may read.")
]
_SOME_NODE = {"id": 1, "zookeeper": "localhost:2181", "listen": "localhost:0", "data": "data"}
"""What a configuration needs besides its settings."""


def up(
    *,
    controllers: Annotated[int | None, typer.Option(min=1, help="Default: as before; 3 in a new folder.")] = None,
    brokers: Annotated[int | None, typer.Option(min=1, help="Default: as before; 3 in a new folder.")] = None,
    data: DataOption = DEFAULT_DATA,
    zookeeper: Annotated[str | None, typer.Option(metavar="HOST:PORT[/CHROOT]", help="Use this ZooKeeper.")] = None,
    zookeeper_set_acl: _SetAclOption = False,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of every process from its next start on; may be repeated."),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return when the cluster serves.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds until it must serve.")] = 120,
) -> None:
    """Start a cluster: a real ZooKeeper, controllers 1001… and brokers 1…, each a process of its own.

    In the foreground it watches over them until Ctrl-C, which ends all. On a
    folder with a cluster it starts those that do not run, on their data.
    """
    from cluster.process.config import load_config
    from deploy.local.cluster import LocalCluster
    from launcher.serving import wait_until_serving

    settings = parse_configs(config)
    # Mistakes are told here, all at once, and not by processes that do not start.
    load_config(None, {**_SOME_NODE, **({} if zookeeper is None else {"zookeeper": zookeeper}), "settings": settings})
    cluster = LocalCluster.create_or_open(
        data,
        controllers=controllers,
        brokers=brokers,
        zookeeper=zookeeper,
        settings=settings,
        owns_nodes=zookeeper_set_acl,
    )
    say(f"starting the cluster in {cluster.folder} …")
    started = time.monotonic()
    if detach:
        try:
            cluster.start_all()
            wait_until_serving(cluster, timeout)
        except StartupError:
            say("what did start goes on: 'klamm status' shows it, 'klamm down' ends it")
            raise
        _announce(cluster, time.monotonic() - started, data)
        return
    # SIGTERM, which 'klamm down' sends, ends like Ctrl-C, which a shell makes background jobs ignore.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    try:
        cluster.start_all()
        cluster.claim_supervision()
        wait_until_serving(cluster, timeout)
        _announce(cluster, time.monotonic() - started, data)
        say("Ctrl-C ends it")
        _watch(cluster)
    except KeyboardInterrupt:
        say("stopping …")
    finally:
        cluster.stop_all()


def down(data: DataOption = DEFAULT_DATA) -> None:
    """End the processes of a cluster, and nothing else; its data stays."""
    from deploy.local.cluster import LocalCluster

    cluster = LocalCluster.open(data)
    running = [m.name for m in cluster.state.members if cluster.state_of(m.name) != "stopped"]
    cluster.stop_all()
    say(f"stopped {', '.join(running)}" if running else "nothing was running")


def status(data: DataOption = DEFAULT_DATA, form: FormatOption = Format.TABLE) -> None:
    """Show each process of a cluster, who is active, and where the logs are. Works on half-dead clusters."""
    from deploy.local.cluster import LocalCluster
    from launcher.serving import describe_status

    document = asyncio.run(describe_status(LocalCluster.open(data)))
    columns = ("role", "id", "pid", "address", "metrics", "state", "active", "epoch")
    write(document, form, columns, _rows(document, columns))


def _rows(document: dict[str, Any], columns: tuple[str, ...]) -> list[list[object]]:
    zookeeper = {"address": document["zookeeper"]} | {c: document[f"zookeeper_{c}"] for c in ("pid", "state")}
    members = [{"role": "zookeeper", **zookeeper}]
    members += [{"role": "controller", **c} for c in document["controllers"]]
    members += [{"role": "broker", **b} for b in document["brokers"]]
    return [["yes" if m.get(c) is True else ("" if m.get(c) is False else m.get(c)) for c in columns] for m in members]


def _announce(cluster: "LocalCluster", seconds: float, data: Path) -> None:
    say(f"serving after {seconds:.1f} s; clients find it with --bootstrap {cluster.bootstrap[0]} or --data {data}")


def _watch(cluster: "LocalCluster") -> None:
    """Start again what gave up by itself, and say what else ended."""
    states = {m.name: cluster.state_of(m.name) for m in cluster.state.members}
    while True:
        for name in cluster.restart_exited():
            say(f"{name} gave up and was started again: {cluster.log_tail(name, lines=1)}")
        for name, before in states.items():
            now = cluster.state_of(name)
            if now != before:
                say(f"{name}: {before} → {now}")
            states[name] = now
        time.sleep(_WATCH_S)
