"""Reads how a client reaches a cluster from a properties file, as Kafka's own tools take it with `--command-config`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from cluster.config.files import shown
from cluster.model.errors import ConfigError
from cluster.tls.settings import PROTOCOLS, TlsSettings, tls_settings

OPTION: Final = "--command-config"
PROTOCOL: Final = "security.protocol"
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL")
TLS_KEYS: Final = frozenset(f"ssl.{name.replace('_', '.')}" for name in TlsSettings.__struct_fields__) - {
    "ssl.client.auth",
    "ssl.prefix",
}
WITHOUT_MEANING: Final = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "default.api.timeout.ms",
        "request.timeout.ms",
        "retries",
        "retry.backoff.ms",
        # Both ends agree on the newest version of TLS that is enabled.
        "ssl.protocol",
    }
)
"""What files for Kafka's tools may well have, and what changes nothing here."""


def read_properties(path: Path) -> dict[str, str]:
    """Read a file of `key=value` lines. Raises ConfigError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError([f"{OPTION}: {path}: {error.strerror}"]) from error
    except ValueError as error:
        raise ConfigError([f"{OPTION}: {path}: is not text in UTF-8"]) from error
    pairs = [line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith(("#", "!"))]
    # As java.util.Properties has them, for keys and certificates in one line.
    return {key.strip(): value.strip().replace("\\n", "\n") for key, _, value in pairs}


def read_client_tls(path: Path) -> TlsSettings | None:
    """Read how klamm's own nodes are called; None: without TLS. Raises ConfigError, which names each key that is wrong
    or not supported.
    """
    given = read_properties(path)
    if errors := list(_errors(given)):
        raise ConfigError([f"{OPTION}: {path}: {line}" for line in errors])
    return tls_settings(given) if given.get(PROTOCOL, "PLAINTEXT").upper() == "SSL" else None


def _errors(given: Mapping[str, str]) -> Iterator[str]:
    """A key that is passed over in silence would be taken for one that has its effect."""
    for key, value in given.items():
        if key == PROTOCOL:
            if value.upper() not in SECURITY_PROTOCOLS:
                yield f"{key}: {shown(value)}: must be PLAINTEXT or SSL"
        elif key.startswith("sasl."):
            yield f"{key}: klamm's listeners have no SASL yet: remove it"
        elif key not in TLS_KEYS | WITHOUT_MEANING:
            yield f"{key}: is not supported: remove it"
    if given.get("ssl.endpoint.identification.algorithm", "https").lower() != "https":
        yield "ssl.endpoint.identification.algorithm: must be https: gRPC always checks the names in certificates"
    versions = given.get("ssl.enabled.protocols", ",".join(PROTOCOLS))
    if {part.strip() for part in versions.split(",")} != set(PROTOCOLS):
        yield f"ssl.enabled.protocols: {shown(versions)}: must be {','.join(PROTOCOLS)}: gRPC always takes both"
