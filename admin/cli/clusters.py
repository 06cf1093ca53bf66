"""`klamm cluster`: description of the cluster and health check."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from admin.cli.broker_documents import BROKER_COLUMNS, all_broker_documents, by_registration
from admin.cli.options import Cluster, talks_to_cluster
from admin.cli.output import examples, say, say_source, source, write
from admin.cli.recover import EPILOG, recover
from admin.connecting.client import AdminClient
from admin.connecting.connection import KAFKA, KLAMM
from admin.describing.brokers_view import answer_or_later, described_cluster, of_controller_or_brokers
from admin.describing.health import HealthIssue, Severity, Trouble, find_trouble, hosting_brokers
from cluster.cli.documents import Format
from cluster.model.errors import ApiError, PeerUnreachableError
from cluster.model.exit_codes import ExitCode
from cluster.model.printable import counted
from cluster.requests.cluster import DescribeClusterResponse, Finding

_COUNTED: Final = ("brokers", "topics", "partitions", "reassignments", "deletions")

app = typer.Typer(no_args_is_help=True, help="Describe the cluster, check its health, recover it.")


app.command(epilog=EPILOG)(recover)


@app.command(epilog=examples("klamm cluster describe", "klamm cluster describe --bootstrap localhost:9092 -o json"))
@talks_to_cluster()
def describe(*, cluster: Cluster) -> None:
    """Show the cluster id, the active controller with its epoch, the other controllers, and the brokers.

    While no controller is active, from the metadata of the brokers.
    """
    described, why_of_brokers = cluster.ask(
        lambda client: of_controller_or_brokers(client, client.describe_controller(), (), described_cluster)
    )
    controller = None
    if not why_of_brokers:
        controller = {
            "id": described.controller_id,
            "address": described.controller_address,
            "epoch": described.controller_epoch,
        }
    controllers = [
        {"id": c.id, "address": c.address, "is_active": c.id == described.controller_id, "unfit": c.unfit}
        for c in described.controllers
    ]
    brokers = all_broker_documents(described)
    document = {
        "cluster_id": described.cluster_id,
        "controller": controller,
        "controllers": controllers,
        **by_registration(brokers),
        "broker_protocol": described.broker_protocol or KLAMM,
        "source": source(why_of_brokers),
    }
    if cluster.form is Format.TABLE:
        typer.echo(f"cluster {described.cluster_id}")
        active = "controller {id} at {address}, epoch {epoch}"
        typer.echo(why_of_brokers if controller is None else active.format_map(controller))
        if controller is not None:
            typer.echo(_standbys(described))
        typer.echo("brokers of Apache Kafka\n" if described.broker_protocol == KAFKA else "")
    say_source(why_of_brokers)
    write(document, cluster.form, BROKER_COLUMNS, (tuple(b.values()) for b in brokers))


@app.command(
    epilog=examples(
        "klamm cluster health",
        "until klamm cluster health --at-least warning; do sleep 1; done   (wait, as between restarts of brokers)",
        exit_codes="0 healthy; 1 no answer, or no active controller; 2 wrong usage; 3 issues found, of --at-least.",
    )
)
@talks_to_cluster()
def health(
    *,
    at_least: Annotated[
        Severity, typer.Option("--at-least", help="Exit with 3 only for issues this severe or worse; all are listed.")
    ] = Severity.INFO,
    cluster: Cluster,
) -> None:
    """Check the health of the cluster. Lists issues, most severe first.

    critical: clients fail, a broker cannot be governed, or records may be
    lost. warning: all is served, but redundancy or control is reduced. info:
    nothing is at risk.

    Reports offline and under-replicated partitions, partitions below
    min.insync.replicas, brokers that host replicas but are not registered,
    do not respond, do not understand or refuse the controller's requests,
    or have an authorizer, a controller that is left alone, log directories
    that failed, replicas that lost records or cannot be loaded, ISR changes,
    reassignments, topic deletions and shutdowns that are stuck, malformed
    znodes, directories that cannot be partitions, and brokers that lost more
    than 10 % of their preferred leaderships.
    """

    async def main(client: AdminClient) -> tuple[list[HealthIssue], dict[str, int | None], Mapping[str, Sequence[int]]]:
        return *await examine(client), {} if client.kafka is None else client.kafka.not_connected_to

    findings, counts, unchecked = cluster.ask(main)
    is_complete = None not in counts.values()
    document = {
        "healthy": not findings,
        "severity": findings[0].severity if findings else None,
        "counts": counts,
        "findings": list(map(_issue_document, findings)),
    }
    rows = ((f.severity, str(f.trouble), _place(f), f.detail) for f in findings)
    if findings or cluster.form is not Format.TABLE:
        write(document, cluster.form, ("severity", "issue", "where", "detail"), rows)
    seen = ", ".join(counted(counts[f"{thing}s"] or 0, thing) for thing in ("broker", "topic", "partition"))
    grave = [f for f in findings if f.is_at_least(at_least)]
    issues = counted(len(findings), "issue") if findings else "no issues"
    issues += (
        f", {len(grave) or 'none'} of them {at_least} or above" if findings and at_least is not Severity.INFO else ""
    )
    say(f"{seen if is_complete else 'brokers and partitions are not checked'}: {issues}")
    for kind, remedy in {f.trouble: f.remedy for f in findings if f.remedy}.items():
        say(f"{kind}: {remedy}")
    for protocol, ids in unchecked.items():
        say(f"not checked: log directories of brokers {', '.join(map(str, ids))}, which take {protocol} only")
    if any(f.trouble == Trouble.REFUSES_CONTROLLER for f in findings):
        say("Was ZooKeeper restored from a backup? Then see `klamm cluster recover --dry-run`.")
    if not is_complete:
        raise typer.Exit(ExitCode.REFUSED)
    if grave:
        raise typer.Exit(ExitCode.FINDINGS)


async def examine(client: AdminClient) -> tuple[list[HealthIssue], dict[str, int | None]]:
    """Find the issues, and how much was examined: None without a controller, the only one that knows that.

    Raises ApiError or PeerUnreachableError if nobody answers.
    """

    async def without_controller(why: object) -> list[HealthIssue] | None:
        # A candidate may know the znode that prevents its election, and brokers what is wrong with their disks.
        if (found := await client.describe_candidates_findings()) is None:
            return None
        detail = f"{why}; leaders, ISRs, reassignments and deletions are not checked: only an active controller knows"
        return find_trouble((), (), (), (), (Finding(Trouble.NO_ACTIVE_CONTROLLER, detail), *found))

    async def ask() -> DescribeClusterResponse | list[HealthIssue]:
        try:
            return await client.describe_controller()
        except (ApiError, PeerUnreachableError) as error:
            if (issues := await without_controller(error)) is None:
                raise
            return issues

    described, _ = await answer_or_later(
        client,
        ask(),
        lambda after_s: without_controller(client.no_answer_within(after_s)),
        "what brokers and standby controllers know is shown",
    )
    if not isinstance(described, DescribeClusterResponse):
        return described, dict.fromkeys(_COUNTED)
    return await _examine_governed(client, described)


async def _examine_governed(
    client: AdminClient, described: DescribeClusterResponse
) -> tuple[list[HealthIssue], dict[str, int | None]]:
    """The issues that the active controller and the brokers know, and how much was examined."""
    brokers = described.brokers
    of_topics, of_reassignments, of_deletions, of_controller = await asyncio.gather(
        client.describe_topics(),
        client.describe_reassignments(),
        client.describe_topic_deletions(),
        client.describe_findings(),
    )
    topics = of_topics.topics
    if hosting_brokers(topics) - {broker.id for broker in brokers}:
        # They may have joined since, or the controller that was asked first has lost its place.
        brokers = (await client.describe_controller()).brokers
    of_brokers = await client.describe_findings_of(brokers)
    if any(finding.kind == Trouble.UNREACHABLE_LEADER for of_broker in of_brokers for finding in of_broker):
        # They may have shut down meanwhile, and lead nothing any more.
        topics, brokers = (await client.describe_topics()).topics, (await client.describe_controller()).brokers
        registered = {broker.id for broker in brokers}
        of_brokers = [tuple(f for f in of_broker if f.broker in registered) for of_broker in of_brokers]
    counts: dict[str, int | None] = {
        "brokers": len(brokers),
        "topics": len(topics),
        "partitions": sum(len(t.partitions) for t in topics),
        "reassignments": len(of_reassignments.reassignments),
        "deletions": len(of_deletions.deletions),
    }
    findings = [finding for of_broker in of_brokers for finding in of_broker]
    # Some of Kafka's brokers cannot be asked by this command, and have not answered it either.
    unasked = {b for ids in (client.kafka.not_connected_to if client.kafka else {}).values() for b in ids}
    silent = {finding.broker for finding in findings if finding.kind == Trouble.SILENT_BROKER}
    answering = {broker.id for broker in brokers} - silent - unasked
    return find_trouble(
        topics,
        brokers,
        of_reassignments.reassignments,
        of_deletions.deletions,
        [*of_controller.findings, *findings],
        answering=answering,
    ), counts


def _standbys(described: DescribeClusterResponse) -> str:
    """Write a line for each candidate that is not active."""
    others = [c for c in described.controllers if c.id != described.controller_id]
    if not described.controllers:
        return "its standbys could not be read"
    return (
        "\n".join(
            f"controller {c.id} at {c.address}, "
            + (f"does not stand for election: {c.unfit}" if c.unfit else "standby")
            for c in others
        )
        or "no standby controller"
    )


def _issue_document(issue: HealthIssue) -> dict[str, Any]:
    return {
        "kind": issue.trouble,
        "severity": issue.severity,
        "topic": issue.topic,
        "partition": issue.partition,
        "broker": issue.broker,
        "detail": issue.detail,
        "remedy": issue.remedy,
    }


def _place(issue: HealthIssue) -> str:
    if issue.topic:
        return issue.topic if issue.partition < 0 else f"{issue.topic}-{issue.partition}"
    return f"broker {issue.broker}" if issue.broker >= 0 else "cluster"
