"""Keeps the keys and certificates of a running process up to date with their files."""

import asyncio
import os
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import structlog

from cluster.model.errors import ConfigError
from cluster.tls.material import Material, load_material
from cluster.tls.settings import TlsSettings

POLL_S: Final = 10.0
"""How often files are looked at: a rotation takes effect after at most this, for new connections."""
_S_PER_DAY: Final = 86_400

_log = structlog.stdlib.get_logger()

_Stamp = tuple[tuple[int, int, int] | None, ...]


class LiveMaterial:
    """Holds the material in force, and replaces it as a whole when its files have changed and are valid.

    Files that are not valid change nothing: what was read before stays in force, and an error says why. Threads may
    read `current` and `generation` at any time.
    """

    def __init__(self, settings: TlsSettings, name: str = "") -> None:
        """Read the files. Raises ConfigError. `name`: what it is for, in log lines and metrics."""
        self.settings, self.name = settings, name
        # Before they are read: a change in between is seen at the next look.
        self._stamp = _stamp(settings)
        self.current = load_material(settings)
        self.generation = 0
        """Increases with every replacement."""
        self.rejected: tuple[str, ...] = ()
        """Why the files as they are now are not in force; empty if they are."""

    @property
    def days_left(self) -> float | None:
        """The days until the certificate in force expires, negative afterwards; None without a certificate."""
        own = self.current.own
        return None if own is None else (own.not_after - time.time()) / _S_PER_DAY

    def refresh(self) -> bool:
        """Look at the files, and read them if they have changed or were not valid. Returns whether they were replaced.

        Blocks. It never raises: what is wrong is logged and kept in `rejected`.
        """
        stamp = _stamp(self.settings)
        if stamp == self._stamp and not self.rejected:
            return False
        try:
            found = load_material(self.settings)
        except ConfigError as error:
            if tuple(error.errors) != self.rejected:
                _log.error(
                    "TLS files cannot be used; those read before stay in force", of=self.name, errors=error.errors
                )
            self._stamp, self.rejected = stamp, tuple(error.errors)
            return False
        self._stamp, self.rejected = stamp, ()
        if found == self.current:
            return False
        before, self.current = self.current, found
        # After it: who sees the new number finds what belongs to it.
        self.generation += 1
        _log.info("TLS files replaced", of=self.name, before=_described(before), now=_described(found))
        return True


class LiveContexts:
    """Makes the contexts of Python's own sockets, which follow the material: an authority that is no longer in it is no
    longer trusted, as it would be by a context that only got further ones.
    """

    def __init__(self, material: LiveMaterial, make: Callable[[Material], ssl.SSLContext]) -> None:
        """Make the first. Raises what `make` raises, which makes a context of the material in force."""
        self._material, self._make = material, make
        self._generation, self._made = material.generation, make(material.current)

    def current(self) -> ssl.SSLContext:
        """The context of the next connection: the same object until the material was replaced."""
        # The number first: if the files are replaced in between, the context is made once more.
        generation = self._material.generation
        if generation != self._generation:
            self._made = self._make(self._material.current)
            self._generation = generation
        return self._made

    @property
    def own_subject(self) -> str:
        """The distinguished name in the certificate that is shown; empty without one."""
        own = self._material.current.own
        return "" if own is None else own.subject


class ListenerTls(NamedTuple):
    """TLS of one port. `requires_certificates`: whether clients without a valid one are refused. `max_age_ms`: after
    this time a connection is replaced.
    """

    material: LiveMaterial
    requires_certificates: bool
    max_age_ms: int
    on_handshake: Callable[[], None] = lambda: None
    """Called on any thread when a handshake begins; gRPC does not say how it ends."""


async def keep_fresh(materials: Callable[[], Iterable[LiveMaterial]], *, poll_s: float | None = None) -> None:
    """Refresh the materials that there are, every `poll_s` (POLL_S), off the event loop, until cancelled."""
    while True:
        await asyncio.sleep(POLL_S if poll_s is None else poll_s)
        for material in tuple(materials()):
            await asyncio.to_thread(material.refresh)


def _stamp(settings: TlsSettings) -> _Stamp:
    return tuple(_stamp_of(path) for path in (settings.keystore_location, settings.truststore_location))


def _stamp_of(path: str | None) -> tuple[int, int, int] | None:
    try:
        found = None if path is None else os.stat(path)
    except (OSError, ValueError):
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)


def _described(material: Material) -> str:
    own = material.own
    if own is None:
        return "no certificate"
    return f"{own.subject}, serial number {own.serial:x}, until {time.strftime('%Y-%m-%d', time.gmtime(own.not_after))}"
