"""Finds out whether a port of ZooKeeper's speaks TLS, so that a client that does not speak it can say so at once."""

import asyncio
from typing import Final

from cluster.model.errors import ZooKeeperUnreachableError
from cluster.tls.probe import speaks_tls

_BEFORE_IT_S: Final = 2.0


async def tls_host(hosts: str) -> str | None:
    """The first of `host:port,…` that speaks TLS; None if none does."""
    listed = [host.strip() for host in hosts.partition("/")[0].split(",")]
    answers = await asyncio.gather(*map(speaks_tls, listed))
    return next((host for host, speaks in zip(listed, answers, strict=True) if speaks), None)


async def refuse_tls(hosts: str, connected: asyncio.Future[None]) -> None:
    """Fail `connected` if no session begins within a moment and a port speaks TLS: it never would."""
    await asyncio.sleep(_BEFORE_IT_S)
    host = await tls_host(hosts)
    if host is not None and not connected.done():
        connected.set_exception(
            ZooKeeperUnreachableError(
                f"{host} speaks TLS, and zookeeper.ssl.client.enable is not set: set it (for a command in the file "
                "of --command-config), or name a clientPort of ZooKeeper, not its secureClientPort"
            )
        )
