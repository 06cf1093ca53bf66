"""`klamm doctor`: what is wrong with this machine, this installation and this cluster, and what to do about it."""

import contextlib
import resource
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Final

import typer
from msgspec import to_builtins
from msgspec.structs import replace

from admin.cli.clusters import examine
from admin.cli.metrics_text import connection_to
from admin.cli.options import Cluster, run, talks_to_cluster
from admin.cli.output import examples, say, say_wait, write
from admin.cli.target import parse_addresses
from cluster.cli.typed_command import as_typed
from cluster.config.config import host_and_port, load_config
from cluster.model.errors import ClusterError, ConfigError, StartupError
from cluster.model.exit_codes import ExitCode
from cluster.model.printable import counted
from cluster.process.identity import GONE, RUNNING, state_of
from cluster.process.local_cluster import LocalClusterState, Member, client_tls_of, read_cluster_state
from cluster.tls.contexts import client_context
from cluster.tls.settings import TlsSettings
from deploy.local.java import find_java
from deploy.local.processes import is_free
from deploy.local.zookeeper import is_serving
from launcher import doctor_checks as checks
from launcher.doctor_checks import Diagnosis, Level
from launcher.zookeeper_security import open_znodes_of

app = typer.Typer()

_LIBRARIES: Final = ("grpcio", "kazoo", "msgspec", "protobuf", "pydantic", "uvloop")
_HTTP_TIMEOUT_S: Final = 2.0
_SERVER_TIMEOUT_S: Final = 2.0
_AT_ONCE: Final = 32


@app.command(
    epilog=examples(
        "klamm doctor",
        "klamm doctor --bootstrap broker-1:9092 --metrics broker-1:9404",
        "klamm doctor --config /etc/klamm/broker.toml --zookeeper zk-1:2181,zk-2:2181",
        exit_codes="0 no problem; 2 wrong usage; 3 problems found.",
    )
)
@talks_to_cluster(timeout=10)
def doctor(
    *,
    config: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Check the configuration of a node. Repeatable.")
    ] = None,
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOST:PORT[,…]", help="Check these ZooKeeper servers, too.")
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Compare the clock of the node that serves metrics here; https://HOST:PORT with TLS. Repeatable.",
        ),
    ] = None,
    cluster: Cluster,
) -> None:
    """Check this machine, the installation and the cluster: what is wrong, and what to do.

    Java, versions, open files, disk, clocks, configuration files, ZooKeeper,
    processes and ports of a cluster on this machine, and whether the cluster
    is healthy. Nothing is changed.
    """
    state = _local_state(cluster)
    servers = _servers(zookeeper, config or (), state, cluster.target.data)
    nodes = [address for text in metrics or () for address in parse_addresses(text, "--metrics")]
    if state is not None:
        nodes += [state.metrics_of(m) for m in state.nodes if state_of(m.process) == RUNNING]
    tls = cluster.target.tls_context()
    # All who may be silent are asked at once, in the time that the cluster has.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        machine = pool.submit(lambda: list(_machine(cluster.timeout)))
        serving = pool.map(partial(_serves, timeout_s=min(_SERVER_TIMEOUT_S, cluster.timeout)), servers.items())
        skews = pool.map(partial(_skew, timeout_s=min(_HTTP_TIMEOUT_S, cluster.timeout), tls=tls), nodes)
        health = [_health(cluster)] if cluster.target.bootstrap is not None or state is not None else []
        found = [*machine.result(), *_configs(config or ())]
        found += [checks.check_zookeeper(server, serves) for server, serves in zip(servers, serving, strict=True)]
        found += _acls([*(config or ()), *_configs_of(state, cluster.target.data)], cluster.timeout)
        if state is not None:
            found += [_member(member, cluster.target.data) for member in state.members]
            found.append(_disk(cluster.target.data))
        found += [*(skew for skew in skews if skew is not None), *health]
    found = [replace(d, detail=as_typed(d.detail), remedy=as_typed(d.remedy)) for d in found]
    rows = [(d.level, d.check, f"{d.detail}{'; ' if d.remedy else ''}{d.remedy}") for d in found]
    document = {"checks": to_builtins(found), "problems": sum(d.level is Level.PROBLEM for d in found)}
    write(document, cluster.form, ("result", "check", "detail"), rows)
    say(f"{counted(len(found), 'check')}: {counted(document['problems'], 'problem')}")
    if document["problems"]:
        raise typer.Exit(ExitCode.FINDINGS)


def _machine(timeout_s: float) -> Iterator[Diagnosis]:
    yield checks.check_python(sys.version_info[:3], sys.executable)
    yield checks.check_versions(version("klamm"), {name: _version(name) for name in _LIBRARIES})
    try:
        java = find_java()
        yield Diagnosis("java", Level.OK, f"Java {java.major} at {java.executable}")
    except StartupError as error:
        # Only the embedded ZooKeeper and the audit need it.
        yield Diagnosis("java", Level.WARNING, str(error), "only 'klamm up', 'zookeeper', 'demo' and 'audit' need it")
    yield checks.check_open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield checks.check_synchronised(_ntp(min(_HTTP_TIMEOUT_S, timeout_s)))


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _ntp(timeout_s: float) -> str | None:
    command = ["timedatectl", "show", "--property=NTPSynchronized", "--value"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _configs(files: list[Path] | tuple[Path, ...]) -> Iterator[Diagnosis]:
    for file in files:
        try:
            config = load_config(file, {})
        except ConfigError as error:
            yield from (Diagnosis("config", Level.PROBLEM, f"{file}: {line}", "correct it") for line in error.errors)
            continue
        yield Diagnosis("config", Level.OK, f"{file}: node {config.id}")
        yield from (_disk(Path(folder)) for folder in config.data)


def _configs_of(state: LocalClusterState | None, data: Path) -> list[Path]:
    """The configuration of one node of a cluster on this machine: all have the same ZooKeeper."""
    nodes = [] if state is None else state.nodes
    return [file for node in nodes if (file := data / "config" / f"{node.name}.toml").exists()][:1]


def _acls(files: list[Path], timeout_s: float) -> Iterator[Diagnosis]:
    """Check the ACLs of each ZooKeeper once."""
    found = dict.fromkeys(_open_znodes(file, timeout_s) for file in files)
    yield from (diagnosis for diagnosis in found if diagnosis is not None)


def _open_znodes(file: Path, timeout_s: float) -> Diagnosis | None:
    """Check the ACLs in ZooKeeper as the node of this configuration sees them; None if it sets none."""
    try:
        config = load_config(file, {})
        if not config.settings.zookeeper_set_acl:
            return None
        found = run(open_znodes_of(config, timeout_s))
        return checks.check_open_znodes(config.zookeeper, found, governs_kafka=config.settings.governs_kafka)
    except ConfigError:
        # A finding of its own.
        return None
    except (ClusterError, TimeoutError) as error:
        why = str(error) or f"not read within {timeout_s:g} s; --timeout changes it"
        return Diagnosis("znode ACLs", Level.WARNING, f"{file}: {why}", "see what is said of zookeeper")


def _disk(folder: Path) -> Diagnosis:
    """Check the disk of a folder; if it does not exist yet, of the one in which it will be made."""
    folder = folder.resolve()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    usage = shutil.disk_usage(existing)
    return checks.check_disk(str(folder), usage.free, usage.total)


def _local_state(cluster: Cluster) -> LocalClusterState | None:
    """The cluster on this machine, None if there is none or another is meant."""
    if cluster.target.bootstrap is not None:
        return None
    try:
        return read_cluster_state(cluster.target.data)
    except StartupError as error:
        say(f"no cluster is checked: {error}")
        return None


def _servers(
    named: str | None, files: list[Path] | tuple[Path, ...], state: LocalClusterState | None, data: Path
) -> dict[str, TlsSettings | None]:
    """The addresses of all ZooKeeper servers that are named anywhere, each with how it is spoken to under TLS.

    What --zookeeper names is spoken to as a file says of the same address, or else without TLS.
    """
    connects: list[tuple[str, TlsSettings | None]] = []
    for file in files:
        try:
            config = load_config(file, {})
        except ConfigError:
            continue
        connects.append((config.zookeeper, config.settings.zookeeper_tls))
    if state is not None:
        connects.append((state.zookeeper, client_tls_of(data, state)))
    if named is not None:
        connects.append((",".join(parse_addresses(named, "--zookeeper")), None))
    found: dict[str, TlsSettings | None] = {}
    for connect, tls in connects:
        for server in connect.partition("/")[0].split(","):
            found[server] = found.get(server) or tls
    return found


def _serves(server: tuple[str, TlsSettings | None], timeout_s: float) -> bool:
    address, tls = server
    try:
        context = None if tls is None else client_context(tls)
        return is_serving(*host_and_port(address), timeout_s=timeout_s, tls=context)
    except (ConfigError, ValueError):
        # A name that no host can have; files that cannot be used are a finding of their own.
        return False


def _member(member: Member, data: Path) -> Diagnosis:
    state = state_of(member.process)
    in_use = [port for port in member.ports if not is_free(port)] if state == GONE else []
    log = data / "logs" / f"{member.name}.log"
    start = f"start it with 'klamm up --detach --data {data}'"
    if state != GONE and member.process is not None:
        start = f"continue it with kill -CONT {member.process.pid}"
    return checks.check_member(member.name, state, in_use, f"{start}; its log is {log}")


def _skew(node: str, timeout_s: float, tls: ssl.SSLContext | None) -> Diagnosis | None:
    """Measure the clock by the header `Date` of the node's metrics; None if it does not answer."""
    try:
        asked = time.time()
        with contextlib.closing(connection_to(node, timeout_s, tls)) as connection:
            connection.request("HEAD", "/metrics")
            date = connection.getresponse().headers.get("Date")
        ours = (asked + time.time()) / 2
        theirs = None if date is None else parsedate_to_datetime(date).timestamp()
    except (OSError, HTTPException, ValueError):
        return Diagnosis("clock", Level.WARNING, f"{node} does not answer", "is it a node's metrics_listen?")
    return None if theirs is None else checks.check_skew(node, round(theirs - ours))


def _health(cluster: Cluster) -> Diagnosis:
    async def ask() -> Diagnosis:
        async with cluster.target.connect(cluster.timeout, say_wait) as client:
            with client.within_timeout():
                findings, _ = await examine(client)
        return checks.check_health(findings)

    try:
        return run(ask())
    except ClusterError as error:
        return Diagnosis("cluster", Level.PROBLEM, str(error), "see 'When nothing answers' in docs/operating.md")
