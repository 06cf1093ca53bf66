"""Opens kazoo's connections under TLS, and keeps why the last one failed.

kazoo's own TLS checks no host names, trusts the certificates of this machine beside those that it is given, and logs
the cause of a failure without passing it on.
"""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.tls.contexts import client_context
from cluster.tls.live import LiveMaterial
from cluster.tls.material import why_refused
from cluster.tls.untrusted import why_not_accepted


class TlsSockets:
    """Makes connections with the material in force at that time. Used on the thread of kazoo's connection; `failure`
    may be read on any.
    """

    def __init__(self, material: LiveMaterial) -> None:
        self._material = material
        self.failure = ""
        """Why TLS with the server tried last did not come about; empty if nothing is wrong with it."""
        self._server = ""

    def connect(self, address: tuple[str, int], hostname: str, timeout_s: float) -> ssl.SSLSocket:
        """Connect, and shake hands; both have `timeout_s`. Raises OSError."""
        deadline = time.monotonic() + timeout_s
        self._server = f"{hostname}:{address[1]}"
        connected = socket.create_connection(address, timeout_s)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.settimeout(max(deadline - time.monotonic(), 0.001))
            with self.noting():
                context = client_context(self._material.settings, self._material.current)
                return context.wrap_socket(connected, server_hostname=hostname)
        except BaseException:
            connected.close()
            raise

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Keep what is wrong with TLS. With TLS 1.3 the server says only after the handshake that it refuses."""
        try:
            yield
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            self.failure = f"{self._server}: {self._explained(error)}"
            raise
        except ConnectionResetError:
            self.failure = f"{self._server}: it closed the connection in the TLS handshake: {self._of_own()}"
            raise

    def established(self) -> None:
        """Forget the failure: a session exists."""
        self.failure = ""

    def _explained(self, error: ssl.SSLError) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            why = why_not_accepted(error.verify_message, "zookeeper.ssl.truststore.location")
            return f"its certificate is not accepted: {why}"
        if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "it does not speak TLS: name its secureClientPort, or set zookeeper.ssl.client.enable to false"
        if isinstance(error, ssl.SSLEOFError):
            return f"it closed the connection in the TLS handshake: {self._of_own()}"
        reason = (error.reason or str(error)).lower().replace("_", " ")
        return f"TLS failed: {reason}" + (f"; {self._of_own()}" if "alert" in reason else "")

    def _of_own(self) -> str:
        """Say what may be wrong with the certificate of this side."""
        return why_refused(self._material.current.own, "zookeeper.ssl.keystore.location")
