"""Gives the znodes that a new ZooKeeper server comes with an owner: the nodes of the cluster that it is for.
Creates the first user with a password.

They are open to everyone, so any certificate of the authority would do to fill the disk of the server.
"""

import asyncio
import re
from pathlib import Path
from typing import Final

from cluster.config.client_properties import read_user_credentials
from cluster.model.errors import StartupError, ZooKeeperError
from cluster.sasl.scram import digest_of, salt_password
from cluster.tls.live import LiveMaterial
from cluster.tls.settings import TlsSettings
from cluster.znodes.configs import ConfigEntity, encode_config
from cluster.znodes.credentials import encode_credential
from cluster.zookeeper.kazoo_access_lists import KazooAccessLists
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.port import Create
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


def add_user(connect: str, node: TlsSettings, properties: Path, timeout_s: float) -> None:
    """Create the user of a file for `--command-config`, unless it is there. `connect`: with the chroot. Raises
    StartupError.
    """
    found = read_user_credentials(properties)
    assert found.password is not None, "a user with a password"
    salted = salt_password(found.mechanism, found.password.reveal())
    credential = encode_credential(digest_of(found.mechanism), salted.salt, salted.salted_password, salted.iterations)
    path, config = ConfigEntity("users", found.user).path, encode_config({found.mechanism: credential})
    try:
        asyncio.run(_create(connect, node, path, config, round(timeout_s * 1000)))
    except ZooKeeperError as error:
        raise StartupError(f"user {found.user} cannot be created in ZooKeeper at {connect}: {error}") from error


async def _create(connect: str, node: TlsSettings, path: str, data: bytes, timeout_ms: int) -> None:
    material = LiveMaterial(node, "zookeeper")
    client = KazooZooKeeper(
        connect, session_timeout_ms=_SESSION_MS, connection_timeout_ms=timeout_ms, sets_acl=True, tls=material
    )
    client.listen(lambda _: None)
    await client.start_session()
    try:
        parents = [path[: match.start()] for match in re.finditer("/", path) if match.start()]
        for one in parents:
            await client.multi([Create(one)])
        await client.multi([Create(path, data)])
    finally:
        await client.close()
