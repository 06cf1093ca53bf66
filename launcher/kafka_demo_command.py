"""`klamm demo --kafka`: real Kafka brokers under klamm's controllers and their own, with a table at the end."""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cluster.cli.documents import Format, write_document
from cluster.model.exit_codes import ExitCode
from deploy.local.cluster import LocalCluster
from launcher.kafka_demo import KAFKA, KLAMM, Report, demonstrate
from launcher.serving import wait_until_serving

CONTROLLERS: Final = 2
BROKERS: Final = 3


def run(cluster: LocalCluster, form: Format, step: Callable[[str], None]) -> ExitCode:
    """Start the cluster, demonstrate, and print. The caller stops it. Raises StartupError."""
    began = time.monotonic()
    step(f"starting ZooKeeper, {CONTROLLERS} controllers and {BROKERS} brokers of Kafka {cluster.state.kafka}")
    cluster.start_all()
    wait_until_serving(cluster, 180)
    report = asyncio.run(demonstrate(cluster, _topic(cluster), step))
    document = document_of(report, cluster, time.monotonic() - began)
    if form is Format.TABLE:
        print_summary(document)
    else:
        write_document(document, form)
    return ExitCode.OK if report.passed else ExitCode.REFUSED


def document_of(report: Report, cluster: LocalCluster, seconds: float) -> dict[str, Any]:
    return {
        "passed": report.passed,
        "kafka": cluster.state.kafka,
        "seconds": round(seconds, 1),
        "failovers": [{"failure": failure, **by} for failure, by in report.seconds.items()],
        "klamm_away_s": round(report.to_kafka, 2),
        "klamm_back_s": round(report.to_klamm, 2),
        "records": msgspec.to_builtins(report.outcome),
        "data": str(cluster.folder),
    }


def print_summary(document: dict[str, Any]) -> None:
    verdict = typer.style("passed", fg="green") if document["passed"] else typer.style("FAILED", fg="red")
    typer.echo(f"\nThe demonstration on Kafka {document['kafka']} {verdict} in {document['seconds']} s.\n")
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("what failed, and until when")
    for who in (KLAMM, KAFKA):
        table.add_column(f"{who} s", justify="right")
    for row in document["failovers"]:
        table.add_row(row["failure"], *(f"{row[who]:.1f}" if who in row else "" for who in (KLAMM, KAFKA)))
    Console(file=sys.stdout).print(table)
    records = document["records"]
    rows = {
        "klamm taken away": f"a broker was the controller after {document['klamm_away_s']:.1f} s",
        "klamm brought back": f"it was the controller after {document['klamm_back_s']:.1f} s",
        "acknowledged records": f"{records['acknowledged']:,}",
        "lost": f"{records['lost']}",
        "stored twice": f"{records['twice']}",
        "not read by the group": f"{records['unread']}",
        "given up by a producer": f"{records['failed']}",
        "data and logs": document["data"],
    }
    width = max(map(len, rows))
    for name, value in rows.items():
        typer.echo(f"{typer.style(name.ljust(width), bold=True)}  {value}")


def _topic(cluster: LocalCluster) -> str:
    """Another one each time, in a folder where demonstrations ran before."""
    return f"demo-{round(time.time())}" if (cluster.folder / "data").exists() else "demo"
