"""Finds out whether a port of ZooKeeper's speaks TLS, so that a client that does not speak it can say so at once."""

import asyncio
import ssl
from typing import Final

from cluster.model.errors import ZooKeeperUnreachableError

_BEFORE_IT_S: Final = 2.0
_TIMEOUT_S: Final = 5.0
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"})
"""How OpenSSL calls what no TLS answers: other bytes, or the end of the connection."""


async def tls_host(hosts: str) -> str | None:
    """The first of `host:port,…` that speaks TLS; None if none does."""
    listed = [host.strip() for host in hosts.partition("/")[0].split(",")]
    answers = await asyncio.gather(*map(_speaks_tls, listed))
    return next((host for host, speaks in zip(listed, answers, strict=True) if speaks), None)


async def _speaks_tls(address: str) -> bool:
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
        writer.close()
        return True
    except ssl.SSLError as error:
        # An alert, as of a server that demands a certificate, is TLS, too.
        return error.reason not in _NO_TLS
    except (OSError, TimeoutError, ValueError):
        return False


async def refuse_tls(hosts: str, connected: asyncio.Future[None]) -> None:
    """Fail `connected` if no session begins within a moment and a port speaks TLS: it never would."""
    await asyncio.sleep(_BEFORE_IT_S)
    host = await tls_host(hosts)
    if host is not None and not connected.done():
        connected.set_exception(
            ZooKeeperUnreachableError(
                f"{host} speaks TLS, and zookeeper.ssl.client.enable is not set: set it, or name a clientPort of "
                "ZooKeeper, not its secureClientPort"
            )
        )
