"""`klamm produce`: produce a record for each line; print the number of acknowledged records, but not to a terminal."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from admin.cli.completions import topic_names
from admin.cli.lines import read_lines
from admin.cli.options import TIMEOUT_MAX_S, Acks, names_cluster, run
from admin.cli.output import examples, say, say_wait
from admin.cli.record_formats import NewRecord, parse_json_line
from admin.cli.target import Target
from admin.consuming.record_batches import Headers
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.producer import Producer
from cluster.aio.clock import SystemClock
from cluster.model.compression import CompressionCodec
from cluster.model.errors import ApiError, ClusterError, ErrorCode
from cluster.model.printable import counted

app = typer.Typer()

_PROBE_TIMEOUT_S = 15.0
_LINES_TIMEOUT_S = 120.0
_FIND_TIMEOUT_S = 30.0
ACKS = {Acks.NONE: 0, Acks.LEADER: 1, Acks.ALL: -1}


class _Input(StrEnum):
    """Names what is read."""

    LINES = "lines"
    JSON = "json"


class BatchCompression(StrEnum):
    """Names the values of Kafka's compression.type; each has the name of its Codec."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


TopicArgument = Annotated[
    str, typer.Argument(help="An existing topic; 'klamm topics create' makes one.", autocompletion=topic_names)
]
AcksOption = Annotated[Acks, typer.Option(help="0 none, 1 the leader, all the in-sync replicas.")]
IdempotenceOption = Annotated[
    bool | None, typer.Option(help="Store each record once, however often it is sent. Default: on with --acks all.")
]
CompressionOption = Annotated[BatchCompression, typer.Option(help="How batches are compressed.")]
BatchSizeOption = Annotated[int, typer.Option(min=1, help="Maximum bytes per batch.")]
LingerOption = Annotated[
    int, typer.Option("--linger-ms", "--linger", min=0, help="Milliseconds a batch waits for more records.")
]


class _Order(Struct, frozen=True):
    """Says what to produce, and how."""

    topic: str
    partition: int | None
    count: int | None
    file: Path | None
    split_keys: bool
    separator: bytes
    as_json: bool
    headers: Headers
    options: ProducerOptions


@app.command(
    epilog=examples(
        "seq 1000 | klamm produce orders",
        "klamm produce orders --file lines.txt --no-keys --acks 1",
        "echo 'key=value' | klamm produce orders --key-separator = --header source=shell --compression zstd",
        "klamm produce orders --input json --file records.json",
        "klamm produce orders --count 100   (is the topic writable?)",
        exit_codes="0 all acknowledged; 1 some not acknowledged; 2 wrong usage; 130 Ctrl-C.",
    )
)
@names_cluster
def produce(
    topic: TopicArgument,
    *,
    file: Annotated[Path | None, typer.Option(help="Read lines from this file instead of stdin.")] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Generate this many small records instead of reading input.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Send all records to this partition.")] = None,
    acks: AcksOption = Acks.ALL,
    idempotence: IdempotenceOption = None,
    input_: Annotated[_Input, typer.Option("--input", help="json: an object per line.")] = _Input.LINES,
    keys: Annotated[bool, typer.Option(help="Split lines at the first tab into key and value.")] = True,
    key_separator: Annotated[str | None, typer.Option(help="Split lines at this instead of a tab.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header of every record. Repeatable.")
    ] = None,
    compression: CompressionOption = BatchCompression.NONE,
    batch_size: BatchSizeOption = 262_144,
    linger_ms: LingerOption = 5,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=TIMEOUT_MAX_S,
            help="Seconds until an unacknowledged record fails. Default: 120, or 15 with --count.",
        ),
    ] = None,
    target: Target,
) -> None:
    """Produce one record per line of stdin or of a file; a tab separates key and value.

    A record with a key goes to the partition its key hashes to, as with
    Kafka's clients; each batch of records without a key goes to another
    partition. --input json takes key, value, headers and timestamp of each
    object, as 'klamm consume -o json' writes them, and ignores its topic,
    partition and offset; other keys are refused. The producer is idempotent
    unless --acks is 0 or 1: a record that is sent again is stored once. If
    stdout is not a terminal, it gets the number of acknowledged records.
    """
    _check(count, file, input_, key_separator)
    timeout_s = timeout or (_LINES_TIMEOUT_S if count is None else _PROBE_TIMEOUT_S)
    order = _Order(
        *(topic, partition, count, file),
        split_keys=keys,
        separator=os.fsencode("\t" if key_separator is None else key_separator),
        as_json=input_ is _Input.JSON,
        headers=_parse_headers(header or ()),
        options=ProducerOptions(
            acks=ACKS[acks],
            enable_idempotence=idempotence,
            compression_type=CompressionCodec[compression.name],
            batch_size=batch_size,
            linger_ms=linger_ms,
            delivery_timeout_ms=int(timeout_s * 1000),
            request_timeout_ms=int(min(timeout_s, 30) * 1000),
        ),
    )
    run(_produce(order, target))


def _check(count: int | None, file: Path | None, input_: _Input, key_separator: str | None) -> None:
    if count is not None and file is not None:
        raise typer.BadParameter("--count generates its records: it cannot be combined with --file")
    if input_ is _Input.JSON and key_separator is not None:
        raise typer.BadParameter("--input json and --key-separator are mutually exclusive: objects name their key")
    if key_separator == "":
        raise typer.BadParameter("--key-separator must not be empty; --no-keys takes lines as they are")


async def _produce(order: _Order, target: Target) -> None:
    started = asyncio.get_running_loop().time()
    refused: ClusterError | None = None
    async with target.connect(min(order.options.delivery_timeout_ms / 1000, _FIND_TIMEOUT_S), say_wait) as client:
        topology = Topology(client)
        await topology.check_records_are_here("kafka-console-producer.sh", order.topic)
        producer = Producer(topology, SystemClock(), order.options)
        try:
            with _reported_on_interrupt(producer):
                async with producer, asyncio.TaskGroup() as tasks:
                    # Before anything is read: it may come slowly, or not at all.
                    await topology.partitions(order.topic)
                    progress = tasks.create_task(_show_progress(producer, order.count))
                    size = await _send_all(producer, order)
                    await producer.flush()
                    progress.cancel()
        except* ClusterError as group:
            # The number of records acknowledged before the failure is printed all the same.
            refused = next(e for e in group.exceptions if isinstance(e, ClusterError))
    totals = producer.totals
    if refused is None:
        _report(producer, order, size, asyncio.get_running_loop().time() - started)
    _print_acknowledged(totals.acknowledged)
    error = refused if refused is not None else totals.first_error
    if error is not None:
        if totals.failed:
            say(f"{counted(totals.failed, 'record')} not acknowledged")
        raise error


@contextmanager
def _reported_on_interrupt(producer: Producer) -> Iterator[None]:
    """Print the number of acknowledged records on Ctrl-C too."""
    try:
        yield
    except asyncio.CancelledError:
        _print_acknowledged(producer.totals.acknowledged)
        raise


def _print_acknowledged(records: int) -> None:
    """Print the number for programs; on a terminal the report on stderr says it in words."""
    if not sys.stdout.isatty():
        typer.echo(records)


async def _send_all(producer: Producer, order: _Order) -> int:
    """Send every record. Returns the bytes of their keys and values."""
    size = 0
    async for records in _records(order):
        for record in records:
            headers = (*order.headers, *record.headers)
            try:
                await producer.send(
                    order.topic,
                    record.key,
                    record.value,
                    order.partition,
                    headers=headers,
                    timestamp=record.timestamp,
                )
                size += record.size
            except ApiError as error:
                # A record that is too large is refused alone; the others are sent.
                if error.code is not ErrorCode.MESSAGE_TOO_LARGE:
                    raise
                producer.refuse(1, error)
    return size


async def _records(order: _Order) -> AsyncIterator[list[NewRecord]]:
    if order.count is not None:
        for start in range(0, order.count, 1000):
            yield [NewRecord(None, b"record %d" % n) for n in range(start, min(start + 1000, order.count))]
            await asyncio.sleep(0)
        return
    if order.file is None and sys.stdin.isatty():
        say("reading lines from the terminal; Ctrl-D ends the input")
    number = 1
    async for lines in read_lines(order.file):
        yield [_record(order, number + index, line) for index, line in enumerate(lines)]
        number += len(lines)


def _record(order: _Order, number: int, line: bytes) -> NewRecord:
    if order.as_json:
        return parse_json_line(number, line)
    key, separator, value = line.partition(order.separator) if order.split_keys else (b"", b"", line)
    return NewRecord(key, value) if separator else NewRecord(None, line)


def _parse_headers(pairs: Sequence[str]) -> Headers:
    """Parse `NAME=VALUE`; a name may come several times. Raises BadParameter."""
    split = [pair.partition("=") for pair in pairs]
    wrong = [p for p, (name, equals, _) in zip(pairs, split, strict=True) if not (name and equals and _is_utf8(name))]
    if wrong:
        raise typer.BadParameter(
            "; ".join(f"{pair!r}: must be NAME=VALUE, the name in UTF-8" for pair in wrong), param_hint="--header"
        )
    return tuple((name, os.fsencode(value)) for name, _, value in split)


def _is_utf8(text: str) -> bool:
    """Whether the text was UTF-8: an argument may have any bytes, and Python makes surrogates of those that are not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _show_progress(producer: Producer, total: int | None) -> None:
    """Show a progress bar, if stderr is a terminal and lines are not typed on one."""
    if not sys.stderr.isatty() or (total is None and sys.stdin.isatty()):
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("acknowledged"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        while True:
            bar.update(task, completed=producer.totals.acknowledged)
            await asyncio.sleep(0.1)


def _report(producer: Producer, order: _Order, size: int, seconds: float) -> None:
    totals = producer.totals
    if not totals.acknowledged and totals.failed:
        return
    done = "sent without acknowledgement" if order.options.acks == 0 else "acknowledged"
    rates = f"{counted(round(totals.acknowledged / seconds), 'record')}/s"
    # How large the records are that failed on their way is not known.
    bytes_ = "" if totals.failed else f" ({size / 1e6:.2f} MB)"
    rates += "" if totals.failed else f", {size / 1e6 / seconds:.2f} MB/s"
    retried = f", {counted(totals.batches_retried, 'batch', 'batches')} sent again" if totals.batches_retried else ""
    throttled = f", throttled by quota for {totals.throttled_ms / 1000:.1f} s" if totals.throttled_ms else ""
    say(f"{counted(totals.acknowledged, 'record')}{bytes_} {done} in {seconds:.2f} s: {rates}{retried}{throttled}")
    if totals.batches_retried and not producer.is_idempotent:
        say("the producer was not idempotent: what was sent again may be stored twice")
