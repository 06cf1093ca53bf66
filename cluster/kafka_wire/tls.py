"""TLS as Kafka's `ssl.*` settings describe it, with keys and certificates in PEM form (KIP-651)."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from msgspec import Struct

from cluster.model.errors import ConfigError

_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_HOW_TO_CONVERT: Final = "only PEM is read; `keytool` and `openssl pkcs12 -nodes` convert JKS and PKCS12 stores"
_HIDDEN: Final = "(not shown)"


class TlsSettings(Struct, frozen=True):
    """Kafka's settings, each named after it: `keystore_location` is `ssl.keystore.location`.

    Of a store, either the location of its file or its content is given.
    """

    keystore_type: str = "PEM"
    keystore_location: str | None = None
    """A file with the private key and its certificates, that of the key first."""
    keystore_key: str | None = None
    keystore_certificate_chain: str | None = None
    key_password: str | None = None
    truststore_type: str = "PEM"
    truststore_location: str | None = None
    truststore_certificates: str | None = None
    client_auth: str = "none"
    endpoint_identification_algorithm: str = "https"
    """`https`: the certificate of a broker must have the name by which it is reached; empty: any name will do."""

    @property
    def has_keystore(self) -> bool:
        return self.keystore_location is not None or self.keystore_key is not None

    @property
    def has_truststore(self) -> bool:
        return self.truststore_location is not None or self.truststore_certificates is not None


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the context of a listener. Raises ConfigError that names the setting."""
    errors = _contradictions(settings)
    if not settings.has_keystore:
        errors.append("ssl.keystore.location: None: an SSL listener needs a private key and its certificate")
    if settings.client_auth != "none" and not settings.has_truststore:
        errors.append(
            f"ssl.truststore.location: None: ssl.client.auth={settings.client_auth} needs the certificates of the "
            "authorities that clients are certified by"
        )
    if errors:
        raise ConfigError(errors)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    _load(context, settings)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Make the context of connections to brokers. It trusts what this machine trusts unless there is a truststore.
    Raises ConfigError.
    """
    if errors := _contradictions(settings):
        raise ConfigError(errors)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.endpoint_identification_algorithm)
    if not settings.has_truststore:
        context.load_default_certs()
    _load(context, settings)
    return context


def _contradictions(settings: TlsSettings) -> list[str]:
    """Say what is wrong with the settings by themselves, a line for each fault."""
    errors = [
        f"ssl.{name}.type: {kind}: {_HOW_TO_CONVERT}"
        for name, kind in (("keystore", settings.keystore_type), ("truststore", settings.truststore_type))
        if kind.upper() != "PEM"
    ]
    if settings.keystore_location is not None and settings.keystore_key is not None:
        errors.append(f"ssl.keystore.location: {settings.keystore_location}: ssl.keystore.key is set, too; remove one")
    if (settings.keystore_key is None) != (settings.keystore_certificate_chain is None):
        errors.append("ssl.keystore.certificate.chain and ssl.keystore.key: one is set without the other")
    if settings.truststore_location is not None and settings.truststore_certificates is not None:
        errors.append(
            f"ssl.truststore.location: {settings.truststore_location}: ssl.truststore.certificates is set, too; remove "
            "one"
        )
    if settings.client_auth not in _CLIENT_AUTH:
        errors.append(f"ssl.client.auth: {settings.client_auth}: must be one of {', '.join(_CLIENT_AUTH)}")
    if settings.endpoint_identification_algorithm.lower() not in ("https", ""):
        algorithm = settings.endpoint_identification_algorithm
        errors.append(f"ssl.endpoint.identification.algorithm: {algorithm}: must be https or empty")
    return errors


def _load(context: ssl.SSLContext, settings: TlsSettings) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.has_keystore:
        _load_keystore(context, settings)
    if settings.has_truststore:
        _load_truststore(context, settings)


def _load_keystore(context: ssl.SSLContext, settings: TlsSettings) -> None:
    # Without a password OpenSSL would ask for one at the terminal.
    password = settings.key_password or ""
    try:
        with _keystore_file(settings) as file:
            context.load_cert_chain(file, password=password)
    except ssl.SSLError as error:
        name, value = _named("keystore.location", settings.keystore_location, "keystore.key")
        raise ConfigError(
            [
                f"{name}: {value}: holds no private key with its certificates in PEM form, or ssl.key.password does "
                f"not open it ({error.reason or error}); {_HOW_TO_CONVERT}"
            ]
        ) from error
    except (OSError, ValueError) as error:
        name, value = _named("keystore.location", settings.keystore_location, "keystore.key")
        raise ConfigError([f"{name}: {value}: {_why_unreadable(error)}"]) from error


@contextmanager
def _keystore_file(settings: TlsSettings) -> Iterator[Path]:
    """The file with key and certificates; a temporary one, which only its owner can read, if they are settings."""
    if settings.keystore_location is not None:
        yield Path(settings.keystore_location)
        return
    with NamedTemporaryFile("w", prefix="klamm-keystore-", suffix=".pem") as file:
        file.write(f"{settings.keystore_key}\n{settings.keystore_certificate_chain}\n")
        file.flush()
        yield Path(file.name)


def _load_truststore(context: ssl.SSLContext, settings: TlsSettings) -> None:
    try:
        context.load_verify_locations(cafile=settings.truststore_location, cadata=settings.truststore_certificates)
    except ssl.SSLError as error:
        name, value = _named("truststore.location", settings.truststore_location, "truststore.certificates")
        raise ConfigError(
            [f"{name}: {value}: holds no certificate in PEM form ({error.reason or error}); {_HOW_TO_CONVERT}"]
        ) from error
    except (OSError, TypeError, ValueError) as error:
        name, value = _named("truststore.location", settings.truststore_location, "truststore.certificates")
        raise ConfigError([f"{name}: {value}: {_why_unreadable(error)}"]) from error


def _why_unreadable(error: OSError | TypeError | ValueError) -> str:
    """Python refuses a path with a NUL, and a certificate that is not ASCII."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _named(location_name: str, location: str | None, content_name: str) -> tuple[str, str]:
    """The setting that an error is about, and its value."""
    return (f"ssl.{location_name}", location) if location is not None else (f"ssl.{content_name}", _HIDDEN)
