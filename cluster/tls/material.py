"""Keys and certificates as they were read, checked: whether the key fits, the chain holds, and the dates.

Libraries take them as PEM in memory, so encrypted keys and PKCS12 stores are the same to all.
"""

from datetime import UTC, datetime

from msgspec import Struct

from cluster.tls.own_certificate import OwnCertificate, shown_time
from cluster.tls.settings import TlsSettings, require_consistent


class Material(Struct, frozen=True):
    """What one end of a connection shows, and whom it trusts. `own` None: it shows nothing; `roots` None: what this
    machine trusts.
    """

    own: OwnCertificate | None = None
    roots: bytes | None = None
    """Certificates of authorities in PEM form; while one authority replaces another, those of both."""


def load_material(settings: TlsSettings, now: datetime | None = None) -> Material:
    """Read and check what the settings name. Raises ConfigError with a line for each fault."""
    require_consistent(settings)
    if not settings.has_keystore and not settings.has_truststore:
        return Material()
    from cluster.tls.checked_certificates import read_material  # noqa: PLC0415 - cryptography takes 8 MiB of memory.

    return Material(*read_material(settings, now))


def why_refused(own: OwnCertificate | None, setting: str) -> str:
    """Guess why a peer closed a connection in the handshake: it cannot say so, but the certificate of this side can be
    looked at. `setting`: the one that names the key store.
    """
    if own is None:
        return f"this side shows no certificate ({setting}), and perhaps it demands one"
    if own.is_expired:
        expired = shown_time(datetime.fromtimestamp(own.not_after, UTC))
        return f"the certificate of this side, {own.subject}, expired at {expired}"
    return f"perhaps it does not trust the certificate of this side, {own.subject}, issued by {own.issuer}"
