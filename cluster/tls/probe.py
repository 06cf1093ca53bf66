"""Finds out whether a port speaks TLS, so that whoever gets no answer there can say why.

Servers of gRPC, and others, close a connection in the handshake without a word.
"""

import asyncio
import ssl
from typing import Final

_TIMEOUT_S: Final = 5.0
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"})
"""How OpenSSL calls what no TLS answers: other bytes, or the end of the connection."""


async def speaks_tls(address: str, timeout_s: float = _TIMEOUT_S) -> bool:
    """Whether a `host:port` answers a handshake of TLS. False also if it does not answer in time."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
        writer.close()
        return True
    except ssl.SSLError as error:
        # An alert, as of a server that demands a certificate, is TLS, too.
        return error.reason not in _NO_TLS
    except (OSError, TimeoutError, ValueError):
        return False
