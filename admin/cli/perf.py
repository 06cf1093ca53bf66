"""`klamm perf`: measure producing and consuming, as kafka-producer-perf-test and kafka-consumer-perf-test do."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
import typer

from admin.cli.options import TIMEOUT_MAX_S, Acks, Cluster, talks_to_cluster
from admin.cli.output import examples, say, write
from admin.cli.produce import (
    ACKS,
    AcksOption,
    BatchCompression,
    BatchSizeOption,
    CompressionOption,
    IdempotenceOption,
    LingerOption,
    TopicArgument,
)
from admin.connecting.client import AdminClient
from admin.consuming.consume_load import ConsumeLoad, ConsumeMeasures, ConsumePlan
from admin.consuming.consumer import ConsumerOptions
from admin.describing.topology import Topology
from admin.producing.accumulator import ProducerOptions
from admin.producing.produce_load import RECORD_SIZE_MIN, ProduceLoad, ProduceMeasures, ProducePlan
from cluster.aio.clock import SystemClock
from cluster.cli.documents import Format
from cluster.model.compression import CompressionCodec
from cluster.model.exit_codes import ExitCode
from cluster.model.printable import counted

app = typer.Typer(no_args_is_help=True, help="Measure producing and consuming: rates, latencies, lost records.")

_UNLIMITED: Final = -1.0


@app.command(
    epilog=examples(
        "klamm perf produce orders --records 1000000 --record-size 100",
        "klamm perf produce orders --records 50000 --throughput 5000 --warmup 5000 -o json",
        "klamm perf produce orders --records 100000 --verify   (is each stored once, while brokers are killed?)",
        exit_codes="0 all acknowledged; 1 some not; 2 wrong usage; 3 --verify found records lost or stored twice.",
    )
)
@talks_to_cluster(timeout=120)
def produce(
    topic: TopicArgument,
    *,
    records: Annotated[int, typer.Option(min=1, help="How many records to send.")],
    record_size: Annotated[int, typer.Option(min=RECORD_SIZE_MIN, help="Bytes of each value.")] = 100,
    throughput: Annotated[float, typer.Option(help="Records per second at most; -1: no limit.")] = _UNLIMITED,
    warmup: Annotated[int, typer.Option(min=0, help="So many of the records, the first, are not measured.")] = 0,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the records back: is each acknowledged one there, and once?")
    ] = False,
    acks: AcksOption = Acks.ALL,
    idempotence: IdempotenceOption = None,
    compression: CompressionOption = BatchCompression.NONE,
    batch_size: BatchSizeOption = 262_144,
    linger_ms: LingerOption = 5,
    cluster: Cluster,
) -> None:
    """Send records and print rates and percentiles of their latency, from the send to the acknowledgement.

    A line of progress every five seconds goes to stderr. A record that is not
    acknowledged within --timeout has failed. --verify reads back what was sent
    and keeps about 1 KB of memory per record.
    """
    if throughput != _UNLIMITED and throughput <= 0:
        raise typer.BadParameter(f"{throughput:g}: must be above 0, or -1 for no limit", param_hint="--throughput")
    if warmup >= records:
        raise typer.BadParameter(f"{warmup}: must be less than --records {records}", param_hint="--warmup")
    options = ProducerOptions(
        acks=ACKS[acks],
        enable_idempotence=idempotence,
        compression_type=CompressionCodec[compression.name],
        batch_size=batch_size,
        linger_ms=linger_ms,
        delivery_timeout_ms=int(cluster.timeout * 1000),
        request_timeout_ms=int(min(cluster.timeout, 30) * 1000),
    )
    plan = ProducePlan(
        topic=topic,
        records=records,
        record_size=record_size,
        throughput=None if throughput == _UNLIMITED else throughput,
        warmup=warmup,
        is_verified=verify,
        options=options,
    )

    async def measure(client: AdminClient) -> tuple[ProduceMeasures, str]:
        topology = Topology(client)
        await topology.check_records_are_here("kafka-producer-perf-test.sh", topic)
        load = ProduceLoad(topology, SystemClock(), plan, say)
        return await load.run(), load.first_error

    measures, first_error = cluster.ask(measure)
    _write(_produce_document(topic, measures), _produce_lines(measures), cluster.form)
    _exit(measures, first_error)


@app.command(
    epilog=examples(
        "klamm perf consume orders",
        "klamm perf consume orders --records 1000000 --fetch-max-bytes 8388608 -o json",
        exit_codes="0 done; 1 fewer records came, or a partition cannot be read; 2 wrong usage.",
    )
)
@talks_to_cluster()
def consume(
    topic: TopicArgument,
    *,
    records: Annotated[
        int | None, typer.Option(min=1, help="How many records to read. Default: all that there are at the start.")
    ] = None,
    from_end: Annotated[bool, typer.Option("--from-end", help="Read what is produced from now on.")] = False,
    idle: Annotated[float, typer.Option(min=0.1, max=TIMEOUT_MAX_S, help="End after so many seconds without.")] = 10,
    fetch_max_bytes: Annotated[int, typer.Option(min=1, help="Bytes per answer of a leader.")] = 33_554_432,
    max_partition_fetch_bytes: Annotated[int, typer.Option(min=1, help="Of these, per partition.")] = 4_194_304,
    fetch_max_wait_ms: Annotated[int, typer.Option(min=0, help="How long a leader waits for records.")] = 500,
    cluster: Cluster,
) -> None:
    """Read a topic from its beginning and print how fast that was.

    SETUP is the time until leaders and offsets are found; the fetch columns
    are about the time after it.
    """
    if from_end and records is None:
        raise typer.BadParameter("--from-end needs --records: nothing is there yet")
    plan = ConsumePlan(
        topic=topic,
        records=records,
        from_end=from_end,
        idle_s=idle,
        options=ConsumerOptions(
            fetch_max_bytes=fetch_max_bytes,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            fetch_max_wait_ms=fetch_max_wait_ms,
        ),
    )

    async def measure(client: AdminClient) -> ConsumeMeasures:
        topology = Topology(client)
        await topology.check_records_are_here("kafka-consumer-perf-test.sh", topic)
        return await ConsumeLoad(topology, SystemClock(), plan, say).run(cluster.timeout)

    measures = cluster.ask(measure)
    document = {"topic": topic, **msgspec.to_builtins(measures)}
    row = {
        "start": _time(measures.start_ms),
        "end": _time(measures.end_ms),
        **{key: value for key, value in document.items() if key not in ("topic", "start_ms", "end_ms", "is_complete")},
    }
    write(document, cluster.form, tuple(row), [tuple(row.values())])
    if not measures.is_complete:
        say(f"no record for {idle:g} s: fewer than the {records} that --records asks for")
        raise typer.Exit(ExitCode.REFUSED)


def _exit(measures: ProduceMeasures, first_error: str) -> None:
    if measures.failed:
        say(f"{counted(measures.failed, 'record')} not acknowledged; the first: {first_error}")
    if measures.verified is not None and (measures.verified.anomalies or measures.verified.duplicates):
        raise typer.Exit(ExitCode.FINDINGS)
    if measures.failed:
        raise typer.Exit(ExitCode.REFUSED)


def _produce_document(topic: str, measures: ProduceMeasures) -> dict[str, Any]:
    document = {"topic": topic, **msgspec.to_builtins(measures)}
    verified = measures.verified
    if verified is not None:
        anomalies = {rule.value: count for rule, count in verified.anomalies.items()}
        document["verified"] = {"lost": anomalies.pop("lost", 0), "duplicates": verified.duplicates, **anomalies}
    return document


def _produce_lines(measures: ProduceMeasures) -> list[str]:
    """The last line of kafka-producer-perf-test, and what is known beyond it."""
    found, took = measures, measures.latency_ms
    lines = [
        f"{found.records} records acknowledged, {found.records_per_s:.1f} records/s ({found.mb_per_s:.2f} MB/s),"
        f" {took.avg:.2f} ms avg latency, {took.max:.2f} ms max latency, {took.p50:.2f} ms 50th,"
        f" {took.p95:.2f} ms 95th, {took.p99:.2f} ms 99th, {took.p999:.2f} ms 99.9th"
    ]
    if measures.batches_retried:
        lines.append(f"{counted(measures.batches_retried, 'batch', 'batches')} sent again")
    if measures.throttled_s:
        lines.append(f"throttled by quota for {measures.throttled_s:.1f} s")
    if measures.verified is not None:
        others = {rule.value: count for rule, count in measures.verified.anomalies.items()}
        counts = {"lost": others.pop("lost", 0), "stored twice": measures.verified.duplicates, **others}
        lines.append("read back: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    return lines


def _write(document: dict[str, Any], lines: list[str], form: Format) -> None:
    if form is Format.TABLE:
        for line in lines:
            typer.echo(line)
    else:
        write(document, form, (), ())


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
