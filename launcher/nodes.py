"""`klamm zookeeper|controller|broker`: one process of a cluster in the foreground; `klamm health` of one."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from admin.cli.output import examples, say
from admin.cli.shared_options import with_options
from cluster.config.secret_keys import WHY_NOT_TYPED, is_secret_key
from launcher.health import report

app = typer.Typer()

_EXIT_CODES = "0 stopped; 1 it cannot run now, see its log; 2 wrong configuration; 5 disk failed; 6 id in use."
_ADDRESS: Final = "HOST:PORT"
_NODE_OPTIONS: Final[dict[str, tuple[Any, object]]] = {
    name: (Annotated[kind | None, typer.Option(f"--{name.replace('_', '-')}", metavar=metavar, help=text)], None)
    for name, kind, metavar, text in (
        ("config", Path, "FILE", "TOML: id, zookeeper, listen, data, settings, … Default: no file."),
        ("id", int, None, "Id; instead of KLAMM_ID and the file's id."),
        ("zookeeper", str, "HOST:PORT[,…][/CHROOT]", "ZooKeeper."),
        ("listen", str, _ADDRESS, "Listener for clients."),
        ("advertised", str, _ADDRESS, "Address of it that others connect to."),
        ("control_listen", str, _ADDRESS, "Listener for control requests."),
        ("control_advertised", str, _ADDRESS, "Address of it for other processes."),
        ("external_listen", str, _ADDRESS, "Listener for clients outside."),
        ("external_advertised", str, _ADDRESS, "Address of it that they connect to."),
        ("metrics_listen", str, _ADDRESS, "Metrics and health, over HTTP."),
        ("data", str, "DIR[,…]", "Data folders."),
        ("override", list[str], "KEY=VALUE", "A setting, as of kafka-server-start. Repeatable."),
    )
}
"""Of controllers and brokers; by the fields of their files."""


class _Node(NamedTuple):
    """The file of a process, and the fields that options give."""

    config: Path | None
    fields: dict[str, Any]


def _runs_node(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that make up its keyword argument `node`."""

    def make(config: Path | None, override: list[str] | None, **fields: Any) -> _Node:
        return _Node(config, {**fields, "settings": _settings(override)})

    return with_options(command, "node", _NODE_OPTIONS, make)


@app.command(
    epilog=examples(
        "klamm zookeeper --port 2181 --data /var/lib/zookeeper",
        "klamm zookeeper --port 2281 --tls-keystore certs/zookeeper.pem --tls-truststore certs/ca.pem",
    )
)
def zookeeper(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Client port; 0 picks a free one.")] = 2181,
    data: Annotated[Path, typer.Option(help="Folder for snapshots, transactions and logs.")] = Path(".klamm/zookeeper"),
    heap: Annotated[int, typer.Option(min=64, metavar="MB", help="Maximum heap size of the JVM.")] = 1024,
    tls_keystore: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM: private key and certificate. Then TLS only is served.")
    ] = None,
    tls_truststore: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM: the authorities of clients, who need certificates.")
    ] = None,
) -> None:
    """Run a standalone ZooKeeper server in the foreground. Prints its address.

    For development: one server, no ensemble. Needs the extra 'embedded'.
    """
    from deploy.local.zookeeper import ServerSettings, ServerTls, run_foreground

    if (tls_keystore is None) is not (tls_truststore is None):
        raise typer.BadParameter("--tls-keystore and --tls-truststore belong together")
    tls = None if tls_keystore is None or tls_truststore is None else ServerTls(tls_keystore, tls_truststore)
    run_foreground(port, data, ServerSettings(heap_mb=heap, tls=tls), say)


@app.command(
    epilog=examples(
        "klamm controller --config deploy/config/controller.toml",
        "klamm controller --id 1001 --zookeeper zk1:2181/klamm --listen 127.0.0.1:19001 --data /var/lib/klamm",
        exit_codes=_EXIT_CODES,
    )
)
@_runs_node
def controller(*, node: _Node) -> None:
    """Run one controller in the foreground. It competes for `/controller`; one controller is active at a time.

    Options win over KLAMM_… variables, and these over the file. Any of the three is enough.
    docs/configuration.md lists the settings, deploy/config has examples.
    SIGTERM stops it; another controller is elected when its session ends.
    """
    from controller.__main__ import main

    sys.exit(main(node.config, node.fields))


@app.command(
    epilog=examples(
        "klamm broker --config deploy/config/broker.toml",
        "klamm broker --config broker.toml --id 2 --override log.level=debug",
        exit_codes=_EXIT_CODES,
    )
)
@_runs_node
def broker(
    *, rack: Annotated[str | None, typer.Option("--rack", help="Rack of the broker.")] = None, node: _Node
) -> None:
    """Run one broker in the foreground: replicated partition logs, produce and fetch.

    Options win over KLAMM_… variables, and these over the file. Any of the three is enough.
    docs/configuration.md lists the settings, deploy/config has examples.
    SIGTERM starts a controlled shutdown: leaderships move away first.
    """
    from broker_agent.__main__ import main

    sys.exit(main(node.config, {**node.fields, "rack": rack}))


@app.command(
    epilog=examples(
        "klamm health --config /etc/klamm/broker.toml",
        "klamm health --metrics 127.0.0.1:19111",
        exit_codes="0 active, standby or registered; 1 not, see the message; 2 wrong usage.",
    )
)
def health(
    metrics: Annotated[
        str,
        typer.Option(
            "--metrics",
            metavar="HOST:PORT",
            help="Metrics address, https://HOST:PORT with TLS; else KLAMM_METRICS_LISTEN is used.",
        ),
    ] = "",
    config: Annotated[
        str, typer.Option("--config", metavar="FILE", help="The file of the process, for its metrics_listen.")
    ] = "",
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Longest wait for the answer.")] = 5.0,
) -> None:
    """Check one controller or broker by its metrics port: active, standby or registered.

    For health checks of containers: takes under 0.1 s of CPU. A process whose event loop is stuck fails it, as does one
    without ZooKeeper.
    """
    sys.exit(report(metrics, config, timeout))


def _settings(overrides: Sequence[str] | None) -> dict[str, str] | None:
    """Settings by key. Raises BadParameter for what is not KEY=VALUE."""
    for given in overrides or ():
        if not given.partition("=")[1] or given.startswith("="):
            raise typer.BadParameter(f"{given!r}: must be KEY=VALUE", param_hint="--override")
    settings = {key: value for key, _, value in (given.partition("=") for given in overrides or ())}
    for key in filter(is_secret_key, settings):
        raise typer.BadParameter(f"{key}: {WHY_NOT_TYPED}", param_hint="--override")
    return settings or None
