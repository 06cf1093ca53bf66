"""Kafka's `ssl.*` settings as one value, and what is wrong with them by themselves."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from cluster.model.errors import ConfigError
from cluster.tls.secret import HIDDEN, Secret

AUTHORITY: Final = "ca.pem"
"""The file with the certificate of a development authority. Here, because it is named without being made."""
CLIENT_AUTHS: Final = ("none", "requested", "required")
STORE_TYPES: Final = ("PEM", "PKCS12")
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
HOW_TO_CONVERT: Final = (
    "JKS is not read: `keytool -importkeystore -srckeystore old.jks -destkeystore new.p12 -deststoretype PKCS12` "
    "converts it to PKCS12"
)
_SECRETS: Final = frozenset({"keystore_password", "keystore_key", "key_password", "truststore_password"})


class TlsSettings(Struct, frozen=True):
    """Kafka's settings, each named after it: `keystore_location` is `ssl.keystore.location`.

    Of a store, either the location of its file or its content is given. `prefix`: what precedes the names in messages,
    as in `zookeeper.ssl.keystore.location`. Source: Kafka SslConfigs, KIP-651.
    """

    keystore_type: str = "PEM"
    keystore_location: str | None = None
    """A file with the private key and its certificates, that of the key first."""
    keystore_password: Secret | None = None
    """Of a PKCS12 file."""
    keystore_key: Secret | None = None
    keystore_certificate_chain: str | None = None
    key_password: Secret | None = None
    truststore_type: str = "PEM"
    truststore_location: str | None = None
    truststore_password: Secret | None = None
    truststore_certificates: str | None = None
    client_auth: str = "none"
    endpoint_identification_algorithm: str = "https"
    """`https`: the certificate of a server must have the name by which it is reached; empty: any name will do."""
    enabled_protocols: tuple[str, ...] = PROTOCOLS
    prefix: str = "ssl."

    @property
    def has_keystore(self) -> bool:
        return self.keystore_location is not None or self.keystore_key is not None

    @property
    def has_truststore(self) -> bool:
        return self.truststore_location is not None or self.truststore_certificates is not None

    @property
    def checks_names(self) -> bool:
        """Whether the certificate of a server must have the name by which it is reached."""
        return bool(self.endpoint_identification_algorithm)

    def key(self, name: str) -> str:
        """The key of a field, as it stands in a configuration."""
        return f"{self.prefix}{name.replace('_', '.')}"


def tls_settings(values: Mapping[str, str | None], prefix: str = "ssl.") -> TlsSettings:
    """Make the settings from texts by Kafka's keys; keys that are not known, and None, are passed over."""
    found: dict[str, object] = {"prefix": prefix}
    for name in TlsSettings.__struct_fields__:
        value = values.get(f"{prefix}{name.replace('_', '.')}")
        if value is None:
            continue
        if name == "enabled_protocols":
            found[name] = tuple(part.strip() for part in value.split(",") if part.strip())
        else:
            found[name] = Secret(value) if name in _SECRETS else value
    return TlsSettings(**found)  # type: ignore[arg-type]  # Each by its name.


def require_consistent(settings: TlsSettings) -> None:
    """Raise ConfigError with a line for each contradiction in the settings themselves; files are not read."""
    if errors := contradictions(settings):
        raise ConfigError(errors)


def contradictions(settings: TlsSettings) -> list[str]:
    """Say what is wrong with the settings by themselves, a line for each fault."""
    key = settings.key
    errors = [*_wrong_types(settings)]
    if settings.keystore_location is not None and settings.keystore_key is not None:
        errors.append(
            f"{key('keystore_location')}: {settings.keystore_location}: {key('keystore_key')} is set, too; remove one"
        )
    if (settings.keystore_key is None) != (settings.keystore_certificate_chain is None):
        errors.append(f"{key('keystore_certificate_chain')} and {key('keystore_key')}: one is set without the other")
    if settings.truststore_location is not None and settings.truststore_certificates is not None:
        errors.append(
            f"{key('truststore_location')}: {settings.truststore_location}: {key('truststore_certificates')} is set, "
            "too; remove one"
        )
    if settings.client_auth not in CLIENT_AUTHS:
        errors.append(f"{key('client_auth')}: {settings.client_auth}: must be one of {', '.join(CLIENT_AUTHS)}")
    if settings.endpoint_identification_algorithm.lower() not in ("https", ""):
        algorithm = settings.endpoint_identification_algorithm
        errors.append(f"{key('endpoint_identification_algorithm')}: {algorithm}: must be https or empty")
    unknown = [name for name in settings.enabled_protocols if name not in PROTOCOLS]
    if unknown or not settings.enabled_protocols:
        given = ",".join(settings.enabled_protocols)
        errors.append(f"{key('enabled_protocols')}: {given!r}: must be of {', '.join(PROTOCOLS)}")
    return errors


def _wrong_types(settings: TlsSettings) -> list[str]:
    errors: list[str] = []
    for store in ("keystore", "truststore"):
        kind = getattr(settings, f"{store}_type")
        contents = {"keystore": "keystore_key", "truststore": "truststore_certificates"}[store]
        if kind.upper() == "JKS":
            errors.append(f"{settings.key(f'{store}_type')}: {kind}: {HOW_TO_CONVERT}")
        elif kind.upper() not in STORE_TYPES:
            errors.append(f"{settings.key(f'{store}_type')}: {kind}: must be PEM or PKCS12")
        elif kind.upper() == "PKCS12" and getattr(settings, contents) is not None:
            errors.append(f"{settings.key(contents)}: {HIDDEN}: needs {settings.key(f'{store}_type')} PEM")
    return errors
