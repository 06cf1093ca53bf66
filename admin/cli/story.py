"""`klamm story TOPIC-PARTITION`: show the leaders and changes of one partition, from the logs of all nodes."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import typer

from admin.cli.completions import partition_names
from admin.cli.options import TIMEOUT_MAX_S, FormatOption, names_cluster, run
from admin.cli.output import examples, say, say_wait, write
from admin.cli.parsing import parse_partition_names, parse_since
from admin.cli.target import Target
from admin.connecting.client import AdminClient
from cluster.aio.clock import SystemClock
from cluster.cli.documents import Format, write_table
from cluster.model.errors import (
    ApiError,
    ConnectionRefusedByHostError,
    ErrorCode,
    PeerUnreachableError,
    StartupError,
    UnresolvableHostError,
)
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import DescribeClusterResponse, ReadStateChangesResponse
from state_log.causes import ControllerCall, request_text, utc_text
from state_log.kafka.reader import read_kafka_state_changes, with_topic_id
from state_log.reader import merge, read_state_changes
from state_log.record import LoggedStateChange
from state_log.story import LeadershipSpan, StoryLine, leadership_history, story

app = typer.Typer()


@app.command(
    "story",
    epilog=examples(
        "klamm story orders-0",
        "klamm story orders-0 --bootstrap localhost:9092 -o json",
        "klamm story orders-0 --since 10m --limit 20",
        "klamm story t1-0 --log-dir runs/seed-60",
        exit_codes="0 done; 1 unknown partition, no logs or no answer; 2 wrong usage.",
    ),
)
@names_cluster
def show(
    partition: Annotated[
        str, typer.Argument(metavar="TOPIC-PARTITION", help="Such as orders-0.", autocompletion=partition_names)
    ],
    *,
    log_dir: Annotated[
        list[Path] | None,
        typer.Option(help="Read the state-change logs, Kafka's too, in this folder. Repeatable."),
    ] = None,
    timezone: Annotated[
        str, typer.Option(metavar="NAME", help="Time zone of the local times in logs of Apache Kafka.")
    ] = "UTC",
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only what happened since: 30s, 10m, 2h, 1d, or a UTC time '2026-01-31 09:00'."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only this many leaders and events, the last ones.")] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=TIMEOUT_MAX_S, help="Seconds to wait for the nodes, all of them together.")
    ] = 10,
    form: FormatOption = Format.TABLE,
    target: Target,
) -> None:
    """Show the history of one partition: its leaders, and every recorded change with its cause.

    The oldest comes first, and causes always before their effects: where
    the clocks of two nodes disagree, times step back from one line to the
    next. With a data folder or --log-dir it reads files, which works while
    the cluster is down; otherwise it asks every live node. Files named
    state-change.log are those of Apache Kafka's brokers, with local times.
    """
    (wanted,) = parse_partition_names([partition])
    begins_ms = None if since is None else parse_since(since, SystemClock().now_ms())
    missing: list[str] = []
    if log_dir or target.bootstrap is None:
        records = _read_files(log_dir if log_dir else [target.data / "state-changes"], wanted, timezone)
    else:
        records, missing = run(_ask_nodes(target, timeout, wanted))
    for node in missing:
        say(f"incomplete: {node} did not answer")
    if all(record.partition != wanted.partition for record in records):
        known = "; there are of its topic" if records else ""
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"no records of partition {partition}{known}; 'klamm topics list' shows the existing topics",
        )
    # All are put in order first: the cause of what is shown may be older than what is shown.
    lines, leaderships = story(records), leadership_history(records)
    if begins_ms is not None:
        lines = [line for line in lines if line.at_ms >= begins_ms]
        leaderships = [span for span in leaderships if span.until_ms is None or span.until_ms >= begins_ms]
    if limit is not None:
        lines, leaderships = lines[-limit:], leaderships[-limit:]
    _show(lines, leaderships, missing, form)


def _show(lines: list[StoryLine], leaderships: list[LeadershipSpan], missing: list[str], form: Format) -> None:
    """Print the leaders over time first, because they are asked for most, then every record, then the requests."""
    document: dict[str, Any] = {
        "records": [_with_call(line) for line in lines],
        "story": [{"at_ms": line.at_ms, "node": line.node, "message": line.message} for line in lines],
        "leaderships": [_span_document(span) for span in leaderships],
        "missing_nodes": missing,
    }
    if form is not Format.TABLE:
        write(document, form, (), ())
        return
    several = len({span.topic_id for span in leaderships}) > 1
    columns = (*(("topic_id",) if several else ()), "leader", "epoch", "from_utc", "until", "cause", "request")
    numbers = _numbered(call for of in (leaderships, lines) for call in (item.call for item in of))
    rows = [_row(span, _number(numbers, span.call)) for span in leaderships]
    write_table(columns, [row[-len(columns) :] for row in rows])
    typer.echo("")
    columns = ("time_utc", "node", "event", "cause", "request")
    events = ((utc_text(line.at_ms), line.node, line.change, line.cause, _number(numbers, line.call)) for line in lines)
    write_table(columns, events)
    if numbers:
        typer.echo("")
        write_table(("request", "what_is_known_of_it"), ((n, request_text(call)) for call, n in numbers.items()))


def _row(span: LeadershipSpan, request: int | None) -> tuple[object, ...]:
    since, until = utc_text(span.since_ms), "now" if span.until_ms is None else utc_text(span.until_ms)
    if span.deleted:
        return span.topic_id, "deleted", None, since, None, span.cause, request
    leader = "none" if span.leader < 0 else span.leader
    return span.topic_id, leader, span.leader_epoch, since, until, span.cause, request


def _numbered(calls: Iterable[ControllerCall | None]) -> dict[ControllerCall, int]:
    """Number the requests from 1, in the order in which they are shown."""
    return {call: number for number, call in enumerate(dict.fromkeys(c for c in calls if c is not None), 1)}


def _number(numbers: Mapping[ControllerCall, int], call: ControllerCall | None) -> int | None:
    return None if call is None else numbers[call]


def _span_document(span: LeadershipSpan) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(span)
    del document["call"], document["cause"]
    return document | {"why": span.why}


def _with_call(line: StoryLine) -> dict[str, Any]:
    """Return the record as it was written; an agent's record also gets the fields that name the request behind it."""
    record: dict[str, Any] = msgspec.to_builtins(line.record)
    call = line.call
    named = (
        () if call is None else (("request_id", call.request_id), ("principal", call.principal), ("peer", call.peer))
    )
    return {**record, **{name: value for name, value in named if value is not None}}


def _time_zone(name: str) -> str:
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        why = f"{name}: no such time zone; give one of the time zone database, such as Europe/Berlin"
        raise typer.BadParameter(why, param_hint="--timezone") from None


def _read_files(folders: Sequence[Path], wanted: TopicPartition, timezone: str) -> list[LoggedStateChange]:
    absent = [str(folder) for folder in folders if not folder.is_dir()]
    if absent:
        raise StartupError(
            f"no state-change logs: {', '.join(absent)} is not a directory; pass --data, --log-dir or --bootstrap"
        )
    of_kafka = list(read_kafka_state_changes(folders, wanted, _time_zone(timezone)))
    own = list(read_state_changes(folders, wanted.topic, wanted.partition))
    return [*own, *with_topic_id(of_kafka, own)]


async def _ask_nodes(
    target: Target, timeout_s: float, wanted: TopicPartition
) -> tuple[list[LoggedStateChange], list[str]]:
    """Merge the records of all nodes that answer, and name those that do not."""
    lines: list[bytes] = []
    missing: list[str] = []
    async with target.connect(timeout_s, say_wait) as client:
        with client.within_timeout():
            described = await client.describe_cluster()
            if described.controller_address and not described.brokers:
                # A standby, which does not know the brokers.
                try:
                    described = await client.describe_node(described.controller_address)
                except PeerUnreachableError:
                    missing.append(f"{described.controller_address} (and with it the addresses of the brokers)")
            if client.kafka is not None:
                instead = "--log-dir takes their state-change.log files with klamm's logs"
                say(f"brokers of Apache Kafka are not asked: {instead}")
            addresses = client.nodes_of(described)
            questions = [(client.name(address), _answer_of(client, address, wanted)) for address in addresses]
            dead, answers = await asyncio.gather(
                _dead_hosts(client, wanted, described), client.waiting.answers(questions, client.limits.left_s)
            )
        registered = client.registered_nodes_of(described)
    missing += dead
    for address, answer in zip(addresses, answers, strict=True):
        if not isinstance(answer, ReadStateChangesResponse):
            # At an address that somebody gave, and that refuses, there need not be a node.
            if address in registered or not isinstance(answer, ConnectionRefusedByHostError | UnresolvableHostError):
                missing.append(address)
            continue
        lines += answer.lines
        if answer.truncated:
            missing.append(f"{address} (oldest records)")
    return list(merge(lines, wanted.topic, wanted.partition)), missing


async def _answer_of(
    client: AdminClient, address: str, wanted: TopicPartition
) -> ReadStateChangesResponse | PeerUnreachableError:
    try:
        return await client.read_state_changes(address, wanted.topic, wanted.partition)
    except PeerUnreachableError as error:
        return error


async def _dead_hosts(client: AdminClient, wanted: TopicPartition, described: DescribeClusterResponse) -> list[str]:
    """Names of the offline brokers that host the partition, unless they are of Apache Kafka."""
    if client.kafka is not None or not described.controller_address:
        return []
    try:
        topics = (await client.describe_topics([wanted.topic])).topics
    except PeerUnreachableError:
        # The controller does not answer: it will be reported as missing, and the other nodes are asked.
        return []
    return [
        f"broker-{broker}"
        for topic in topics
        for partition in topic.partitions
        if partition.partition == wanted.partition
        for broker in partition.offline_replicas
    ]
