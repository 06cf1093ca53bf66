"""The end of a demonstration: its document, its exit code, and what people see of it."""

import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from admin.consuming.record_history import HistoryRule
from cluster.cli.typed_command import typed_command
from cluster.model.exit_codes import ExitCode
from deploy.local.cluster import LocalCluster
from launcher.demo.audit import INCOMPLETE, LOG_FILE, AuditOutcome
from launcher.demo.kafka import KAFKA, KLAMM, KafkaResult
from launcher.demo.klamm import KlammResult
from launcher.demo.load import LoadOutcome

_MIN_STAGE: Final = 1


def klamm_document(result: KlammResult, audited: AuditOutcome, cluster: LocalCluster, report: Path) -> dict[str, Any]:
    """Return what a demonstration on klamm's brokers shows.

    `incomplete`: nothing was found wrong, but not everything was audited.
    """
    found = result.outcome
    kept = (
        found.passed
        and min(result.acknowledged_by_stage.values()) >= _MIN_STAGE
        and audited.verdict in ("clean", INCOMPLETE)
    )
    return {
        "passed": kept and audited.verdict != INCOMPLETE and not audited.failure and audited.proves_something,
        "incomplete": kept and (bool(audited.failure) or (audited.verdict == INCOMPLETE and audited.proves_something)),
        **_records(found),
        "read_back": found.acknowledged - found.lost,
        "duplicates": found.duplicates,
        "out_of_order": found.anomalies.get(HistoryRule.REORDERED, 0),
        "batches_retried": found.batches_retried,
        **{key: value for key, value in msgspec.to_builtins(result).items() if key != "outcome"},
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


def kafka_document(result: KafkaResult, cluster: LocalCluster) -> dict[str, Any]:
    """Return what a demonstration on Kafka's brokers shows."""
    found = result.outcome
    records = {"twice": found.duplicates, "failed": found.failed, "unread": found.unread, "replaced": found.replaced}
    return {
        "passed": found.passed,
        "kafka": cluster.state.kafka,
        "failovers": [{"failure": failure, **by} for failure, by in result.seconds.items()],
        "klamm_away_s": round(result.to_kafka, 2),
        "klamm_back_s": round(result.to_klamm, 2),
        "records": {**_records(found), **records},
        "data": str(cluster.folder),
    }


def exit_code(document: dict[str, Any]) -> ExitCode:
    """The exit code of `klamm demo`: whether no record was lost, and whether everything was audited."""
    if document.get("incomplete"):
        return ExitCode.INCOMPLETE
    return ExitCode.OK if document["passed"] else ExitCode.REFUSED


def print_summary(document: dict[str, Any]) -> None:
    """Print the verdict, and what led to it."""
    verdict = typer.style("passed", fg="green") if document["passed"] else typer.style("FAILED", fg="red")
    if document.get("incomplete"):
        verdict = typer.style("is INCOMPLETE (no record was lost, but not everything was audited)", fg="yellow")
    on = f" on Kafka {document['kafka']}" if "kafka" in document else ""
    typer.echo(f"\nThe demonstration{on} {verdict} in {document['seconds']} s.\n")
    if on:
        Console(file=sys.stdout).print(_failovers(document))
    rows = _kafka_rows(document) if on else _klamm_rows(document)
    width = max(map(len, rows))
    for name, value in rows.items():
        typer.echo(f"{typer.style(name.ljust(width), bold=True)}  {value}")


def _records(found: LoadOutcome) -> dict[str, Any]:
    anomalies = {rule.value: count for rule, count in found.anomalies.items()}
    return {"acknowledged": found.acknowledged, "lost": found.lost, "anomalies": anomalies}


def _failovers(document: dict[str, Any]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("what failed, and until when")
    for who in (KLAMM, KAFKA):
        table.add_column(f"{who} s", justify="right")
    for row in document["failovers"]:
        table.add_row(row["failure"], *(f"{row[who]:.1f}" if who in row else "" for who in (KLAMM, KAFKA)))
    return table


def _kafka_rows(document: dict[str, Any]) -> dict[str, str]:
    records = document["records"]
    return {
        "klamm taken away": f"a broker was the controller after {document['klamm_away_s']:.1f} s",
        "klamm brought back": f"it was the controller after {document['klamm_back_s']:.1f} s",
        "acknowledged records": f"{records['acknowledged']:,}",
        "lost": f"{records['lost']}",
        "stored twice": f"{records['twice']}",
        **_other_anomalies(records),
        "not read by the group": f"{records['unread']}",
        "given up by a producer": f"{records['failed']}",
        "data and logs": document["data"],
    }


def _klamm_rows(document: dict[str, Any]) -> dict[str, str]:
    stages = ", ".join(f"{count:,} {name}" for name, count in document["acknowledged_by_stage"].items())
    return {
        "acknowledged lines": f"{document['acknowledged']:,}  ({stages})",
        "read back": f"{document['read_back']:,}",
        "lost": f"{document['lost']}",
        "out of order": f"{document['out_of_order']}",
        "duplicates by retries": f"{document['duplicates']:,}  ({document['batches_retried']} batches sent again)",
        **_other_anomalies(document),
        "kill -9 of the leader's broker": f"new leaders after {_milliseconds(document['leader_failover_ms'])}",
        "kill -9 of the controller": f"new controller after {_milliseconds(document['controller_failover_ms'])}",
        "restart of both": f"all replicas in sync after {document['in_sync_again_ms']:,} ms",
        **(_audit_failure(document) if document["audit_failure"] else _audit_result(document)),
        "report": document["report"],
        "details": f"{typed_command()} story {document['topic']}-0 --data {document['data']}",
    }


def _other_anomalies(document: dict[str, Any]) -> dict[str, str]:
    """The anomalies of records that have no row of their own, where there are any."""
    others = {rule: count for rule, count in document["anomalies"].items() if rule != HistoryRule.LOST}
    return {"anomalies": ", ".join(f"{rule} ({count})" for rule, count in others.items())} if others else {}


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
