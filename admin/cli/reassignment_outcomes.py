"""Shows the progress of partition reassignments, and waits for them."""

import asyncio
import contextlib
from typing import Any

from msgspec.structs import asdict

from admin.cli.output import say
from admin.connecting.client import AdminClient
from admin.moving.progress import Progress
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.reassignments import AlterPartitionReassignmentsResponse, DescribedReassignment

MOVE_COLUMNS = ("topic", "partition", "leader", "isr", "replicas", "adding", "removing", "in_sync", "stuck_reason")
_POLL_S = 0.5


async def describe_moves(client: AdminClient, names: list[str] | None) -> list[DescribedReassignment]:
    """List the ongoing reassignments of these topics (None: of all), sorted."""
    response = await client.describe_reassignments(names)
    return sorted(response.reassignments, key=lambda r: (r.topic, r.partition))


async def wait_for_moves(client: AdminClient, partitions: set[TopicPartition]) -> list[DescribedReassignment]:
    """Wait until the timeout, printing progress to stderr. Returns the reassignments that are still in progress."""
    loop = asyncio.get_running_loop()
    progress = Progress(len(partitions), loop.time())
    names = sorted({tp.topic for tp in partitions})
    said = ""
    left = await _moves_of(client, names, partitions)
    with contextlib.suppress(TimeoutError):
        async with client.limits.outlasting_calls():
            while left:
                progress.update(len(partitions) - len(left), loop.time())
                stuck = ((f"{r.topic}-{r.partition}", r.stuck_reason) for r in left if r.stuck_reason)
                text = progress.describe("partitions moved", stuck)
                if text != said:
                    say(text)
                    said = text
                await asyncio.sleep(_POLL_S)
                left = await _moves_of(client, names, partitions)
    return left


async def _moves_of(
    client: AdminClient, names: list[str], partitions: set[TopicPartition]
) -> list[DescribedReassignment]:
    return [r for r in await describe_moves(client, names) if (r.topic, r.partition) in partitions]


def move_row(r: DescribedReassignment) -> tuple[object, ...]:
    arrived = sum(t.in_sync for t in r.targets)
    return (
        r.topic,
        r.partition,
        "none" if r.leader < 0 else r.leader,
        r.isr,
        r.replicas,
        r.adding_replicas,
        r.removing_replicas,
        f"{arrived} of {len(r.targets)}",
        r.stuck_reason,
    )


def move_document(r: DescribedReassignment) -> dict[str, Any]:
    targets = [{"broker": t.broker_id, "in_sync": t.in_sync, "alive": t.alive} for t in r.targets]
    return asdict(r) | {"targets": targets}


def refusals(response: AlterPartitionReassignmentsResponse) -> list[dict[str, Any]]:
    """List the partitions whose reassignment was refused, with the reasons."""
    return [
        {"topic": t.name, "partition": p.partition_index, "error": p.error_code.name, "message": p.error_message or ""}
        for t in response.responses
        for p in t.partitions
        if p.error_code is not ErrorCode.NONE
    ]
