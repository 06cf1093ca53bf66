"""`klamm up|down|status`: a cluster of processes on this machine."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from admin.cli.contexts_file import DEFAULT_DATA
from admin.cli.options import DataOption, FormatOption
from admin.cli.output import examples, say, write
from admin.cli.parsing import parse_configs
from cluster.cli.documents import Format
from cluster.config.config import load_config
from cluster.model.errors import StartupError
from cluster.model.exit_codes import ExitCode
from cluster.process.local_cluster import read_cluster_state
from deploy.local.cluster import LocalCluster
from deploy.local.cluster_folder import ClusterFolder
from deploy.local.java import find_java
from deploy.local.kafka_jars import find_kafka_jars
from deploy.local.kafka_settings import known_to_klamm
from deploy.local.ports import LAST_FIRST_PORT
from deploy.local.zookeeper_jars import find_jars
from launcher.serving import describe_status, shortcomings, wait_until_up

app = typer.Typer()

_WATCH_S = 0.5
_SetAclOption = Annotated[
    bool, typer.Option("--zookeeper-set-acl", help="Create znodes with ACLs: this cluster may write, others only read.")
]
_PortOption = Annotated[
    int | None,
    typer.Option(min=1024, max=LAST_FIRST_PORT, help="ZooKeeper's port; broker 1 has the next. Default: free ports."),
]
_SecureOption = Annotated[
    bool,
    typer.Option(
        "--secure", help="TLS at every port, with certificates for nodes and clients, and rights; ZooKeeper too."
    ),
]
_KafkaOption = Annotated[
    str | None, typer.Option(metavar="VERSION", help="Run brokers of Apache Kafka: 2.4.1, 2.8.2, 3.3.2 or 3.9.1.")
]
_LogDirsOption = Annotated[
    int | None, typer.Option(min=1, max=16, help="Log directories of each broker. Default: those there are, or 1.")
]
_SOME_NODE = {"id": 1, "zookeeper": "localhost:2181", "listen": "localhost:0", "data": "data"}
"""The fields that a configuration must have, to validate settings."""


@app.command(
    epilog=examples(
        "klamm up --detach",
        "klamm up --brokers 5 --config min.insync.replicas=2 --data /tmp/klamm",
        "klamm up --brokers 6 --racks eu-1,eu-2,eu-3 --port 9091   (broker 1 at 9092, broker 2 at 9093, …)",
        "klamm up --secure --detach   (certificates are in .klamm/certs; commands find theirs there)",
        "klamm up --kafka 3.9.1 --controllers 2 --brokers 3   (real Kafka brokers, klamm's controllers)",
        "klamm up --kafka 3.9.1 --secure --config klamm.takeover=never   (to try 'klamm adopt --data .klamm')",
        exit_codes="0 up, or stopped by Ctrl-C; 1 not up in time; 2 wrong usage.",
    )
)
def up(
    *,
    controllers: Annotated[
        int | None, typer.Option(min=1, help="Number of controllers. Default: as before, or 3 in a new cluster.")
    ] = None,
    brokers: Annotated[
        int | None, typer.Option(min=1, help="Number of brokers. Default: as before, or 3 in a new cluster.")
    ] = None,
    data: DataOption = DEFAULT_DATA,
    zookeeper: Annotated[str | None, typer.Option(metavar="HOST:PORT[/CHROOT]", help="Use this ZooKeeper.")] = None,
    zookeeper_set_acl: _SetAclOption = False,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of every process, from its next start. Repeatable."),
    ] = None,
    racks: Annotated[
        str | None, typer.Option(metavar="RACK,…", help="Racks over which brokers are spread, in order.")
    ] = None,
    log_dirs: _LogDirsOption = None,
    port: _PortOption = None,
    kafka: _KafkaOption = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure", help="TLS at every port, with certificates for nodes and clients, and rights; ZooKeeper too."
        ),
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return once the cluster is up.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait until the cluster is up.")] = 120,
) -> None:
    """Start a cluster on this machine: ZooKeeper, controllers 1001… and brokers 1…, one process each.

    In the foreground it restarts processes that exit, and Ctrl-C stops all.
    If the data folder has a cluster already, its missing processes are
    started on their data. With --kafka the brokers are Apache Kafka's, whose
    jars (about 40 MB) are fetched once; keys of --config that klamm does not
    know are for them. With --secure an authority and a certificate for each
    process are made, and whoever connects needs one of it. Needs the extra
    'embedded'.
    """
    settings = parse_configs(config)
    _check_settings(data, kafka, zookeeper, settings)
    if zookeeper_set_acl and _is_kafka(data, kafka):
        raise typer.BadParameter("is for klamm's own brokers, not for Kafka's", param_hint="--zookeeper-set-acl")
    _fetch(LocalCluster.runs_zookeeper(data, zookeeper), kafka)
    cluster = LocalCluster.create_or_open(
        data,
        controllers=controllers,
        brokers=brokers,
        zookeeper=zookeeper,
        settings=settings,
        owns_nodes=zookeeper_set_acl,
        racks=_parse_racks(racks),
        first_port=port or 0,
        kafka=kafka,
        log_dirs=log_dirs,
        is_secured=secure,
    )
    say(f"starting the cluster in {cluster.folder} …")
    (_start_detached if detach else _run_in_foreground)(cluster, data, timeout)


@app.command(epilog=examples("klamm down", "klamm down --data /tmp/klamm"))
def down(data: DataOption = DEFAULT_DATA) -> None:
    """Stop the processes of a cluster. Its data stays; 'klamm up' starts it again."""
    cluster = LocalCluster.open(data)
    running = [m.name for m in cluster.state.members if cluster.state_of(m.name) != "stopped"]
    cluster.stop_all()
    say(f"stopped {', '.join(running)}" if running else "no process was running")


@app.command(
    epilog=examples(
        "klamm status",
        "klamm status -o json",
        "until klamm status; do sleep 1; done   (wait until all of it runs)",
        exit_codes="0 all is running; 1 no cluster there; 2 wrong usage; 3 something is not running.",
    )
)
def status(data: DataOption = DEFAULT_DATA, form: FormatOption = Format.TABLE) -> None:
    """Show every process of a cluster: state, pid, addresses, and which controller is active.

    Also works while processes are down. The active controller's state is
    active. A broker is unregistered if that controller does not know it; a
    process that runs without an answer is unresponsive. -o json has the
    paths of the logs.
    """
    document = asyncio.run(describe_status(LocalCluster.open(data)))
    columns = ("role", "id", "pid", "address", "metrics", "state", "epoch")
    write(document, form, columns, _rows(document, columns))
    found = shortcomings(document)
    if found:
        say("; ".join(found))
        raise typer.Exit(ExitCode.FINDINGS)


def _start_detached(cluster: LocalCluster, data: Path, timeout: float) -> None:
    started = time.monotonic()
    try:
        cluster.start_all()
        wait_until_up(cluster, timeout)
    except StartupError:
        if any(cluster.state_of(member.name) != "stopped" for member in cluster.state.members):
            where = "" if data == DEFAULT_DATA else f" --data {data}"
            say(f"some processes are running: see 'klamm status{where}', stop them with 'klamm down{where}'")
        raise
    _announce(cluster, time.monotonic() - started, data)


def _run_in_foreground(cluster: LocalCluster, data: Path, timeout: float) -> None:
    started = time.monotonic()
    # SIGTERM, sent by 'klamm down', stops like Ctrl-C, which shells make background jobs ignore.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    try:
        cluster.start_all()
        cluster.claim_supervision()
        wait_until_up(cluster, timeout)
        _announce(cluster, time.monotonic() - started, data)
        say("Ctrl-C stops it")
        _watch(cluster)
    except KeyboardInterrupt:
        say("stopping …")
    finally:
        cluster.stop_all()


def _check_settings(data: Path, kafka: str | None, zookeeper: str | None, settings: dict[str, str]) -> None:
    """Here, so that all errors are reported at once and not by processes that fail to start. Raises ConfigError."""
    of_klamm = known_to_klamm(settings) if _is_kafka(data, kafka) else settings
    load_config(None, {**_SOME_NODE, **({} if zookeeper is None else {"zookeeper": zookeeper}), "settings": of_klamm})
    if of_klamm.keys() < settings.keys():
        say(f"for Kafka's brokers only: {', '.join(sorted(settings.keys() - of_klamm.keys()))}")


def _fetch(runs_zookeeper: bool, kafka: str | None) -> None:
    """Fetch what is missing, or name it, before anything is written. Raises StartupError."""
    if runs_zookeeper or kafka is not None:
        find_java()
    if runs_zookeeper:
        find_jars(say)
    if kafka is not None:
        find_kafka_jars(kafka, say)


def _is_kafka(data: Path, kafka: str | None) -> bool:
    """Whether the cluster of a directory has brokers of Kafka, or the one that would be created there."""
    return bool(read_cluster_state(data).kafka) if ClusterFolder(data).has_cluster else kafka is not None


def _parse_racks(text: str | None) -> list[str]:
    racks = [] if text is None else [rack.strip() for rack in text.split(",")]
    if not all(racks):
        raise typer.BadParameter(f"{text!r}: must be names like eu-1,eu-2", param_hint="--racks")
    return racks


def _rows(document: dict[str, Any], columns: tuple[str, ...]) -> list[list[object]]:
    zookeeper = {"address": document["zookeeper"]} | {c: document[f"zookeeper_{c}"] for c in ("pid", "state")}
    members = [{"role": "zookeeper", **zookeeper}]
    members += [{"role": "controller", **c} for c in document["controllers"]]
    members += [{"role": "broker", **b} for b in document["brokers"]]
    shown = [m | {"state": "active"} if m.get("active") else m for m in members]
    return [[m.get(c) for c in columns] for m in shown]


def _announce(cluster: LocalCluster, seconds: float, data: Path) -> None:
    say(f"cluster is up after {seconds:.1f} s; connect with --bootstrap {cluster.bootstrap[0]} or --data {data}")
    if cluster.state.kafka:
        addresses = ",".join(member.address for member in cluster.state.kafka_brokers)
        say(f"Kafka {cluster.state.kafka}'s clients and tools connect with --bootstrap-server {addresses}")
    if cluster.client_properties is not None:
        where = f"--bootstrap {cluster.bootstrap[0]} --command-config {cluster.client_properties}"
        say(f"clients elsewhere need a certificate: {where}")
    if cluster.user_properties is not None:
        addresses = ",".join(member.sasl_address for member in cluster.state.kafka_brokers)
        say(f"users with passwords (SCRAM): --bootstrap-server {addresses} --command-config {cluster.user_properties}")
    say(f"logs are in {cluster.folder / 'logs'}")


def _watch(cluster: LocalCluster) -> None:
    """Restart processes that exited by themselves, and report every change of state."""
    states = {m.name: cluster.state_of(m.name) for m in cluster.state.members}
    while True:
        for name in cluster.restart_exited():
            say(f"{name} exited and was restarted: {cluster.log_tail(name, lines=1)}")
        for name, before in states.items():
            now = cluster.state_of(name)
            if now != before:
                say(f"{name}: {before} → {now}")
            states[name] = now
        time.sleep(_WATCH_S)
