"""Tells systemd about this process: ready, stopping, and that its event loop still runs.

A datagram to the socket in NOTIFY_SOCKET, as sd_notify(3) describes; without that variable nothing is sent.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import Final

import structlog

_log = structlog.stdlib.get_logger()
_ABSTRACT: Final = "@"


class ServiceManager:
    """Notifies the service manager that started this process, if it asked for that (Type=notify, WatchdogSec=)."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith(_ABSTRACT) else address
        meant = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._watchdog_s = int(environment.get("WATCHDOG_USEC", "0")) / 1e6 if meant else 0.0

    def ready(self, status: str) -> None:
        """Say that the startup is complete; `status` is what `systemctl status` shows."""
        self._notify(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """Say that a graceful shutdown has begun."""
        self._notify("STOPPING=1\nSTATUS=stopping")

    async def run(self) -> None:
        """Notify the watchdog twice in its interval, from the event loop, so that a stuck one is noticed."""
        while self._watchdog_s:
            self._notify("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_s / 2)

    def _notify(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto(message.encode(), self._address)
        except OSError as error:
            _log.warning("The service manager cannot be notified", socket=self._address, error=str(error))
