"""`klamm consume`: print the records of a topic, one per line."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from typing import Annotated

import typer
from msgspec import Struct

from admin.cli.completions import topic_names
from admin.cli.options import TIMEOUT_MAX_S, names_cluster, run
from admin.cli.output import counted, examples, say
from admin.cli.target import Target
from admin.consumer import Consumer, list_offsets
from admin.record_batches import Record
from admin.topology import Topology
from cluster.broker import Offset
from cluster.errors import ApiError, ErrorCode
from cluster.requests.data import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

app = typer.Typer()


class _Order(Struct, frozen=True):
    """What to read, from where, and up to where."""

    topic: str
    partition: int | None
    from_beginning: bool
    offset: int | None
    max_messages: int | None
    until_end: bool
    with_keys: bool
    timeout_s: float


@app.command(
    epilog=examples(
        "klamm consume orders --from-beginning --until-end",
        "klamm consume orders --partition 0 --offset 1000 --max-messages 10 --with-keys",
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
    max_messages: Annotated[int | None, typer.Option(min=1, help="Stop after this many records.")] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop at the high watermarks seen at the start.")
    ] = False,
    with_keys: Annotated[bool, typer.Option("--with-keys", help="Print KEY<TAB>VALUE.")] = False,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=TIMEOUT_MAX_S, help="Seconds to wait for partition leaders.")
    ] = 30,
    target: Target,
) -> None:
    """Print the records of a topic to stdout, one per line, and follow new ones until Ctrl-C.

    Records of one partition are in offset order; partitions are
    interleaved.
    """
    if from_beginning and offset is not None:
        raise typer.BadParameter("--from-beginning and --offset cannot be combined")
    order = _Order(topic, partition, from_beginning, offset, max_messages, until_end, with_keys, timeout)
    run(_consume(order, target))


async def _consume(order: _Order, target: Target) -> None:
    started = asyncio.get_running_loop().time()
    count = 0

    def tell() -> None:
        seconds = asyncio.get_running_loop().time() - started
        say(f"{counted(count, 'record')} in {seconds:.2f} s: {count / seconds:,.0f} records/s")

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
    async with target.connect(order.timeout_s) as client:
        topology = Topology(client)
        positions, ends = await _range(topology, order)
        async with (
            Consumer(topology, order.topic, positions, until=ends) as consumer,
            contextlib.aclosing(consumer.fetched()) as fetched,
        ):
            async for part in fetched:
                records = part.records[:left]
                sys.stdout.buffer.write(_lines(records, order.with_keys))
                sys.stdout.buffer.flush()
                yield len(records)
                left = None if left is None else left - len(records)
                if left == 0:
                    return


async def _range(topology: Topology, order: _Order) -> tuple[dict[int, Offset], dict[int, Offset] | None]:
    """Where each partition starts, and with --until-end where it stops."""
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
    timestamp = EARLIEST_TIMESTAMP if order.from_beginning else LATEST_TIMESTAMP
    starts = await list_offsets(topology, order.topic, dict.fromkeys(partitions, timestamp), order.timeout_s)
    return starts, ends


def _lines(records: list[Record], with_keys: bool) -> bytes:
    if with_keys:
        parts = [b"%b\t%b" % (b"" if r.key is None else r.key, b"" if r.value is None else r.value) for r in records]
    else:
        parts = [b"" if r.value is None else r.value for r in records]
    return b"\n".join(parts) + b"\n" if parts else b""
