"""`klamm topics offsets`: show where the log of each partition begins and ends, as kafka-get-offsets does."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from admin.cli.completions import topic_names
from admin.cli.options import Cluster, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.parsing import parse_since
from admin.connecting.client import AdminClient
from admin.consuming.offsets import find_offsets, find_times
from admin.describing.topology import Topology
from cluster.aio.clock import SystemClock
from cluster.model.bounds import INT64_MAX
from cluster.model.broker import UNKNOWN_OFFSET
from cluster.model.exit_codes import ExitCode
from cluster.requests.data import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsResult,
)

OFFSETS_EXAMPLES = examples(
    "klamm topics offsets orders",
    "klamm topics offsets orders --since 1h   (and the first record of the last hour)",
    "klamm topics offsets orders --time max-timestamp   (the newest record, by its timestamp)",
    "klamm topics offsets orders payments -o json",
    exit_codes="0 done; 1 a partition has no leader that answers; 2 wrong usage.",
)
_ENDS_OF_LOGS: Final[Mapping[str, int]] = {
    "latest": LATEST_TIMESTAMP,
    "earliest": EARLIEST_TIMESTAMP,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL_TIMESTAMP,
}
_TIMES: Final = {**_ENDS_OF_LOGS, **{str(number): number for number in _ENDS_OF_LOGS.values()}}
"""The times that are none, as words and as numbers. Source: Kafka GetOffsetShell."""


@talks_to_cluster(timeout=10)
def offsets(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", autocompletion=topic_names)],
    *,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Also the first offset since: 30s, 10m, 2h, 1d, or '2026-01-31 09:00' UTC."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Instead, the offset at a time: latest, earliest, max-timestamp, ms since 1970, or as for --since.",
        ),
    ] = None,
    cluster: Cluster,
) -> None:
    """Show the start offset and the end offset of each partition, by its leader.

    END is the high watermark, where consumers get to: the offset of the next
    record. END - START is the number of records, except where retention or
    transactions have left gaps. With --time one offset, as kafka-get-offsets
    shows it, and a timestamp in ms: of max-timestamp the first record with
    the largest timestamp; of a time the first record since then. Where there
    is no such record, both are empty.
    """
    if time is not None:
        _show_at(names, time, since, cluster)
        return
    since_ms = None if since is None else parse_since(since, SystemClock().now_ms())

    async def main(client: AdminClient) -> list[dict[str, Any]]:
        topology = Topology(client)
        of_topics = await asyncio.gather(
            *(_of_topic(topology, name, since_ms, cluster.timeout) for name in dict.fromkeys(names))
        )
        return [row for rows in of_topics for row in rows]

    rows = cluster.ask(main)
    keys: tuple[str, ...] = (
        "topic",
        "partition",
        "start_offset",
        "end_offset",
        *(() if since is None else ("offset_since",)),
    )
    columns = [key.removesuffix("_offset") for key in keys]
    write({"partitions": rows}, cluster.form, columns, ([row[key] for key in keys] for row in rows))
    _report_unknown([f"{row['topic']}-{row['partition']}" for row in rows if row["end_offset"] is None])


def _show_at(names: Sequence[str], time: str, since: str | None, cluster: Cluster) -> None:
    """Show one offset of each partition, that at a time."""
    if since is not None:
        raise typer.BadParameter("--time shows one offset, --since one more: pass one of them")
    timestamp = _parse_time(time, SystemClock().now_ms())

    async def of_topic(topology: Topology, topic: str) -> list[dict[str, Any]]:
        partitions = await topology.partitions(topic)
        found = await find_times(topology, topic, dict.fromkeys(partitions, timestamp), cluster.timeout)
        unknown.extend(f"{topic}-{p}" for p in partitions if p not in found)
        return [_row_at(topic, p, found.get(p)) for p in partitions]

    async def main(client: AdminClient) -> list[dict[str, Any]]:
        topology = Topology(client)
        of_topics = await asyncio.gather(*(of_topic(topology, name) for name in dict.fromkeys(names)))
        return [row for rows in of_topics for row in rows]

    unknown: list[str] = []
    rows = cluster.ask(main)
    columns = ("topic", "partition", "offset", "timestamp")
    write({"partitions": rows}, cluster.form, columns, (tuple(row.values()) for row in rows))
    _report_unknown(sorted(unknown))


def _row_at(topic: str, partition: int, found: ListOffsetsResult | None) -> dict[str, Any]:
    offset = None if found is None or found.offset == UNKNOWN_OFFSET else found.offset
    timestamp = None if found is None or found.timestamp < 0 else found.timestamp
    return {"topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp}


def _parse_time(text: str, now_ms: int) -> int:
    """Parse the values of kafka-get-offsets' --time, as words or numbers, or a time. Raises BadParameter."""
    if text in _TIMES:
        return _TIMES[text]
    if text.isdecimal() and int(text) <= INT64_MAX:
        return int(text)
    try:
        return parse_since(text, now_ms, "--time")
    except typer.BadParameter as error:
        names = ", ".join(_ENDS_OF_LOGS)
        raise typer.BadParameter(f"{error.message}, or {names}", param_hint="--time") from None


def _report_unknown(partitions: Sequence[str]) -> None:
    if partitions:
        say(f"no leader of {', '.join(partitions)} answers; 'klamm cluster health' says why")
        raise typer.Exit(ExitCode.REFUSED)


async def _of_topic(topology: Topology, topic: str, since_ms: int | None, timeout_s: float) -> list[dict[str, Any]]:
    """Make a row for each partition; offsets are None if no leader answered in time or no record is that new."""
    partitions = await topology.partitions(topic)
    wanted = (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, *(() if since_ms is None else (since_ms,)))
    ends, starts, *found = await asyncio.gather(
        *(find_offsets(topology, topic, dict.fromkeys(partitions, at), timeout_s) for at in wanted)
    )
    since = {p: offset for of_time in found for p, offset in of_time.items() if offset != UNKNOWN_OFFSET}
    return [
        {"topic": topic, "partition": p, "start_offset": starts.get(p), "end_offset": ends.get(p)}
        | ({} if since_ms is None else {"offset_since": since.get(p)})
        for p in partitions
    ]
