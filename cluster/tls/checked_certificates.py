"""Reads a private key, its certificates and those of authorities, and checks them: whether the key fits, the chain
holds, and the dates.

Apart from `cluster.tls.material`, because a process without TLS does not load `cryptography`.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from cluster.model.errors import ConfigError
from cluster.tls.names import distinguished_name
from cluster.tls.own_certificate import OwnCertificate, shown_time
from cluster.tls.secret import Secret
from cluster.tls.settings import TlsSettings
from cluster.tls.stores import KeyStore, read_keystore, read_truststore


def read_material(settings: TlsSettings, now: datetime | None = None) -> tuple[OwnCertificate | None, bytes | None]:
    """Read and check what the settings name, which do not contradict each other: what this end shows, and the
    certificates of authorities in PEM form. Raises ConfigError with a line for each fault.
    """
    errors: list[str] = []
    own, roots = None, None
    if settings.has_keystore:
        try:
            own = _own(read_keystore(settings), settings, datetime.now(UTC) if now is None else now)
        except ConfigError as error:
            errors += error.errors
    if settings.has_truststore:
        try:
            roots = b"".join(one.public_bytes(Encoding.PEM) for one in read_truststore(settings))
        except ConfigError as error:
            errors += error.errors
    if errors:
        raise ConfigError(errors)
    return own, roots


def _own(store: KeyStore, settings: TlsSettings, now: datetime) -> OwnCertificate:
    location = settings.keystore_location
    name = settings.key("keystore_key") if location is None else f"{settings.key('keystore_location')}: {location}"
    if wrong := [f"{name}: {line}" for line in _faults(store, now)]:
        raise ConfigError(wrong)
    key: Any = store.key
    leaf = store.chain[0]
    return OwnCertificate(
        key=Secret(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()),
        chain=b"".join(one.public_bytes(Encoding.PEM) for one in store.chain),
        subject=distinguished_name(leaf.subject),
        issuer=distinguished_name(leaf.issuer),
        serial=leaf.serial_number,
        not_after=min(one.not_valid_after_utc for one in store.chain).timestamp(),
        not_before=max(one.not_valid_before_utc for one in store.chain).timestamp(),
    )


def _faults(store: KeyStore, now: datetime) -> Iterator[str]:
    """Say why a peer would refuse this."""
    key: Any = store.key
    if _public(key.public_key()) != _public(store.chain[0].public_key()):
        yield f"the private key does not belong to the certificate of {_named(store.chain[0])}, which must come first"
    for lower, upper in zip(store.chain, store.chain[1:], strict=False):
        try:
            lower.verify_directly_issued_by(upper)
        except (ValueError, TypeError, InvalidSignature):
            yield f"the certificate of {_named(lower)} was not issued by the next one in the chain, {_named(upper)}"
    for one in store.chain:
        if now > one.not_valid_after_utc:
            yield f"the certificate of {_named(one)} expired at {shown_time(one.not_valid_after_utc)}"
        if now < one.not_valid_before_utc:
            since = shown_time(one.not_valid_before_utc)
            yield (
                f"the certificate of {_named(one)} is not valid before {since}; if that has passed, the clock of this "
                "machine is wrong"
            )


def _public(key: Any) -> bytes:
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded


def _named(certificate: x509.Certificate) -> str:
    return distinguished_name(certificate.subject) or f"serial number {certificate.serial_number:x}"
