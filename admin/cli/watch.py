"""`klamm watch`: stream cluster events."""

import asyncio
import contextlib
import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from admin.cli.completions import topic_names
from admin.cli.options import Cluster, talks_to_cluster
from admin.cli.output import examples, say
from admin.connecting.client import AdminClient
from cluster.cli.documents import Format
from cluster.model.errors import ErrorCode
from cluster.requests.cluster import ClusterEvent, WatchResponse

app = typer.Typer()


@app.command(
    epilog=examples(
        "klamm watch",
        "klamm watch --topic orders -o json",
        "klamm watch --max-events 1  (wait for a change)",
        exit_codes="0 ended; 1 no active controller within --timeout; 2 wrong usage; 130 Ctrl-C.",
    )
)
@talks_to_cluster()
def watch(
    *,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Only this topic, and broker events. Repeatable.", autocompletion=topic_names),
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="CURSOR", help="Resume after this cursor, taken from an earlier -o json.")
    ] = "",
    max_events: Annotated[int | None, typer.Option(min=1, help="Stop after this many events.")] = None,
    for_: Annotated[
        float | None, typer.Option("--for", min=0.1, metavar="SECONDS", help="Stop after this many seconds.")
    ] = None,
    cluster: Cluster,
) -> None:
    """Stream changes of leaders, ISRs, brokers, topics, reassignments and configs until Ctrl-C.

    Survives controller failovers; gives up when no controller is active for
    --timeout seconds. -o json prints one object per line.
    """

    async def main(client: AdminClient) -> None:
        left = max_events
        await _warn_of_unknown(client, topic or [])
        async with asyncio.timeout(for_), contextlib.aclosing(client.watch(topic or None, cursor=since)) as responses:
            async for response in responses:
                shown = response.events[:left]
                _show(response, shown, cluster.form)
                left = None if left is None else left - len(shown)
                if left == 0:
                    return

    with contextlib.suppress(TimeoutError):
        cluster.ask(main, is_endless=True)


async def _warn_of_unknown(client: AdminClient, topics: list[str]) -> None:
    for described in (await client.describe_topics(topics)).topics if topics else ():
        if described.error_code is not ErrorCode.NONE:
            say(f"warning: topic {described.name!r} does not exist yet; waiting for its creation")


def _show(response: WatchResponse, events: tuple[ClusterEvent, ...], form: Format) -> None:
    if response.missed:
        say("events before these may be missing: the controller changed, or the cursor is too old")
    elected = {_without_kind(event) for event in events if event.kind == "leader_changed"}
    for event in events:
        if form is Format.TABLE and event.kind == "isr_changed" and _without_kind(event) in elected:
            # The line about the leader shows the ISR as well.
            continue
        if form is Format.TABLE:
            typer.echo(event_line(event))
        else:
            typer.echo(json.dumps(event_document(event, response.cursor), ensure_ascii=False))


def _without_kind(event: ClusterEvent) -> ClusterEvent:
    return replace(event, kind="")


def event_document(event: ClusterEvent, cursor: str) -> dict[str, Any]:
    """Make an object of the fields that apply to this kind of event, and the cursor after it."""
    document: dict[str, Any] = {"kind": event.kind, "at_ms": event.at_ms, "controller_epoch": event.controller_epoch}
    if event.controller >= 0:
        document["controller"] = event.controller
    if event.broker >= 0:
        document["broker"] = event.broker
    if event.topic:
        document["topic"] = event.topic
    if event.partition >= 0:
        document |= {
            "partition": event.partition,
            "leader": event.leader,
            "leader_epoch": event.leader_epoch,
            "isr": list(event.isr),
            "replicas": list(event.replicas),
            "adding_replicas": list(event.adding_replicas),
            "removing_replicas": list(event.removing_replicas),
        }
    return document | {"cursor": cursor}


def event_line(event: ClusterEvent) -> str:
    """Format the event as one line of text."""
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    parts = [at, event.kind.replace("_", " ")]
    if event.kind == "controller_changed":
        parts.append(f"{event.controller}, epoch {event.controller_epoch}")
    if event.broker >= 0:
        parts.append(str(event.broker))
    if event.partition >= 0:
        leader = "none" if event.leader < 0 else event.leader
        parts.append(
            f"{event.topic}-{event.partition}: leader {leader}, epoch {event.leader_epoch}, isr {_ids(event.isr)}"
        )
        for name in ("adding", "removing"):
            moving = getattr(event, f"{name}_replicas")
            if moving:
                parts.append(f"{name} {_ids(moving)}")
    elif event.topic:
        parts.append(event.topic)
    return "  ".join(parts)


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) if brokers else "-"
