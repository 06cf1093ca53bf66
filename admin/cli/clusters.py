"""`klamm cluster`: description of the cluster and health check."""

import asyncio
from collections.abc import Sequence
from typing import Final

import typer

from admin.cli.broker_documents import BROKER_COLUMNS, broker_document
from admin.cli.options import Cluster, talks_to_cluster
from admin.cli.output import counted, examples, say, write
from admin.client import AdminClient
from admin.health import HealthIssue, find_trouble
from cluster.errors import ApiError, PeerUnreachableError
from cluster.process.documents import Format
from cluster.process.exit_codes import ExitCode
from cluster.requests.cluster import Finding

_COUNTED: Final = ("brokers", "topics", "partitions", "reassignments", "deletions")

app = typer.Typer(no_args_is_help=True, help="Describe the cluster, check its health.")


@app.command(epilog=examples("klamm cluster describe", "klamm cluster describe --bootstrap localhost:9092 -o json"))
@talks_to_cluster()
def describe(*, cluster: Cluster) -> None:
    """Show the cluster id, the active controller with its epoch, and the live brokers."""
    described = cluster.ask(AdminClient.describe_controller)
    controller = {
        "id": described.controller_id,
        "address": described.controller_address,
        "epoch": described.controller_epoch,
    }
    brokers = [broker_document(b) for b in sorted(described.brokers, key=lambda b: b.id)]
    document = {"cluster_id": described.cluster_id, "controller": controller, "brokers": brokers}
    if cluster.form is Format.TABLE:
        typer.echo(f"cluster {described.cluster_id}")
        typer.echo("controller {id} at {address}, epoch {epoch}\n".format_map(controller))
    write(document, cluster.form, BROKER_COLUMNS, (tuple(b.values()) for b in brokers))


@app.command(
    epilog=examples(
        "klamm cluster health",
        "until klamm cluster health; do sleep 1; done   (wait until healthy)",
        exit_codes="0 healthy; 1 no answer; 2 wrong usage; 3 issues found.",
    )
)
@talks_to_cluster()
def health(*, cluster: Cluster) -> None:
    """Check the health of the cluster. Lists issues, most severe first.

    Reports offline and under-replicated partitions, partitions below
    min.insync.replicas, brokers that host replicas but are not registered,
    stuck reassignments and topic deletions, brokers that lost more than 10 %
    of their preferred leaderships, malformed znodes, and directories in log
    directories that cannot be partitions.
    """
    findings, counts = cluster.ask(_examine)
    document = {
        "healthy": not findings,
        "counts": counts,
        "findings": [
            {
                "kind": f.trouble,
                "topic": f.topic,
                "partition": f.partition,
                "broker": f.broker,
                "path": f.path,
                "detail": f.detail,
            }
            for f in findings
        ],
    }
    rows = ((f.trouble.value, _place(f), f.detail) for f in findings)
    if findings or cluster.form is not Format.TABLE:
        write(document, cluster.form, ("issue", "where", "detail"), rows)
    seen = ", ".join(counted(counts[f"{thing}s"], thing) for thing in ("broker", "topic", "partition"))
    say(f"{seen}: {counted(len(findings), 'issue') if findings else 'no issues'}")
    if findings:
        raise typer.Exit(ExitCode.FINDINGS)


async def _examine(client: AdminClient) -> tuple[list[HealthIssue], dict[str, int]]:
    try:
        controller = await client.describe_controller()
    except ApiError:
        # No controller is active, and the reason may be a znode that a standby knows.
        findings = await _findings_of(client, client.bootstrap)
        if not findings:
            raise
        return find_trouble((), (), (), (), findings), dict.fromkeys(_COUNTED, 0)
    brokers = controller.brokers
    topics = (await client.describe_topics()).topics
    reassignments = (await client.describe_reassignments()).reassignments
    deletions = (await client.describe_topic_deletions()).deletions
    counts = {
        "brokers": len(brokers),
        "topics": len(topics),
        "partitions": sum(len(t.partitions) for t in topics),
        "reassignments": len(reassignments),
        "deletions": len(deletions),
    }
    # Last, because describing the topics makes the controller read their configs again.
    addresses = (controller.controller_address, *(broker.endpoint.address for broker in brokers))
    findings = await _findings_of(client, addresses)
    return find_trouble(topics, brokers, reassignments, deletions, findings), counts


async def _findings_of(client: AdminClient, addresses: Sequence[str]) -> list[Finding]:
    """The findings of the nodes that answer, each once."""

    async def ask(address: str) -> tuple[Finding, ...]:
        try:
            return await client.describe_findings(address)
        except (ApiError, PeerUnreachableError):
            # A node that does not answer, or is older than this request, is an issue of another kind.
            return ()

    found = await asyncio.gather(*map(ask, addresses))
    return list(dict.fromkeys(finding for each in found for finding in each))


def _place(issue: HealthIssue) -> str:
    if issue.path:
        return f"broker {issue.broker}: {issue.path}" if issue.broker >= 0 else issue.path
    if issue.topic:
        return issue.topic if issue.partition < 0 else f"{issue.topic}-{issue.partition}"
    return f"broker {issue.broker}"
