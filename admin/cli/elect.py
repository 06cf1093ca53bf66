"""`klamm elect`: leader elections on request. The file format is that of kafka-leader-election."""

from pathlib import Path
from typing import Annotated, Any

import typer

from admin.cli.options import Cluster, DryRunOption, YesOption, confirm, examples, run, talks_to_cluster
from admin.cli.output import counted, say, write
from admin.cli.parsing import by_topic, read_input
from admin.cli.plans import plan_document, write_plan
from admin.client import AdminClient
from admin.partition_files import parse_partitions
from cluster.errors import ApiError, ErrorCode
from cluster.partition import TopicPartition
from cluster.process.documents import Format
from cluster.process.exit_codes import ExitCode
from cluster.requests.elections import PREFERRED, UNCLEAN, ElectLeadersResponse, ElectLeadersTopic

app = typer.Typer(no_args_is_help=True, help="Trigger preferred or unclean leader elections.")

_OUTCOMES = {"NONE": "elected"}
TopicOption = Annotated[str | None, typer.Option(help="All partitions of this topic, unless --partition is set.")]
PartitionOption = Annotated[int | None, typer.Option(min=0, help="Only this partition of --topic.")]
AllOption = Annotated[bool, typer.Option("--all-topic-partitions", help="All partitions of the cluster.")]
FileOption = Annotated[
    Path | None,
    typer.Option("--path-to-json-file", help='Kafka\'s file: {"partitions": [{"topic": "orders", "partition": 0}]}.'),
]


@app.command(
    epilog=examples(
        "klamm elect preferred --all-topic-partitions",
        "klamm elect preferred --topic orders --dry-run",
        "klamm elect preferred --path-to-json-file partitions.json",
    )
)
@talks_to_cluster()
def preferred(
    *,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    all_topic_partitions: AllOption = False,
    path_to_json_file: FileOption = None,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Elect the preferred leader, the first replica, of each partition where it is alive and in sync.

    Loses no records. Partitions that their preferred replica leads already
    are skipped.
    """
    _check_choice(topic, partition, all_topic_partitions, path_to_json_file)

    async def main() -> ElectLeadersResponse:
        async with cluster.connect() as client:
            chosen = await _chosen(client, topic, partition, path_to_json_file)
            return await _elect(client, PREFERRED, chosen, dry_run)

    _report(run(main()), dry_run, cluster.form)


@app.command(
    epilog=examples(
        "klamm elect unclean --topic orders --partition 3 --dry-run",
        "klamm elect unclean --topic orders --partition 3 --yes",
    )
)
@talks_to_cluster()
def unclean(
    *,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    all_topic_partitions: AllOption = False,
    path_to_json_file: FileOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Elect an out-of-sync replica where no in-sync replica is alive.

    DATA LOSS: acknowledged records that the new leader does not have are
    gone. Partitions with a live leader are skipped. Try to restart a broker
    of the ISR first ('klamm topics describe' shows it).
    """
    _check_choice(topic, partition, all_topic_partitions, path_to_json_file)
    if not dry_run:
        confirm("An unclean election loses acknowledged records. Continue?", yes)

    async def main() -> ElectLeadersResponse:
        async with cluster.connect() as client:
            chosen = await _chosen(client, topic, partition, path_to_json_file)
            return await _elect(client, UNCLEAN, chosen, dry_run)

    _report(run(main()), dry_run, cluster.form)


def _check_choice(topic: str | None, partition: int | None, all_: bool, file: Path | None) -> None:
    if (topic is not None) + all_ + (file is not None) != 1:
        raise typer.BadParameter("pass exactly one of --topic, --all-topic-partitions and --path-to-json-file")
    if partition is not None and topic is None:
        raise typer.BadParameter("--partition needs --topic")


async def _chosen(
    client: AdminClient, topic: str | None, partition: int | None, file: Path | None
) -> list[TopicPartition] | None:
    """The chosen partitions; None for all."""
    if file is not None:
        return parse_partitions(read_input(file), str(file))
    if topic is None:
        return None
    if partition is not None:
        return [TopicPartition(topic, partition)]
    (described,) = (await client.describe_topics([topic])).topics
    if described.error_code is not ErrorCode.NONE:
        raise ApiError(described.error_code, f"topic {topic!r}; 'klamm topics list' shows the existing ones")
    return [TopicPartition(topic, p.partition) for p in described.partitions]


async def _elect(
    client: AdminClient, election_type: int, chosen: list[TopicPartition] | None, dry_run: bool
) -> ElectLeadersResponse:
    topics = None
    if chosen is not None:
        topics = [ElectLeadersTopic(name, tuple(partitions)) for name, partitions in by_topic(chosen).items()]
    return await client.elect_leaders(election_type, topics, validate_only=dry_run)


def _report(response: ElectLeadersResponse, dry_run: bool, form: Format) -> None:
    elections = [
        {
            "topic": t.topic,
            "partition": p.partition_id,
            "error": p.error_code.name,
            "message": p.error_message or "",
        }
        for t in response.results
        for p in t.partition_result
    ]
    elected = sum(e["error"] == "NONE" for e in elections)
    idle = sum(e["error"] == "ELECTION_NOT_NEEDED" for e in elections)
    refused = [e for e in elections if e["error"] not in {"NONE", "ELECTION_NOT_NEEDED"}]
    document: dict[str, Any] = {
        "elections": elections,
        "dry_run": dry_run,
        "plan": None if response.plan is None else plan_document(response.plan),
    }
    would = "would be " if dry_run else ""
    say(f"{counted(elected, 'leader')} {would}elected, {len(refused)} refused, {idle} not needed")
    if form is not Format.TABLE:
        write(document, form, (), ())
    else:
        shown = refused if dry_run else [e for e in elections if e["error"] != "ELECTION_NOT_NEEDED"]
        if shown:
            rows = (
                (e["topic"], e["partition"], _OUTCOMES.get(str(e["error"]), e["error"]), e["message"]) for e in shown
            )
            write({}, form, ("topic", "partition", "outcome", "message"), rows)
        if response.plan is not None:
            write_plan(response.plan)
    if refused:
        raise typer.Exit(ExitCode.REFUSED)
