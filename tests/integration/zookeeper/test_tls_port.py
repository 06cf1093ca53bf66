"""A port of ZooKeeper's that speaks TLS is named at once, instead of after the connection timeout."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cluster.model.errors import ZooKeeperUnreachableError
from cluster.tls.contexts import server_context
from cluster.tls.settings import TlsSettings
from cluster.zookeeper.kazoo_client import KazooZooKeeper
from cluster.zookeeper.tls_probe import tls_host
from tests.processes.certificates import make_certificates


@asynccontextmanager
async def port(tls: ssl.SSLContext | None) -> AsyncIterator[str]:
    """It closes each connection that sends something."""

    async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(closes, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("client_auth", ["none", "required"])
async def test_a_port_with_tls_is_named_long_before_the_timeout(tmp_path: Path, client_auth: str) -> None:
    files = make_certificates(tmp_path)
    settings = TlsSettings(
        keystore_location=str(files.node), truststore_location=str(files.authority), client_auth=client_auth
    )
    async with port(server_context(settings)) as address:
        client = KazooZooKeeper(address, session_timeout_ms=60_000, connection_timeout_ms=60_000)
        client.listen(lambda _: None)
        began = asyncio.get_running_loop().time()
        with pytest.raises(ZooKeeperUnreachableError, match=f"{address} speaks TLS"):
            await client.start_session()
        assert asyncio.get_running_loop().time() - began < 20


async def test_what_does_not_speak_tls_is_not_taken_for_it(zookeeper: str) -> None:
    assert await tls_host(zookeeper) is None
    async with port(None) as address:
        assert await tls_host(f"{address},127.0.0.1:1,nowhere.invalid:2181/chroot") is None
