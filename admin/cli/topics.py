"""`klamm topics`: create, list, describe, alter, delete, delete-records, offsets."""

from collections.abc import Callable, Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Final

import typer
from msgspec.structs import asdict

from admin.cli.broker_documents import config_documents, write_configs
from admin.cli.completions import topic_names
from admin.cli.delete_records import DELETE_RECORDS_EXAMPLES, delete_records
from admin.cli.offsets import OFFSETS_EXAMPLES, offsets
from admin.cli.options import Cluster, DryRunOption, ShowConfigsOption, talks_to_cluster
from admin.cli.output import examples, say, say_source, source, write
from admin.cli.parsing import parse_assignment, parse_configs
from admin.cli.plans import partition_document, plan_document, write_plan
from admin.cli.shared_options import with_options
from admin.cli.topic_changes import ALTER_EXAMPLES, DELETE_EXAMPLES, alter, delete
from admin.connecting.client import AdminClient
from admin.describing.brokers_view import (
    UNKNOWN_PARTITION_EPOCH,
    described_topics,
    listed_topics,
    of_controller_or_brokers,
)
from admin.moving.partition_filters import NEED_MIN_ISR, PartitionFilter, chosen
from admin.producing.missing_topics import refuse_missing
from cluster.cli.documents import Format
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError, ErrorCode, StartupError
from cluster.requests.configs import TOPIC_RESOURCE, ConfigResource
from cluster.requests.data import MetadataResponse
from cluster.requests.plans import DescribedPartition, Plan
from cluster.requests.topics import CreatableTopicResult, DescribedTopic, ListedTopic, NewTopic

app = typer.Typer(no_args_is_help=True, help="Create, list, describe, alter and delete topics.")
app.command(epilog=ALTER_EXAMPLES)(alter)
app.command(epilog=DELETE_EXAMPLES)(delete)
app.command("delete-records", epilog=DELETE_RECORDS_EXAMPLES)(delete_records)
app.command(epilog=OFFSETS_EXAMPLES)(offsets)

_COLUMNS = ("topic", "partition", "leader", "leader_epoch", "partition_epoch", "isr", "replicas")
_Described = tuple[list[DescribedTopic], dict[str, list[dict[str, Any]]]]
"""Topics, and the effective configs of each by its name."""
_EXTRA_COLUMNS: Final[dict[str, Callable[[DescribedPartition], Sequence[object]]]] = {
    "offline": lambda p: p.offline_replicas,
    "moving": lambda p: [*(f"+{b}" for b in p.adding_replicas), *(f"-{b}" for b in p.removing_replicas)],
}
"""The columns of replicas that are offline, or that a reassignment adds or removes; shown if a partition has any."""


_FILTERS: Final[dict[str, tuple[Any, object]]] = {
    kind.replace("-", "_"): (Annotated[bool, typer.Option(f"--{kind}", help=text)], False)
    for kind, text in (
        (PartitionFilter.UNDER_REPLICATED, "Only where replicas are missing in the ISR."),
        (PartitionFilter.UNAVAILABLE, "Only without an available leader."),
        (PartitionFilter.UNDER_MIN_ISR, "Only with fewer than min.insync.replicas."),
        (PartitionFilter.AT_MIN_ISR, "Only with exactly min.insync.replicas in sync."),
    )
}


def _filters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that make up its keyword argument `filters`."""

    def make(**asked: bool) -> frozenset[PartitionFilter]:
        return frozenset(PartitionFilter(name.replace("_", "-")) for name, is_asked in asked.items() if is_asked)

    return with_options(command, "filters", _FILTERS, make)


def chosen_of_metadata(known: MetadataResponse, filters: Collection[PartitionFilter]) -> list[DescribedTopic]:
    """Choose as `chosen` does, from the metadata of brokers. Raises StartupError for filters that it cannot answer."""
    if unknown := sorted(NEED_MIN_ISR.intersection(filters)):
        options = " and ".join(f"--{name}" for name in unknown)
        raise StartupError(f"no active controller answers: only an active controller knows what {options} needs")
    return chosen(described_topics(known), filters)


@app.command(
    epilog=examples(
        "klamm topics create orders --partitions 6 --replication-factor 3",
        "klamm topics create small --config min.insync.replicas=2",
        "klamm topics create placed --replica-assignment 1:2:3,2:3:1",
        "klamm topics create orders --if-not-exists   (for scripts that run again)",
    )
)
@talks_to_cluster()
def create(
    name: Annotated[str, typer.Argument(help="Up to 249 letters, digits, '.', '_' and '-'.")],
    *,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Number of partitions. Default: num.partitions.")
    ] = None,
    replication_factor: Annotated[int | None, typer.Option(min=1, help="Default: default.replication.factor.")] = None,
    config: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A topic config. Repeatable.")] = None,
    replica_assignment: Annotated[
        str | None, typer.Option(metavar="B:B,B:B", help="Replicas per partition, preferred leader first.")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Accept an existing topic of that name as it is.")
    ] = False,
    dry_run: DryRunOption = False,
    cluster: Cluster,
) -> None:
    """Create a topic and wait until its partitions have leaders."""
    if replica_assignment is not None and (partitions is not None or replication_factor is not None):
        raise typer.BadParameter("--replica-assignment cannot be combined with --partitions or --replication-factor")
    topic = NewTopic(
        name,
        -1 if partitions is None else partitions,
        -1 if replication_factor is None else replication_factor,
        parse_assignment(replica_assignment),
        parse_configs(config),
    )

    async def main(client: AdminClient) -> tuple[CreatableTopicResult | None, Plan | None]:
        response = await client.create_topics([topic], validate_only=dry_run)
        (result,) = client.results_for([f"topic {name}"], response.topics)
        if result.error_code is ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
            return None, response.plan
        if topic.assignments and result.error_code is ErrorCode.NONE:
            await _warn_of_absent_brokers(client, {b for replicas in topic.assignments.values() for b in replicas})
        return result, response.plan

    result, plan = cluster.ask(main, check=f"klamm topics describe {name}")
    if result is None:
        say(f"topic {name} exists already; it stays as it is")
        if cluster.form is not Format.TABLE:
            write({"topics": [], "dry_run": dry_run, "plan": None}, cluster.form, (), ())
        return
    _raise_if_refused(result)
    row = {
        "name": result.name,
        "topic_id": result.topic_id,
        "partitions": result.num_partitions,
        "replication_factor": result.replication_factor,
    }
    say(f"topic {name} {'could be created' if dry_run else 'created'}")
    document = {"topics": [row], "dry_run": dry_run, "plan": None if plan is None else plan_document(plan)}
    if plan is not None and cluster.form is Format.TABLE:
        write_plan(plan)
    else:
        write(document, cluster.form, list(row), [list(row.values())])


def _raise_if_refused(result: CreatableTopicResult) -> None:
    if result.error_code is not ErrorCode.NONE:
        raise ApiError(
            result.error_code,
            result.error_message,
            field=result.error_field or None,
            value=result.error_value or None,
            violations=result.violations,
        )


async def _warn_of_absent_brokers(client: AdminClient, named: AbstractSet[BrokerId]) -> None:
    """Warn of replicas on brokers that are not running: Kafka permits that, but more often the number is a mistake."""
    known = {b.id for b in (await client.describe_controller()).brokers}
    for broker in sorted(named - known):
        say(f"warning: no broker {broker} is registered; its replicas are offline until it starts")


@app.command(
    "list", epilog=examples("klamm topics list", "klamm topics list --under-replicated", "klamm topics list -o json")
)
@talks_to_cluster()
@_filters
def list_(
    *,
    filters: frozenset[PartitionFilter],
    cluster: Cluster,
) -> None:
    """List all topics with id, number of partitions and replication factor; those being deleted are marked.

    With filters, the topics that have such a partition. While no controller
    is active, from the metadata of the brokers.
    """

    async def ask(client: AdminClient) -> tuple[list[ListedTopic], set[str] | None]:
        topics = sorted((await client.list_topics()).topics, key=lambda t: t.name)
        if filters:
            found = {t.name for t in chosen((await client.describe_topics()).topics, filters)}
            topics = [t for t in topics if t.name in found]
        return topics, {d.topic for d in (await client.describe_topic_deletions()).deletions}

    def of_metadata(known: MetadataResponse) -> tuple[list[ListedTopic], None]:
        found = {t.name for t in chosen_of_metadata(known, filters)}
        return [t for t in listed_topics(known) if t.name in found], None

    (listed, deleted), why_of_brokers = cluster.ask(
        lambda client: of_controller_or_brokers(client, ask(client), None, of_metadata)
    )
    say_source(why_of_brokers)
    rows = [asdict(t) | {"queued_for_deletion": None if deleted is None else t.name in deleted} for t in listed]
    columns = ("name", "topic_id", "partitions", "replication_factor", *(("state",) if deleted else ()))
    states = ({**row, "queued_for_deletion": "deleting" if row["queued_for_deletion"] else ""} for row in rows)
    document = {"topics": rows, "source": source(why_of_brokers)}
    if filters and not rows:
        say("no topic has such partitions")
    if rows or not filters or cluster.form is not Format.TABLE:
        write(document, cluster.form, columns, (list(row.values())[: len(columns)] for row in states))


@app.command(
    epilog=examples(
        "klamm topics describe orders",
        "klamm topics describe orders --configs",
        "klamm topics describe --under-min-isr --unavailable",
        "klamm topics describe -o json",
    )
)
@talks_to_cluster()
@_filters
def describe(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Default: all topics.", autocompletion=topic_names)
    ] = None,
    *,
    configs: ShowConfigsOption = False,
    filters: frozenset[PartitionFilter],
    cluster: Cluster,
) -> None:
    """Show leader, leader epoch, ISR and replicas of each partition.

    With several filters, the partitions to which any of them applies. While
    no controller is active, from the metadata of the brokers, which has no
    configs and no partition epochs.
    """

    async def ask(client: AdminClient) -> _Described:
        topics = chosen((await client.describe_topics(names if names else None)).topics, filters)
        return topics, await _settings(client, topics) if configs else {}

    (described, settings), why_of_brokers = cluster.ask(
        lambda client: of_controller_or_brokers(
            client, ask(client), names if names else None, lambda known: (chosen_of_metadata(known, filters), {})
        )
    )
    say_source(why_of_brokers)
    known = [t for t in described if t.error_code is ErrorCode.NONE]
    documents = [_document(t) | ({"settings": settings.get(t.name)} if configs else {}) for t in known]
    if filters and not described:
        say("there are no such partitions")
    if known or not (described or filters) or cluster.form is not Format.TABLE:
        document = {"topics": documents, "source": source(why_of_brokers)}
        write(document, cluster.form, *_table(known))
    if configs and cluster.form is Format.TABLE:
        for name, found in settings.items():
            typer.echo(f"\ntopic {name}")
            write_configs(found)
    for topic in known:
        if topic.queued_for_deletion:
            say(f"topic {topic.name} is being deleted; 'klamm topics delete {topic.name}' shows the progress")
        elif not topic.partitions:
            say(f"topic {topic.name} has no partitions; 'klamm cluster health' says whether its znode is malformed")
    refuse_missing(described)


def _table(topics: Sequence[DescribedTopic]) -> tuple[list[str], Iterable[Sequence[object]]]:
    """Make the columns and a row for each partition."""
    extra = [key for key, of in _EXTRA_COLUMNS.items() if any(of(p) for t in topics for p in t.partitions)]
    rows = (
        (
            t.name,
            p.partition,
            "none" if p.leader < 0 else p.leader,
            p.leader_epoch,
            None if p.partition_epoch == UNKNOWN_PARTITION_EPOCH else p.partition_epoch,
            p.isr,
            p.replicas,
            *(_EXTRA_COLUMNS[key](p) for key in extra),
        )
        for t in topics
        for p in t.partitions
    )
    return [*_COLUMNS, *extra], rows


async def _settings(client: AdminClient, topics: list[DescribedTopic]) -> dict[str, list[dict[str, Any]]]:
    known = [ConfigResource(TOPIC_RESOURCE, t.name) for t in topics if t.error_code is ErrorCode.NONE]
    results = (await client.describe_configs(known)).results
    return {r.resource_name: config_documents(r.configs) for r in results}


def _document(topic: DescribedTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "configs": topic.configs,
        "queued_for_deletion": topic.queued_for_deletion,
        "min_insync_replicas": topic.min_insync_replicas,
        "partitions": [partition_document(p) for p in topic.partitions],
    }
