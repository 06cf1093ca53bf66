"""Reads `--command-config`: how brokers and ZooKeeper are reached, in a properties file as Kafka's tools take it."""

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from pydantic import ValidationError

from cluster.config.config import read_credentials
from cluster.config.files import shown
from cluster.config.settings import Settings
from cluster.config.validation_reasons import reason
from cluster.model.errors import ConfigError
from cluster.tls.contexts import client_context
from cluster.tls.settings import TlsSettings, tls_settings
from cluster.zookeeper.login import Credentials

_OPTION: Final = "--command-config"
_SET_ACL: Final = "zookeeper.set.acl"
_TEXTS: Final = ("java.security.auth.login.config", "zookeeper.sasl.clientconfig", "klamm.zookeeper.auth.scheme")
_FLAGS: Final = {"true": True, "false": False}
_PROTOCOL: Final = "security.protocol"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL")
_TLS: Final = frozenset(f"ssl.{name.replace('_', '.')}" for name in TlsSettings.__struct_fields__) - {
    "ssl.client.auth",
    "ssl.prefix",
}
_WITHOUT_MEANING: Final = frozenset(
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


class CommandConfig(Struct, frozen=True):
    """`tls` None: brokers that listen with SSL only are not asked. `credentials`, `sets_acl`: see KazooZooKeeper."""

    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None
    sets_acl: bool = False


def read_command_config(path: Path | None) -> CommandConfig:
    """Read the file. Raises ConfigError, which names each key that is wrong or not supported."""
    if path is None:
        return CommandConfig()
    given = _properties(path)
    if errors := list(_unsupported(given)):
        raise ConfigError([f"{_OPTION}: {line}" for line in errors])
    context = client_context(tls_settings(given))
    settings = _zookeeper_settings(given)
    return CommandConfig(context, read_credentials(settings), settings.zookeeper_set_acl)


def _unsupported(given: Mapping[str, str]) -> Iterator[str]:
    """A key that is passed over in silence would be taken for one that has its effect."""
    for key, value in given.items():
        if key == _PROTOCOL:
            if value.upper() not in _PROTOCOLS:
                yield f"{key}: {shown(value)}: klamm does not speak SASL to brokers yet; give PLAINTEXT or SSL"
        elif key.startswith(("zookeeper.ssl.", "zookeeper.clientCnxnSocket")):
            yield f"{key}: klamm does not speak TLS to ZooKeeper yet: remove it, and name a clientPort with --zookeeper"
        elif key.startswith("sasl."):
            yield f"{key}: klamm does not speak SASL to brokers yet: remove it"
        elif key not in _TLS | _WITHOUT_MEANING | {_SET_ACL, *_TEXTS}:
            yield f"{key}: is not supported: remove it"


def _properties(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError([f"{_OPTION}: {path}: {error.strerror}"]) from error
    except ValueError as error:
        raise ConfigError([f"{_OPTION}: {path}: is not text in UTF-8"]) from error
    pairs = [line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith(("#", "!"))]
    # As java.util.Properties has them, for keys and certificates in one line.
    return {key.strip(): value.strip().replace("\\n", "\n") for key, _, value in pairs}


def _zookeeper_settings(given: Mapping[str, str]) -> Settings:
    values: dict[str, object] = {key: given[key] for key in _TEXTS if key in given}
    if _SET_ACL in given:
        values[_SET_ACL] = _FLAGS.get(given[_SET_ACL].lower(), given[_SET_ACL])
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        errors = (f"{d['loc'][0]}: {shown(d['input'])}: {reason(d)}" for d in error.errors())
        raise ConfigError([f"{_OPTION}: {line}" for line in errors]) from error
