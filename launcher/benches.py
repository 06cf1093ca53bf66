"""`klamm bench`: benchmarks."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from admin.cli.output import examples, say
from cluster.cli.documents import Format
from deploy.local.cluster import LocalCluster
from launcher.installation import require_clone
from launcher.serving import wait_until_serving

_START_S = 120

app = typer.Typer(no_args_is_help=True, help="Benchmarks. They measure; only wrong results fail.")


@app.callback()
def bench() -> None:
    """Run benchmarks; they start the processes they need."""


class ControlPlaneCase(StrEnum):
    FAILOVER = "failover"
    FAILOVER_STANDBY = "failover-standby"
    FAILOVER_WARM = "failover-warm"
    AGENT_DEATH = "agent-death"
    FAILOVER_ONE_DEAD = "failover-one-dead"
    AGENT_RETURN = "agent-return"
    ALTER_PARTITION = "alter-partition"
    CONTROLLED_SHUTDOWN = "controlled-shutdown"
    PREFERRED_ELECTION = "preferred-election"
    REASSIGNMENT = "reassignment"
    TOPIC_CREATION = "topic-creation"
    TOPIC_DELETION = "topic-deletion"


@app.command(
    "control-plane",
    epilog=examples(
        "klamm bench control-plane",
        "klamm bench control-plane --partitions 2000 --runs 1 -o json",
        "klamm bench control-plane --case failover-standby --case agent-death",
        "klamm bench control-plane --brokers 100 --runs 1 --case preferred-election",
        "klamm bench control-plane --secure",
        exit_codes="0 measured; 1 a wrong result; 2 wrong usage.",
    ),
)
def control_plane(
    *,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the cluster, 50 per topic.")] = 10_000,
    brokers: Annotated[int, typer.Option(min=1, max=500, help="Stub brokers; three replicas each, if there are.")] = 5,
    runs: Annotated[int, typer.Option(min=1, help="Number of rounds; the median is reported.")] = 3,
    case: Annotated[
        list[ControlPlaneCase] | None, typer.Option(help="What to measure. Repeatable. Default: all.")
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="Connect to ZooKeeper under TLS, with certificates.")
    ] = False,
    form: Annotated[Format, typer.Option("-o", "--format", help="table or json.")] = Format.TABLE,
) -> None:
    """Measure the controller: failovers, death and return of a broker, elections, reassignment, topics.

    Runs a real controller and ZooKeeper with stub brokers, which acknowledge
    what they are sent and keep no logs. Each case takes from its cause to the
    last acknowledgement; beside it stand the controller's CPU time, its
    round trips and requests to ZooKeeper, and what brokers were sent. A case
    that is selected alone first brings the cluster into the state that it
    needs. Needs the repository and the extra 'embedded'.
    """
    require_clone("benchmarks", "./klamm bench")
    from benchmarks.control_plane import Plan, run

    plan = Plan(partitions, runs, brokers, tuple(case or ()), is_secured=secure)
    sys.exit(run(plan, _is_json(form)))


class Case(StrEnum):
    LATENCY = "latency"
    THROUGHPUT = "throughput"
    IDLE = "idle"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


@app.command(
    "data-path",
    epilog=examples(
        "klamm bench data-path",
        "klamm bench data-path --case throughput --compression lz4 -o json",
        "klamm bench data-path --secure --case latency --case throughput",
        "klamm bench data-path --data /tmp/klamm --case idle --partitions 5000",
        exit_codes="0 measured; 1 the cluster did not start or answer; 2 wrong usage.",
    ),
)
def data_path(
    *,
    case: Annotated[list[Case] | None, typer.Option(help="What to measure. Repeatable. Default: all.")] = None,
    compression: Annotated[
        Compression, typer.Option(help="Compression of the batches of 'throughput'.")
    ] = Compression.NONE,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of 'idle', each with three replicas.")] = 1000,
    data: Annotated[
        Path | None, typer.Option(help="Folder of a running cluster of 'klamm up'. Default: start one.")
    ] = None,
    secure: Annotated[bool, typer.Option("--secure", help="Start one with TLS at every port, and rights.")] = False,
    form: Annotated[Format, typer.Option("-o", "--format", help="table or json.")] = Format.TABLE,
) -> None:
    """Measure produce, consume, and what idle partitions cost, on three brokers.

    Times of a busy machine vary; the CPU time of the brokers does so less.
    Needs the repository and the extra 'embedded'.
    """
    require_clone("benchmarks", "./klamm bench")
    from benchmarks.data_path import CASES, Plan, run
    from cluster.model.compression import CompressionCodec

    output_json = _is_json(form)
    plan = Plan(tuple(case) if case else CASES, CompressionCodec[compression.name], partitions)
    if secure and data is not None:
        raise typer.BadParameter("--secure is for a cluster that this command starts; leave out --data")
    with _cluster(data, is_secured=secure) as cluster:
        run(cluster, plan, output_json)


@app.command(
    "cluster",
    epilog=examples(
        "klamm bench cluster",
        "klamm bench cluster --partitions 1000 --runs 1 -o json",
        "klamm bench cluster --peer kraft.jsonl",
        exit_codes="0 measured; 1 the cluster did not start or answer; 2 wrong usage.",
    ),
)
def cluster_cases(
    partitions: Annotated[
        int, typer.Option(min=10, help="Partitions in ten topics, each with three replicas.")
    ] = 10_000,
    runs: Annotated[int, typer.Option(min=1, help="Number of clusters; the median is reported.")] = 1,
    idle: Annotated[float, typer.Option(min=1, help="Seconds over which the cost of idling is taken.")] = 30,
    peer: Annotated[
        Path | None, typer.Option(help="Rows of another system, one JSON object a line, for the ratios.")
    ] = None,
    form: Annotated[Format, typer.Option("-o", "--format", help="table or json.")] = Format.TABLE,
) -> None:
    """Measure a cluster of three real agents: what users wait for, and what it costs idle.

    Creation of ten topics, controlled shutdown, restart, preferred election,
    SIGKILL of an agent and of the active controller, while a producer sends
    50 records a second. Needs the repository and the extra 'embedded'.
    """
    require_clone("benchmarks", "./klamm bench")
    from benchmarks.cluster_cases import Measurement, Plan, measure
    from benchmarks.cluster_report import print_results, read_peer

    rows, output_json = [] if peer is None else read_peer(peer), _is_json(form)
    plan, measured = Plan(partitions, idle), list[Measurement]()

    def tell(found: Measurement) -> None:
        shown = ", ".join(f"{what} {value:.2f}" for what, value in found.figures.items())
        say(f"run {found.run + 1}, {found.case}: {shown}")

    for run in range(runs):
        with _cluster(None, controllers=3) as cluster:
            measured += asyncio.run(measure(cluster, plan, run, tell))
    print_results(plan, measured, rows, output_json=output_json)


@contextmanager
def _cluster(data: Path | None, controllers: int = 1, *, is_secured: bool = False) -> Iterator[LocalCluster]:
    """The running cluster of a folder, or a new one for as long as the block."""
    if data is not None:
        yield LocalCluster.open(data)
        return
    with tempfile.TemporaryDirectory(prefix="klamm-bench-") as folder:
        cluster = LocalCluster.create_or_open(Path(folder), controllers=controllers, brokers=3, is_secured=is_secured)
        say("starting a cluster …")
        try:
            cluster.start_all()
            wait_until_serving(cluster, _START_S)
            yield cluster
        finally:
            cluster.stop_all()


def _is_json(form: Format) -> bool:
    if form is Format.YAML:
        raise typer.BadParameter(f"-o {form.value}: must be table or json")
    return form is Format.JSON
