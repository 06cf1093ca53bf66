"""Reads key stores and trust stores: PEM and PKCS12, from files and from the settings themselves.

Everything that cannot be used is named by its setting; no message quotes a key or a password.
"""

import re
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from cluster.model.errors import ConfigError
from cluster.tls.guarded_files import read_guarded
from cluster.tls.secret import HIDDEN, Secret
from cluster.tls.settings import HOW_TO_CONVERT, TlsSettings

_JKS: Final = b"\xfe\xed\xfe\xed"
_DER: Final = b"\x30"
_KEY: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)
_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class KeyStore(NamedTuple):
    """A private key, as `cryptography` has it, and its certificates, that of the key first."""

    key: object
    chain: tuple[x509.Certificate, ...]


def read_keystore(settings: TlsSettings) -> KeyStore:
    """Read the private key and its certificates. Raises ConfigError that names the setting."""
    if settings.keystore_location is None:
        assert settings.keystore_key is not None, "asked only of settings with a keystore"
        name, where = settings.key("keystore_key"), HIDDEN
        content = f"{settings.keystore_key.reveal()}\n{settings.keystore_certificate_chain}\n".encode()
    else:
        name, where = settings.key("keystore_location"), settings.keystore_location
        is_pkcs12 = settings.keystore_type.upper() == "PKCS12"
        content = read_guarded(name, where, "a private key", lambda found: is_pkcs12 or _KEY.search(found))
    if settings.keystore_type.upper() == "PKCS12":
        return _keystore_of_pkcs12(settings, content, f"{name}: {where}")
    return _keystore_of_pem(settings, content, f"{name}: {where}")


def read_truststore(settings: TlsSettings) -> tuple[x509.Certificate, ...]:
    """Read the certificates of authorities. Raises ConfigError that names the setting."""
    if settings.truststore_location is None:
        name, where = settings.key("truststore_certificates"), HIDDEN
        content = (settings.truststore_certificates or "").encode()
    else:
        name, where = settings.key("truststore_location"), settings.truststore_location
        content = read_guarded(name, where)
    about = f"{name}: {where}"
    if settings.truststore_type.upper() != "PKCS12":
        if _KEY.search(content) and not _CERTIFICATE.search(content):
            raise _wrong(
                f"{about}: holds a private key and no certificate: a trust store is the certificates of authorities; "
                f"the key of this side, with its certificate, belongs into {settings.key('keystore_location')}"
            )
        return _certificates(content, about, settings.key("truststore_type"))
    try:
        store = load_pkcs12(content, _bytes(settings.truststore_password))
    except ValueError as error:
        raise _wrong(_unopened(settings, about, "truststore")) from error
    found = [*([store.cert] if store.cert is not None else []), *store.additional_certs]
    if not found:
        raise _wrong(f"{about}: holds no certificate")
    return tuple(one.certificate for one in found)


def _keystore_of_pem(settings: TlsSettings, content: bytes, about: str) -> KeyStore:
    found = _KEY.search(content)
    if found is None and _CERTIFICATE.search(content):
        raise _wrong(
            f"{about}: holds certificates and no private key: a key store is the key of this side with its "
            f"certificate; certificates of authorities belong into {settings.key('truststore_location')}"
        )
    if found is None:
        raise _wrong(f"{about}: {_no_pem(content, 'private key', settings.key('keystore_type'))}")
    is_encrypted = found[1].startswith(b"ENCRYPTED") or b"Proc-Type: 4,ENCRYPTED" in found[0]
    if is_encrypted and settings.key_password is None:
        raise _wrong(f"{about}: its private key is encrypted: {settings.key('key_password')} is missing")
    try:
        key = load_pem_private_key(found[0], _bytes(settings.key_password) if is_encrypted else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        why = f"{settings.key('key_password')} does not open its private key" if is_encrypted else "damaged private key"
        raise _wrong(f"{about}: {why}") from error
    return KeyStore(key, _certificates(content, about, settings.key("keystore_type")))


def _keystore_of_pkcs12(settings: TlsSettings, content: bytes, about: str) -> KeyStore:
    try:
        store = load_pkcs12(content, _bytes(settings.keystore_password))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _wrong(_unopened(settings, about, "keystore")) from error
    if store.key is None or store.cert is None:
        raise _wrong(f"{about}: holds no private key with its certificate")
    return KeyStore(store.key, (store.cert.certificate, *(one.certificate for one in store.additional_certs)))


def _certificates(content: bytes, about: str, type_key: str) -> tuple[x509.Certificate, ...]:
    blocks = _CERTIFICATE.findall(content)
    if not blocks:
        raise _wrong(f"{about}: {_no_pem(content, 'certificate', type_key)}")
    try:
        return tuple(map(x509.load_pem_x509_certificate, blocks))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _wrong(f"{about}: holds a damaged certificate ({error})") from error


def _no_pem(content: bytes, what: str, type_key: str) -> str:
    """Say why a file that should be PEM is not, by how it begins."""
    if content.startswith(_JKS):
        return f"is a JKS store; {HOW_TO_CONVERT}"
    if content.startswith(_DER):
        return f"holds no {what} in PEM form; if it is a PKCS12 store, set {type_key} to PKCS12"
    return f"holds no {what} in PEM form"


def _unopened(settings: TlsSettings, about: str, store: str) -> str:
    password = settings.key(f"{store}_password")
    if getattr(settings, f"{store}_password") is None:
        return f"{about}: is no PKCS12 store, or has a password: {password} is missing"
    return f"{about}: is no PKCS12 store, or {password} does not open it"


def _bytes(secret: Secret | None) -> bytes | None:
    return None if secret is None else secret.reveal().encode()


def _wrong(line: str) -> ConfigError:
    return ConfigError([line])
