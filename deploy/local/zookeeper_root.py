"""Gives the znodes that a new ZooKeeper server comes with an owner: the nodes of the cluster that it is for.

They are open to everyone, so any certificate of the authority would do to fill the disk of the server.
"""

import asyncio
from typing import Final

from cluster.model.errors import StartupError, ZooKeeperError
from cluster.tls.live import LiveMaterial
from cluster.tls.settings import TlsSettings
from cluster.zookeeper.kazoo_access_lists import KazooAccessLists
from cluster.zookeeper.security_migration import ROOTS_OF_SERVER, SecurityMigration

_SESSION_MS: Final = 6_000


def secure_roots(address: str, node: TlsSettings, timeout_s: float) -> None:
    """Do it with the certificate of a node, unless it is done. Raises StartupError."""
    try:
        asyncio.run(_secure_roots(address, node, round(timeout_s * 1000)))
    except ZooKeeperError as error:
        raise StartupError(f"the roots of ZooKeeper at {address} cannot be secured: {error}") from error


async def _secure_roots(address: str, node: TlsSettings, timeout_ms: int) -> None:
    material = LiveMaterial(node, "zookeeper")
    client = KazooAccessLists(address, session_timeout_ms=_SESSION_MS, connection_timeout_ms=timeout_ms, tls=material)
    client.listen(lambda _: None)
    await client.start_session()
    try:
        await SecurityMigration(client, lambda _: None, secures=True).migrate(ROOTS_OF_SERVER)
    finally:
        await client.close()
