"""`klamm consume`: print the records of a topic, one per line."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Annotated

import typer
from msgspec import Struct

from admin.cli.completions import topic_names
from admin.cli.options import TIMEOUT_MAX_S, names_cluster, run
from admin.cli.output import examples, say, say_wait
from admin.cli.parsing import parse_since
from admin.cli.record_formats import Part, json_lines, text_lines
from admin.cli.target import Target
from admin.consuming.consumer import Consumer, ConsumerOptions
from admin.consuming.offsets import list_offsets
from admin.consuming.record_batches import Record
from admin.describing.topology import Topology
from cluster.aio.clock import SystemClock
from cluster.model.broker import UNKNOWN_OFFSET, Offset
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.printable import counted
from cluster.requests.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

app = typer.Typer()


class _Order(Struct, frozen=True):
    """Says what to read, from where and up to where."""

    topic: str
    partition: int | None
    from_beginning: bool
    offset: int | None
    max_messages: int | None
    until_end: bool
    since_ms: int | None
    parts: tuple[Part, ...]
    separator: bytes
    as_json: bool
    rack: str
    timeout_s: float

    @property
    def begins_at_end(self) -> bool:
        return not self.from_beginning and self.offset is None and self.since_ms is None


class _Format(StrEnum):
    """Says how records are printed."""

    TEXT = "text"
    JSON = "json"


RackOption = Annotated[
    str, typer.Option(help="Read from replicas in this rack, where the brokers have replica.selector.class.")
]


@app.command(
    epilog=examples(
        "klamm consume orders --from-beginning --until-end",
        "klamm consume orders --partition 0 --offset 1000 --max-messages 10 --with-keys",
        "klamm consume orders --since 10m --with-timestamps --with-offsets --separator ' '",
        "klamm consume orders --from-beginning --until-end -o json | klamm produce copy --input json",
        exit_codes="0 done; 1 a partition cannot be read; 2 wrong usage; 130 Ctrl-C.",
    )
)
@names_cluster
def consume(
    topic: Annotated[str, typer.Argument(help="The topic to read.", autocompletion=topic_names)],
    *,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Start at the log start. Default: at the end.")
    ] = False,
    offset: Annotated[int | None, typer.Option(min=0, help="Start at this offset of each partition.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Read only this partition. Default: all.")] = None,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", "-n", min=1, help="Stop after this many records.")
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop at the high watermarks seen at the start.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start at this time: 10m (ago), 2h, or a UTC time '2026-01-31 09:00'."),
    ] = None,
    with_timestamps: Annotated[bool, typer.Option("--with-timestamps", help="Print CreateTime:MILLISECONDS.")] = False,
    with_partitions: Annotated[bool, typer.Option("--with-partitions", help="Print Partition:NUMBER.")] = False,
    with_offsets: Annotated[bool, typer.Option("--with-offsets", help="Print Offset:NUMBER.")] = False,
    with_headers: Annotated[bool, typer.Option("--with-headers", help="Print NAME:VALUE,… or NO_HEADERS.")] = False,
    with_keys: Annotated[bool, typer.Option("--with-keys", help="Print KEY<TAB>VALUE.")] = False,
    separator: Annotated[
        str, typer.Option(help="Separator of these and the value. Default: a tab.", show_default=False)
    ] = "\t",
    form: Annotated[_Format, typer.Option("-o", "--format", help="json: one object per line.")] = _Format.TEXT,
    rack: RackOption = "",
    timeout: Annotated[
        float, typer.Option(min=0.1, max=TIMEOUT_MAX_S, help="Seconds to wait for partition leaders.")
    ] = 30,
    target: Target,
) -> None:
    """Print the records of a topic to stdout, one per line, and follow new ones until Ctrl-C.

    Records of one partition are in offset order; partitions are
    interleaved. In JSON, keys and values that are not UTF-8 are
    {"base64": …}.
    """
    if sum((from_beginning, offset is not None, since is not None)) > 1:
        raise typer.BadParameter("--from-beginning, --offset and --since cannot be combined")
    wanted = (with_timestamps, with_partitions, with_offsets, with_headers, with_keys)
    order = _Order(
        topic=topic,
        partition=partition,
        from_beginning=from_beginning,
        offset=offset,
        max_messages=max_messages,
        until_end=until_end,
        since_ms=None if since is None else parse_since(since, SystemClock().now_ms()),
        parts=tuple(part for part, is_wanted in zip(Part, wanted, strict=True) if is_wanted),
        separator=os.fsencode(separator),
        as_json=form is _Format.JSON,
        rack=rack,
        timeout_s=timeout,
    )
    if order.until_end and order.begins_at_end:
        say("--until-end stops where consume starts by itself: add --from-beginning, --offset or --since")
    run(_consume(order, target))


async def _consume(order: _Order, target: Target) -> None:
    started = asyncio.get_running_loop().time()
    count = 0

    def tell() -> None:
        seconds = asyncio.get_running_loop().time() - started
        say(f"{counted(count, 'record')} in {seconds:.2f} s: {counted(round(count / seconds), 'record')}/s")

    try:
        async with contextlib.aclosing(_copy(order, target)) as copied:
            async for number in copied:
                count += number
    except asyncio.CancelledError:
        # Ctrl-C is the normal way to stop following a topic.
        tell()
        raise
    tell()


async def _copy(order: _Order, target: Target) -> AsyncGenerator[int]:
    """Write the records to stdout, yielding the number of records after each write."""
    left = order.max_messages
    async with target.connect(order.timeout_s, say_wait) as client:
        topology = Topology(client)
        with client.within_timeout():
            await topology.check_records_are_here("kafka-console-consumer.sh", order.topic)
            positions, ends = await _range(topology, order)
        async with (
            Consumer(
                topology, order.topic, positions, until=ends, options=ConsumerOptions(client_rack=order.rack)
            ) as consumer,
            contextlib.aclosing(consumer.fetched()) as fetched,
        ):
            async for part in fetched:
                records = part.records[:left]
                sys.stdout.buffer.write(_lines(order, part.partition, records))
                sys.stdout.buffer.flush()
                yield len(records)
                left = None if left is None else left - len(records)
                if left == 0:
                    return


async def _range(topology: Topology, order: _Order) -> tuple[dict[int, Offset], dict[int, Offset] | None]:
    """Find the offset where each partition starts and, with --until-end, where it stops."""
    partitions = await topology.partitions(order.topic)
    if order.partition is not None:
        if order.partition not in partitions:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {order.topic!r} has no partition {order.partition}: it has {len(partitions)}, numbered from 0",
                field="partition",
                value=order.partition,
            )
        partitions = [order.partition]
    ends = None
    if order.until_end:
        latest = dict.fromkeys(partitions, LATEST_TIMESTAMP)
        ends = await list_offsets(topology, order.topic, latest, order.timeout_s)
    if order.offset is not None:
        return dict.fromkeys(partitions, Offset(order.offset)), ends
    since = LATEST_TIMESTAMP if order.since_ms is None else order.since_ms
    timestamp = EARLIEST_TIMESTAMP if order.from_beginning else since
    starts = await list_offsets(topology, order.topic, dict.fromkeys(partitions, timestamp), order.timeout_s)
    # A partition without a record of that time or later.
    if late := [p for p, start in starts.items() if start == UNKNOWN_OFFSET]:
        latest = dict.fromkeys(late, LATEST_TIMESTAMP)
        starts |= await list_offsets(topology, order.topic, latest, order.timeout_s)
    return starts, ends


def _lines(order: _Order, partition: int, records: list[Record]) -> bytes:
    if order.as_json:
        return json_lines(order.topic, partition, records)
    return text_lines(partition, records, order.parts, order.separator)
