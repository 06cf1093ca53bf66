"""`klamm top`: show live what a cluster is busy with."""

import asyncio
import contextlib
import ssl
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from http.client import HTTPException
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from msgspec import to_builtins
from prometheus_client.parser import text_string_to_metric_families

from admin.cli.metrics_text import read_metrics
from admin.cli.options import Cluster, talks_to_cluster
from admin.cli.output import examples, say_wait, wait_line
from admin.cli.target import parse_addresses
from admin.connecting.client import AdminClient
from admin.connecting.waiting import Notice
from admin.describing.load import Load, compare, take_sample
from cluster.cli.documents import Format
from cluster.cli.tables import table_lines
from cluster.model.printable import counted, printable, printable_json
from cluster.process.local_cluster import CONTROLLER, read_cluster_state

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

app = typer.Typer()

_FIRST_INTERVAL_S: Final = 1.0


@app.command(
    epilog=examples(
        "klamm top",
        "klamm top --once",
        "klamm top --interval 5 -o json      (one object per line)",
        "klamm top --bootstrap broker-1:9092 --metrics controller-1:9404 --metrics controller-2:9404",
        exit_codes="0 ended; 1 no active controller within --timeout; 2 wrong usage; 130 Ctrl-C.",
    )
)
@talks_to_cluster()
def top(
    *,
    interval: Annotated[
        float, typer.Option(min=0.5, max=3600, metavar="SECONDS", help="Time between two samples.")
    ] = 2,
    once: Annotated[bool, typer.Option("--once", help="Show one interval and exit.")] = False,
    lines: Annotated[int, typer.Option(min=1, help="How many of the busiest partitions to show.")] = 10,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Where a controller serves metrics, for its event queue; https://HOST:PORT with TLS. Repeatable.",
        ),
    ] = None,
    cluster: Cluster,
) -> None:
    """Show what a cluster is busy with: event queue, failovers, elections, ISR changes, busiest partitions.

    Elections, ISR changes and records are counted between two samples. The
    controller's event queue is shown for a cluster on this machine, and with
    --metrics. Ends with Ctrl-C.
    """
    given = [address for text in metrics or () for address in parse_addresses(text, "--metrics")]
    addresses = [*given, *_metrics_of_local_controllers(cluster)]
    find = partial(find_queue, addresses, cluster.target.tls_context())

    screen = Screen(live=cluster.form is Format.TABLE and not once and sys.stdout.isatty())

    async def main(client: AdminClient) -> None:
        # Of one look the timeout is that of all; of many, that of each.
        looked = contextlib.nullcontext if once else client.within_timeout
        async with contextlib.aclosing(_loads(client, interval, lines, find, looked)) as loads:
            with screen:
                async for document in loads:
                    if cluster.form is Format.TABLE:
                        screen.show(document)
                    else:
                        typer.echo(printable_json(document))
                    if once:
                        return

    cluster.ask(main, on_wait=screen.say_wait, is_endless=not once)


async def _loads(
    client: AdminClient,
    interval: float,
    lines: int,
    find: Callable[[float], Awaitable[dict[str, float] | None]],
    looking: Callable[[], AbstractContextManager[None]],
) -> AsyncGenerator[dict[str, Any]]:
    """A document per interval; the first one comes early. `find`: finds the event queue within this many seconds;
    `looking`: bounds a look at the cluster.
    """
    with looking():
        before = await take_sample(client)
    wait = min(interval, _FIRST_INTERVAL_S)
    failovers = 0
    while True:
        await asyncio.sleep(wait)
        with looking():
            after, queue = await asyncio.gather(take_sample(client), find(client.limits.left_s))
        load = compare(before, after, lines)
        failovers += load.failovers
        yield {**_document(load), "failovers": failovers, "event_queue": queue}
        before, wait = after, interval


def _document(load: Load) -> dict[str, Any]:
    document: dict[str, Any] = to_builtins(load)
    return document


def _metrics_of_local_controllers(cluster: Cluster) -> list[str]:
    if cluster.target.bootstrap is not None:
        return []
    state = read_cluster_state(cluster.target.data)
    return [state.metrics_of(member) for member in state.nodes if member.role == CONTROLLER]


class Screen:
    """Shows one document after the other: in the same place on a terminal, else below one another."""

    def __init__(self, *, live: bool, console: "Console | None" = None) -> None:
        from rich.live import Live

        self._live = Live(auto_refresh=False, screen=True, console=console) if live else None
        self._document: dict[str, Any] | None = None

    def __enter__(self) -> "Screen":
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)

    def show(self, document: dict[str, Any]) -> None:
        self._document = document
        if self._live is None:
            typer.echo("\n".join(screen_lines(document)))
        else:
            self._draw(self._live, [])

    def say_wait(self, notice: Notice) -> None:
        """Say what the command waits for; on a terminal above the last document and until the next one."""
        if self._live is not None and self._live.is_started:
            self._draw(self._live, [*wrap(wait_line(notice), self._live.console.width), ""])
        else:
            say_wait(notice)

    def _draw(self, live: "Live", above: list[str]) -> None:
        from rich.text import Text

        shown = [] if self._document is None else screen_lines(self._document, live.console.width)
        live.update(Text("\n".join([*above, *shown]), no_wrap=True), refresh=True)


def screen_lines(document: dict[str, Any], width: int | None = None) -> list[str]:
    """Format the document for people."""
    counts, seconds = document["counts"], document["seconds"]
    queue = document["event_queue"]
    times = "" if queue is None else ", ".join(f"{name} {queue[name]:,.0f} ms" for name in QUEUE_METRICS[1:])
    happened = f"{counted(document['elections'], 'election')}, {counted(document['isr_changes'], 'ISR change')}"
    return [
        f"controller {document['controller_id']}, epoch {document['controller_epoch']}, "
        f"{counted(document['failovers'], 'failover')} seen",
        "event queue: not known"
        if queue is None
        else f"event queue: {counted(round(queue['size']), 'event')}, {times}",
        f"{counted(counts['topics'], 'topic')}, {counted(counts['partitions'], 'partition')}: "
        f"{counts['unavailable']:,} unavailable, {counts['under_min_isr']:,} under min ISR, "
        f"{counts['under_replicated']:,} under-replicated",
        f"in {seconds:.1f} s: {happened}, {counted(round(document['records_per_s']), 'record')}/s",
        "",
        *_table(document["brokers"], ("id", "state", "leaders", "replicas", "records_per_s"), width),
        "",
        *(
            _table(document["busiest"], ("topic", "partition", "leader", "records_per_s", "end_offset"), width)
            if document["busiest"]
            else ([] if document["uncounted"] else ["no partition has new records"])
        ),
        *_uncounted(document["uncounted"]),
    ]


def _uncounted(brokers: list[int]) -> list[str]:
    if not brokers:
        return []
    which, why = ("broker", "it was") if len(brokers) == 1 else ("brokers", "they were")
    named = ", ".join(map(str, brokers))
    return [f"records of {which} {named} are not counted: {why} not asked, or did not answer"]


def _table(rows: list[dict[str, Any]], columns: tuple[str, ...], width: int | None) -> list[str]:
    cells = [
        [f"{row[c]:,.0f}" if isinstance(row[c], float) else printable(str(row[c])) for c in columns] for row in rows
    ]
    return [line for lines in table_lines([c.upper() for c in columns], cells, width) for line in lines]


_TIMEOUT_S: Final = 2.0
_MANAGER: Final = "kafka_controller_controllereventmanager"
_ACTIVE: Final = "kafka_controller_kafkacontroller_activecontrollercount"
_QUANTILES: Final = {"0.5": "median", "0.99": "p99"}
QUEUE_METRICS: Final = ("size", *_QUANTILES.values())
"""The number of events that wait, and quantiles of the time that events waited, in ms."""


async def find_queue(addresses: Sequence[str], tls: ssl.SSLContext | None, limit_s: float) -> dict[str, float] | None:
    """Read QUEUE_METRICS by name from the one of these addresses that is the active controller's; None if none is.

    All are asked at once; `tls` is for those at https://.
    """
    timeout_s = min(_TIMEOUT_S, limit_s)
    for asked in asyncio.as_completed(
        [asyncio.to_thread(_read_queue, address, timeout_s, tls) for address in addresses]
    ):
        if (queue := await asked) is not None:
            return queue
    return None


def _read_queue(address: str, timeout_s: float, tls: ssl.SSLContext | None) -> dict[str, float] | None:
    with contextlib.suppress(OSError, ValueError, HTTPException):
        return parse_queue(read_metrics(address, timeout_s, tls))
    return None


def parse_queue(text: str) -> dict[str, float] | None:
    """Parse QUEUE_METRICS by name; None if these are not the metrics of an active controller."""
    wanted = "\n".join(line for line in text.splitlines() if line.startswith((_MANAGER, _ACTIVE)))
    samples = [sample for family in text_string_to_metric_families(wanted) for sample in family.samples]
    if not any(s.name == _ACTIVE and s.value == 1 for s in samples):
        return None
    found = {}
    for sample in samples:
        if sample.name == f"{_MANAGER}_eventqueuesize":
            found["size"] = sample.value
        elif sample.name == f"{_MANAGER}_eventqueuetimems" and sample.labels.get("quantile") in _QUANTILES:
            found[_QUANTILES[sample.labels["quantile"]]] = sample.value
    return found
