"""Reads the metrics of a process as text; the server at its port may be anyone.

It does not use urllib.request, which follows redirects and sends requests to the proxy of the environment.
"""

import contextlib
import socket
import ssl
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final

HTTPS: Final = "https://"
METRICS_BYTES_MAX: Final = 16 << 20
"""The largest number of bytes that is read from one process; the rest is left out."""


def connection_to(address: str, timeout_s: float, tls: ssl.SSLContext | None = None) -> HTTPConnection:
    """Make a connection, which is opened when it is used, to host:port, or under TLS to https://host:port.

    `tls`: what it shows and trusts; None: it trusts what this machine trusts.
    """
    if not address.startswith(HTTPS):
        return HTTPConnection(address, timeout=timeout_s)
    context = ssl.create_default_context() if tls is None else tls
    return HTTPSConnection(address.removeprefix(HTTPS), timeout=timeout_s, context=context)


def read_metrics(address: str, timeout_s: float, tls: ssl.SSLContext | None = None) -> str:
    """Read the text of `/metrics` at an address as for `connection_to`. Raises OSError (as TimeoutError), ValueError,
    HTTPException.

    `timeout_s` limits the whole reading, even if the server sends a little again and again.
    """
    deadline = time.monotonic() + timeout_s
    with contextlib.closing(connection_to(address, timeout_s, tls)) as connection:
        connection.connect()
        timer = threading.Timer(max(0.0, deadline - time.monotonic()), _shut_down, [connection.sock])
        timer.daemon = True
        timer.start()
        try:
            connection.request("GET", "/metrics")
            with connection.getresponse() as response:
                content = response.read(METRICS_BYTES_MAX)
        except HTTPException:
            if time.monotonic() < deadline:
                raise
        finally:
            timer.cancel()
    if time.monotonic() >= deadline:
        raise TimeoutError(f"no answer within {timeout_s:g} s")
    if response.status != 200:
        raise ValueError(f"answers with {response.status}, not with metrics")
    return content.decode(errors="replace")


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
