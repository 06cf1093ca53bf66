"""`klamm topics offsets`: show where the log of each partition begins and ends, as kafka-get-offsets does."""

import asyncio
from typing import Annotated, Any

import typer

from admin.cli.completions import topic_names
from admin.cli.options import Cluster, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.parsing import parse_since
from admin.client import AdminClient
from admin.offsets import find_offsets
from admin.topology import Topology
from cluster.aio.clock import SystemClock
from cluster.model.broker import UNKNOWN_OFFSET
from cluster.model.exit_codes import ExitCode
from cluster.requests.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

OFFSETS_EXAMPLES = examples(
    "klamm topics offsets orders",
    "klamm topics offsets orders --since 1h   (and the first record of the last hour)",
    "klamm topics offsets orders payments -o json",
    exit_codes="0 done; 1 a partition has no leader that answers; 2 wrong usage.",
)


@talks_to_cluster(timeout=10)
def offsets(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", autocompletion=topic_names)],
    *,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Also the first offset since: 30s, 10m, 2h, 1d, or '2026-01-31 09:00' UTC."),
    ] = None,
    cluster: Cluster,
) -> None:
    """Show the start offset and the end offset of each partition, by its leader.

    END is the high watermark, where consumers get to: the offset of the next
    record. END - START is the number of records, except where retention or
    transactions have left gaps.
    """
    since_ms = None if since is None else parse_since(since, SystemClock().now_ms())

    async def main(client: AdminClient) -> list[dict[str, Any]]:
        topology = Topology(client)
        of_topics = await asyncio.gather(
            *(_of_topic(topology, name, since_ms, cluster.timeout) for name in dict.fromkeys(names))
        )
        return [row for rows in of_topics for row in rows]

    rows = cluster.ask(main)
    keys = ("topic", "partition", "start_offset", "end_offset", *(() if since is None else ("offset_since",)))
    columns = [key.removesuffix("_offset") for key in keys]
    write({"partitions": rows}, cluster.form, columns, ([row[key] for key in keys] for row in rows))
    unknown = [f"{row['topic']}-{row['partition']}" for row in rows if row["end_offset"] is None]
    if unknown:
        say(f"no leader of {', '.join(unknown)} answers; 'klamm cluster health' says why")
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
