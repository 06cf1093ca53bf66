"""What one end of a TLS connection shows: a private key and its certificates, as they were read and checked."""

import time
from datetime import datetime

from msgspec import Struct

from cluster.tls.secret import Secret


class OwnCertificate(Struct, frozen=True):
    """A private key in PEM form, not encrypted, with its certificates, that of the key first.

    `not_before`, `not_after`: from when on all of them are valid, and when the first expires, in seconds since 1970.
    """

    key: Secret
    chain: bytes
    subject: str
    issuer: str
    serial: int
    not_after: float
    not_before: float = 0.0

    @property
    def is_expired(self) -> bool:
        return self.not_after < time.time()


def shown_time(moment: datetime) -> str:
    """Write a time as messages have it."""
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
