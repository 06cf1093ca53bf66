"""`klamm demo`: the whole thing by itself, with a summary at the end."""

import asyncio
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from admin.cli.options import FormatOption
from admin.cli.output import examples, say
from cluster.cli.documents import Format, write_document
from cluster.cli.typed_command import typed_command
from cluster.model.errors import StartupError
from cluster.model.exit_codes import ExitCode
from deploy.local.cluster import LocalCluster
from deploy.local.java import find_java
from deploy.local.kafka_jars import NEWEST, find_kafka_jars
from launcher.demo_audit import INCOMPLETE, LOG_FILE, AuditOutcome, BackgroundAudit
from launcher.installation import require_extras
from launcher.kafka_demo_command import BROKERS, CONTROLLERS
from launcher.kafka_demo_command import run as run_on_kafka
from launcher.serving import wait_until_serving

if TYPE_CHECKING:
    from launcher.demo import Outcome

app = typer.Typer()

_MIN_STAGE = 1


@app.command(
    epilog=examples(
        "klamm demo",
        "klamm demo --data /tmp/klamm-demo -o json",
        "klamm demo --kafka",
        exit_codes="0 passed; 1 a record was lost, or the audit found something; 2 wrong usage; 4 no record was"
        " lost, but the audit could not run.",
    )
)
def demo(
    *,
    data: Annotated[Path | None, typer.Option("--data", help="Data folder. Default: a new temporary folder.")] = None,
    kafka: Annotated[bool, typer.Option("--kafka", help="On brokers of Apache Kafka 3.9.1.")] = False,
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
    """
    require_extras("embedded", *([] if kafka else ["audit"]))
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="klamm-demo-")) if data is None else data
    cluster = _cluster_of_kafka(folder) if kafka else LocalCluster.create_or_open(folder)
    if any(cluster.state_of(m.name) != "stopped" for m in cluster.state.members):
        raise StartupError(f"a cluster is running in {folder}, and the demo kills processes: pass another --data")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)

    def step(message: str) -> None:
        say(f"[{time.monotonic() - started:6.1f} s] {message}")

    try:
        if kafka:
            sys.exit(run_on_kafka(cluster, form, step))
        document = _run(cluster, step)
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


def _cluster_of_kafka(folder: Path) -> LocalCluster:
    find_java()
    find_kafka_jars(NEWEST, say)
    return LocalCluster.create_or_open(folder, controllers=CONTROLLERS, brokers=BROKERS, kafka=NEWEST)


def _run(cluster: LocalCluster, step: Any) -> dict[str, Any]:
    from launcher.demo import demonstrate, write_lines

    report = _new_report_folder(cluster.folder)
    step(f"starting ZooKeeper, 3 controllers and 3 brokers in {cluster.folder}")
    cluster.start_all()
    active = wait_until_serving(cluster, 180)
    step(f"the cluster is up; controller {active.controller_id} is active")
    audit = BackgroundAudit(cluster.state_change_logs, report)
    try:
        step("an audit follows the state-change logs in the background")
        lines = report / "lines.txt"
        write_lines(lines)
        outcome = asyncio.run(demonstrate(cluster, lines, step))
        step(f"{outcome.read_back:,} lines read back, {outcome.lost} lost, {outcome.duplicates} stored twice")
        # Stopped before the audit concludes, so that the logs are complete.
        cluster.stop_all()
        step("cluster stopped; concluding the audit, and auditing a copy of the logs with an injected second leader")
        audited = audit.finish(outcome.topic)
    finally:
        audit.stop()
    if audited.failure:
        step(f"the audit could not run: {audited.failure}")
    else:
        step(f"audit: {audited.verdict}; injected: {'found' if audited.proves_something else 'NOT FOUND'}")
    return document_of(outcome, audited, cluster, report)


def document_of(outcome: "Outcome", audited: AuditOutcome, cluster: LocalCluster, report: Path) -> dict[str, Any]:
    """What the demonstration shows. `incomplete`: nothing was found wrong, but not everything audited."""
    kept = (
        outcome.lost == 0
        and outcome.out_of_order == 0
        and min(outcome.acknowledged_by_stage.values()) >= _MIN_STAGE
        and audited.verdict in ("clean", INCOMPLETE)
    )
    return {
        "passed": kept and audited.verdict != INCOMPLETE and not audited.failure and audited.proves_something,
        "incomplete": kept and (bool(audited.failure) or (audited.verdict == INCOMPLETE and audited.proves_something)),
        **msgspec.to_builtins(outcome),
        "audit": audited.verdict,
        "audit_records": audited.records,
        "audit_findings": audited.findings,
        "audit_gaps": audited.gaps,
        "injected": audited.injected,
        "injected_findings": audited.found,
        "audit_failure": audited.failure,
        "data": str(cluster.folder),
        "report": audited.html or str(report),
        "folder": str(report),
    }


def exit_code(document: dict[str, Any]) -> ExitCode:
    if document["incomplete"]:
        return ExitCode.INCOMPLETE
    return ExitCode.OK if document["passed"] else ExitCode.REFUSED


def _new_report_folder(folder: Path) -> Path:
    number = 1 + sum(1 for _ in folder.glob("demo-report-*"))
    report = folder / f"demo-report-{number}"
    report.mkdir()
    return report


def print_summary(document: dict[str, Any]) -> None:
    stages = ", ".join(f"{count:,} {name}" for name, count in document["acknowledged_by_stage"].items())
    rows = {
        "acknowledged lines": f"{document['acknowledged']:,}  ({stages})",
        "read back": f"{document['read_back']:,}",
        "lost": f"{document['lost']}",
        "out of order": f"{document['out_of_order']}",
        "duplicates by retries": f"{document['duplicates']:,}  ({document['batches_retried']} batches sent again)",
        "kill -9 of the leader's broker": f"new leaders after {_milliseconds(document['leader_failover_ms'])}",
        "kill -9 of the controller": f"new controller after {_milliseconds(document['controller_failover_ms'])}",
        "restart of both": f"all replicas in sync after {document['in_sync_again_ms']:,} ms",
        **(_audit_failure(document) if document["audit_failure"] else _audit_result(document)),
        "report": document["report"],
        "details": f"{typed_command()} story {document['topic']}-0 --data {document['data']}",
    }
    verdict = typer.style("passed", fg="green") if document["passed"] else typer.style("FAILED", fg="red")
    if document["incomplete"]:
        verdict = typer.style("is INCOMPLETE (no record was lost, but not everything was audited)", fg="yellow")
    typer.echo(f"\nThe demonstration {verdict} in {document['seconds']} s.\n")
    width = max(map(len, rows))
    for name, value in rows.items():
        typer.echo(f"{typer.style(name.ljust(width), bold=True)}  {value}")


def _audit_result(document: dict[str, Any]) -> dict[str, str]:
    findings = ", ".join(f"{rule} ({count})" for rule, count in document["injected_findings"].items())
    said = "; ".join([f"{document['audit']}, {document['audit_records']:,} records", *document["audit_gaps"]])
    return {
        "audit of the state-change logs": said,
        "audit of a tampered copy": f"{document['injected']}: {findings if findings else 'nothing found'}",
    }


def _audit_failure(document: dict[str, Any]) -> dict[str, str]:
    output = Path(document["folder"]) / "audit-again"
    logs = Path(document["data"]) / "state-changes"
    rows = _audit_result(document)
    # Of the two audits, the one that failed and the one that was not reached.
    failed = slice(0 if document["audit"] == INCOMPLETE else 1, None)
    rows |= dict.fromkeys(list(rows)[failed], f"could not run: {document['audit_failure']}")
    return rows | {
        "logs of the audit": f"{Path(document['folder']) / LOG_FILE}, {Path(document['folder']) / 'spark.log'}",
        "to audit again": f"{typed_command()} audit run --once --log-dir {logs} --output {output}",
    }


def _milliseconds(durations: list[int]) -> str:
    return ", ".join(f"{duration:,} ms" for duration in durations)
