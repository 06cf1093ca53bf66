"""Completes names for shells: topics and nodes of the cluster that the command line names so far, and contexts.

It prints nothing and raises nothing, because a shell shows any output in the middle of the line that is typed. If the
cluster does not answer in time, there are no names.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

import typer

_TIMEOUT_S: Final = 2.0
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]+")
"""The characters that names of topics, partitions, nodes and contexts consist of."""


def context_names() -> list[str]:
    from admin.cli.contexts_file import read_contexts

    return _quietly(lambda: list(read_contexts().all))


def topic_names(ctx: typer.Context) -> list[str]:
    async def ask(client: Any) -> list[str]:
        return [topic.name for topic in (await client.list_topics()).topics]

    return _of_cluster(ctx, ask)


def partition_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """List the partitions of the topics that begin like this: those of all topics would be too many to send."""

    async def ask(client: Any) -> list[str]:
        topics = (await client.list_topics()).topics
        near = [t for t in topics if t.name.startswith(incomplete) or incomplete.startswith(f"{t.name}-")]
        return [f"{topic.name}-{number}" for topic in near for number in range(topic.partitions)]

    return _of_cluster(ctx, ask)


def broker_ids(ctx: typer.Context) -> list[str]:
    async def ask(client: Any) -> list[str]:
        return [str(broker.id) for broker in (await client.describe_controller()).brokers]

    return _of_cluster(ctx, ask)


def node_ids(ctx: typer.Context) -> list[str]:
    """List the ids of brokers and controllers."""

    async def ask(client: Any) -> list[str]:
        described = await client.describe_controller()
        return [str(node.id) for node in (*described.brokers, *described.controllers)]

    return _of_cluster(ctx, ask)


def _of_cluster(ctx: typer.Context, ask: Callable[[Any], Awaitable[list[str]]]) -> list[str]:
    from admin.cli.target import find_target

    named = {name: ctx.params.get(name) for name in ("bootstrap", "data", "context", "command_config")}

    async def main() -> list[str]:
        async with asyncio.timeout(_TIMEOUT_S), find_target(**named).connect(_TIMEOUT_S) as client:
            return await ask(client)

    return _quietly(lambda: asyncio.run(main()))


def _quietly(find: Callable[[], list[str]]) -> list[str]:
    """Return the names that a shell takes as they are, without the others: a server may answer `$(…)`."""
    from cluster.model.errors import ClusterError

    with contextlib.suppress(ClusterError, OSError):
        return [name for name in find() if _PLAIN.fullmatch(name)]
    return []
