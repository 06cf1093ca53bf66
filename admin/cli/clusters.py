"""`klamm cluster`: who is active, and what is wrong."""

from typing import TYPE_CHECKING

import typer

from admin.cli.broker_documents import BROKER_COLUMNS, broker_document
from admin.cli.options import Cluster, examples, run, talks_to_cluster
from admin.cli.output import counted, say, write
from cluster.process.documents import Format
from cluster.process.exit_codes import ExitCode

if TYPE_CHECKING:
    from admin.health import HealthIssue
    from cluster.requests.cluster import DescribeClusterResponse

app = typer.Typer(no_args_is_help=True, help="Look at the whole cluster.")


@app.command()
@talks_to_cluster()
def describe(
    *,
    cluster: Cluster,
) -> None:
    """Show the cluster id, the active controller and the live brokers."""

    async def main() -> "DescribeClusterResponse":
        async with cluster.connect() as client:
            return await client.describe_controller()

    described = run(main())
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
        "until klamm cluster health; do sleep 1; done   (exit code 0: nothing found, 3: findings)",
    )
)
@talks_to_cluster()
def health(
    *,
    cluster: Cluster,
) -> None:
    """Look for trouble, the worst first.

    Partitions without a leader, below min.insync.replicas or under-
    replicated; brokers that host replicas and are not alive; reassignments
    and deletions that are stuck; leaderships that are not where they should
    be.
    """
    findings, counts = run(_examine(cluster))
    document = {
        "healthy": not findings,
        "counts": counts,
        "findings": [
            {
                "kind": f.trouble.value,
                "topic": f.topic,
                "partition": f.partition,
                "broker": f.broker,
                "detail": f.detail,
            }
            for f in findings
        ],
    }
    rows = ((f.trouble.value, _place(f), f.detail) for f in findings)
    if findings or cluster.form is not Format.TABLE:
        write(document, cluster.form, ("trouble", "where", "detail"), rows)
    seen = ", ".join(counted(counts[f"{thing}s"], thing) for thing in ("broker", "topic", "partition"))
    say(f"{seen}: {counted(len(findings), 'finding') if findings else 'nothing is wrong'}")
    if findings:
        raise typer.Exit(ExitCode.FINDINGS)


async def _examine(cluster: Cluster) -> "tuple[list[HealthIssue], dict[str, int]]":
    from admin.health import find_trouble

    async with cluster.connect() as client:
        brokers = (await client.describe_controller()).brokers
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
    return find_trouble(topics, brokers, reassignments, deletions), counts


def _place(issue: "HealthIssue") -> str:
    if issue.topic:
        return issue.topic if issue.partition < 0 else f"{issue.topic}-{issue.partition}"
    return f"broker {issue.broker}"
