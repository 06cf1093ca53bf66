"""`klamm elect`: leader elections on request. The file format is that of kafka-leader-election."""

from pathlib import Path
from typing import Annotated, Any

import typer

from admin.cli.completions import topic_names
from admin.cli.options import Cluster, DryRunOption, YesOption, confirm, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.parsing import by_topic, read_input
from admin.cli.plans import plan_document, write_plan
from admin.connecting.client import AdminClient
from admin.moving.partition_files import parse_partitions
from admin.producing.missing_topics import missing_topic
from cluster.cli.documents import Format
from cluster.model.errors import ErrorCode
from cluster.model.exit_codes import ExitCode
from cluster.model.partition import TopicPartition
from cluster.model.printable import counted
from cluster.requests.elections import PREFERRED, UNCLEAN, ElectLeadersResponse, ElectLeadersTopic

app = typer.Typer(no_args_is_help=True, help="Trigger preferred or unclean leader elections.")

_OUTCOMES = {"NONE": "elected"}
TopicOption = Annotated[
    str | None,
    typer.Option(help="All partitions of this topic, unless --partition is set.", autocompletion=topic_names),
]
PartitionOption = Annotated[int | None, typer.Option(min=0, help="Only this partition of --topic.")]
WaitForLeaders = Annotated[
    bool, typer.Option("--wait", help="Wait until the new leaders have acknowledged, up to --timeout seconds.")
]
AllOption = Annotated[bool, typer.Option("--all-topic-partitions", help="All partitions of the cluster.")]
FileOption = Annotated[
    Path | None,
    typer.Option("--path-to-json-file", help='Kafka\'s file: {"partitions": [{"topic": "orders", "partition": 0}]}.'),
]


@app.command(
    epilog=examples(
        "klamm elect preferred --all-topic-partitions",
        "klamm elect preferred --topic orders --dry-run",
        "klamm elect preferred --topic orders --wait",
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
    wait: WaitForLeaders = False,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Elect the preferred leader, the first replica, of each partition where it is alive and in sync.

    Loses no records. Partitions that their preferred replica leads already
    are skipped. Ends when the elections are decided; the brokers learn of
    them right after. With --wait, REQUEST_TIMED_OUT says of a partition that
    it has a new leader, which did not acknowledge in time.
    """
    choice = _Choice(topic, partition, all_topic_partitions, path_to_json_file)
    _elect(cluster, PREFERRED, choice, dry_run=dry_run, wait=wait)


@app.command(
    epilog=examples(
        "klamm elect unclean --topic orders --partition 3 --dry-run",
        "klamm elect unclean --topic orders --partition 3 --yes --wait",
    )
)
@talks_to_cluster()
def unclean(
    *,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    all_topic_partitions: AllOption = False,
    path_to_json_file: FileOption = None,
    wait: WaitForLeaders = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Elect an out-of-sync replica where no in-sync replica is alive.

    DATA LOSS: acknowledged records that the new leader does not have are
    gone. Partitions with a live leader are skipped. Try to restart a broker
    of the ISR first ('klamm topics describe' shows it). Ends when the
    elections are decided; only --wait tells that the new leaders know.
    """
    choice = _Choice(topic, partition, all_topic_partitions, path_to_json_file)
    if not dry_run:
        confirm("An unclean election loses acknowledged records. Continue?", yes)
    _elect(cluster, UNCLEAN, choice, dry_run=dry_run, wait=wait)


class _Choice:
    """Holds the partitions that the options name."""

    def __init__(self, topic: str | None, partition: int | None, all_: bool, file: Path | None) -> None:
        if (topic is not None) + all_ + (file is not None) != 1:
            raise typer.BadParameter("pass exactly one of --topic, --all-topic-partitions and --path-to-json-file")
        if partition is not None and topic is None:
            raise typer.BadParameter("--partition needs --topic")
        self._topic, self._partition, self._file = topic, partition, file
        self.is_all = all_

    async def partitions(self, client: AdminClient) -> list[TopicPartition] | None:
        """The partitions of the request; None stands for all."""
        if self._file is not None:
            return parse_partitions(read_input(self._file), str(self._file))
        if self._topic is None:
            return None
        if self._partition is not None:
            return [TopicPartition(self._topic, self._partition)]
        topics = (await client.describe_topics([self._topic])).topics
        (described,) = client.results_for([f"topic {self._topic}"], topics)
        if described.error_code is not ErrorCode.NONE:
            raise missing_topic(self._topic, described.error_code)
        return [TopicPartition(self._topic, p.partition) for p in described.partitions]


def _elect(cluster: Cluster, election_type: int, choice: _Choice, *, dry_run: bool, wait: bool) -> None:
    async def main(client: AdminClient) -> ElectLeadersResponse:
        chosen = await choice.partitions(client)
        topics = None
        if chosen is not None:
            topics = [ElectLeadersTopic(name, tuple(partitions)) for name, partitions in by_topic(chosen).items()]
        return await client.elect_leaders(election_type, topics, validate_only=dry_run, awaits_leaders=wait)

    answer = cluster.ask(main, check="klamm topics describe")
    _report(answer, dry_run, cluster.form, of_all=choice.is_all)


def _report(response: ElectLeadersResponse, dry_run: bool, form: Format, *, of_all: bool) -> None:
    elections = [
        {"topic": t.topic, "partition": p.partition_id, "error": p.error_code.name, "message": p.error_message or ""}
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
    # Of all partitions only those are answered that need an election.
    rest = "no other partition needs it" if of_all else f"{idle} not needed"
    say(f"{counted(elected, 'leader')} {would}elected, {len(refused)} refused, {rest}")
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
