"""`klamm demo`: the whole thing by itself, with a summary at the end."""

import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from admin.cli.options import FormatOption
from admin.cli.output import examples, say
from audit.chains.witnesses import qualified
from cluster.cli.documents import Format, write_document
from cluster.model.errors import StartupError
from deploy.local.cluster import LocalCluster
from deploy.local.java import find_java
from deploy.local.kafka_jars import NEWEST, find_kafka_jars
from launcher.demo import kafka as on_kafka
from launcher.demo import klamm as on_klamm
from launcher.demo.audit import BackgroundAudit
from launcher.demo.summary import exit_code, kafka_document, klamm_document, print_summary
from launcher.installation import require_extras
from launcher.log_heads import read_heads
from launcher.serving import wait_until_serving

CONTROLLERS: Final = 2
BROKERS: Final = 3
"""Of the cluster of Kafka."""
_START_S: Final = 180

app = typer.Typer()


@app.command(
    epilog=examples(
        "klamm demo",
        "klamm demo --data /tmp/klamm-demo -o json",
        "klamm demo --secure",
        "klamm demo --kafka",
        "klamm demo --kafka --secure",
        exit_codes="0 passed; 1 a record was lost, or the audit found something; 2 wrong usage; 4 no record was"
        " lost, but the audit could not run.",
    )
)
def demo(
    *,
    data: Annotated[Path | None, typer.Option("--data", help="Data folder. Default: a new temporary folder.")] = None,
    kafka: Annotated[bool, typer.Option("--kafka", help="On brokers of Apache Kafka 3.9.1.")] = False,
    secure: Annotated[bool, typer.Option("--secure", help="With TLS at every port, as 'klamm up --secure'.")] = False,
    form: FormatOption = Format.TABLE,
) -> None:
    """Demonstrate failover: kill a leader and the active controller under load, then check that no record is lost.

    Starts ZooKeeper, three controllers and three brokers, produces records
    while it kills the leader's broker and the active controller with SIGKILL,
    reads every acknowledged record back, and audits the state-change logs
    and a copy of them with an injected second leader. Takes about a
    minute. Needs the extras 'embedded' and 'audit'.
    With --kafka the brokers are Apache Kafka's, whose jars (44 MB) are
    fetched once: the same failures under klamm's controllers and under
    Kafka's own, in about two minutes. Needs the extra 'embedded'.
    With --secure every port has TLS and every client a certificate, and
    access control lists say who may do what; Kafka's brokers and ZooKeeper
    have the same.
    """
    require_extras("embedded", *([] if kafka else ["audit"]))
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="klamm-demo-")) if data is None else data
    cluster = (
        _cluster_of_kafka(folder, is_secured=secure)
        if kafka
        else LocalCluster.create_or_open(folder, is_secured=secure)
    )
    if any(cluster.state_of(m.name) != "stopped" for m in cluster.state.members):
        raise StartupError(f"a cluster is running in {folder}, and the demo kills processes: pass another --data")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)

    def step(message: str) -> None:
        say(f"[{time.monotonic() - started:6.1f} s] {message}")

    try:
        document = (_run_on_kafka if kafka else _run_on_klamm)(cluster, step)
    except KeyboardInterrupt:
        say("interrupted; stopping the cluster")
        raise
    finally:
        cluster.stop_all()
    document["seconds"] = round(time.monotonic() - started, 1)
    if form is Format.TABLE:
        print_summary(document)
    else:
        write_document(document, form)
    sys.exit(exit_code(document))


def _cluster_of_kafka(folder: Path, *, is_secured: bool) -> LocalCluster:
    find_java()
    find_kafka_jars(NEWEST, say)
    return LocalCluster.create_or_open(
        folder, controllers=CONTROLLERS, brokers=BROKERS, kafka=NEWEST, is_secured=is_secured
    )


def _run_on_klamm(cluster: LocalCluster, step: Callable[[str], None]) -> dict[str, Any]:
    report = _new_report_folder(cluster.folder)
    step(f"starting ZooKeeper, 3 controllers and 3 brokers{_secured(cluster)} in {cluster.folder}")
    cluster.start_all()
    active = wait_until_serving(cluster, _START_S)
    step(f"the cluster is up; controller {active.controller_id} is active")
    audit = BackgroundAudit(cluster.state_change_logs, report)
    try:
        step("an audit follows the state-change logs in the background")
        result = asyncio.run(on_klamm.demonstrate(cluster, step))
        found = result.outcome
        step(f"{found.acknowledged - found.lost:,} lines read back, {found.lost} lost, {found.duplicates} stored twice")
        # Nodes that have written no log, such as standby controllers, have no head: no word is said of them.
        heads = read_heads("", ",".join(cluster.bootstrap), lambda _: None, command_config=cluster.client_properties)
        # Stopped before the audit concludes, so that the logs are complete.
        cluster.stop_all()
        step("cluster stopped; concluding the audit, and auditing a copy of the logs with an injected second leader")
        audited = audit.finish(result.topic, heads)
    finally:
        audit.stop()
    if audited.failure:
        step(f"the audit could not run: {audited.failure}")
    else:
        verdict = qualified(audited.verdict, audited.open_ends)
        step(f"audit: {verdict}; injected: {'found' if audited.proves_something else 'NOT FOUND'}")
    return klamm_document(result, audited, cluster, report)


def _run_on_kafka(cluster: LocalCluster, step: Callable[[str], None]) -> dict[str, Any]:
    brokers = f"{BROKERS} brokers of Kafka {cluster.state.kafka}{_secured(cluster)}"
    step(f"starting ZooKeeper, {CONTROLLERS} controllers and {brokers} in {cluster.folder}")
    cluster.start_all()
    wait_until_serving(cluster, _START_S)
    return kafka_document(asyncio.run(on_kafka.demonstrate(cluster, step)), cluster)


def _secured(cluster: LocalCluster) -> str:
    return ", every port under TLS," if cluster.state.is_secured else ""


def _new_report_folder(folder: Path) -> Path:
    number = 1 + sum(1 for _ in folder.glob("demo-report-*"))
    report = folder / f"demo-report-{number}"
    report.mkdir()
    return report
