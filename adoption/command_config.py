"""Reads `--command-config`: how brokers and ZooKeeper are reached, in a properties file as Kafka's tools take it."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from pydantic import ValidationError

from cluster.errors import ConfigError
from cluster.kafka_wire.tls import TlsSettings, client_context
from cluster.process.config import read_credentials
from cluster.process.files import shown
from cluster.process.settings import Settings
from cluster.process.validation_reasons import reason
from cluster.zookeeper.login import Credentials

_OPTION: Final = "--command-config"
_SET_ACL: Final = "zookeeper.set.acl"
_TEXTS: Final = ("java.security.auth.login.config", "zookeeper.sasl.clientconfig", "klamm.zookeeper.auth.scheme")
_FLAGS: Final = {"true": True, "false": False}


class CommandConfig(Struct, frozen=True):
    """`tls` None: brokers that listen with SSL only are not asked. `credentials`, `sets_acl`: see KazooZooKeeper."""

    tls: ssl.SSLContext | None = None
    credentials: Credentials | None = None
    sets_acl: bool = False


def read_command_config(path: Path | None) -> CommandConfig:
    """What the file says; other keys than `ssl.*` and those of ZooKeeper are ignored. Raises ConfigError."""
    if path is None:
        return CommandConfig()
    given = _properties(path)
    names = set(TlsSettings.__struct_fields__)
    tls = {key.removeprefix("ssl.").replace(".", "_"): value for key, value in given.items() if key.startswith("ssl.")}
    context = client_context(TlsSettings(**{name: value for name, value in tls.items() if name in names}))
    settings = _zookeeper_settings(given)
    return CommandConfig(context, read_credentials(settings), settings.zookeeper_set_acl)


def _properties(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError([f"{_OPTION}: {path}: {error.strerror}"]) from error
    except ValueError as error:
        raise ConfigError([f"{_OPTION}: {path}: is not text in UTF-8"]) from error
    pairs = [line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith("#")]
    return {key.strip(): value.strip() for key, _, value in pairs}


def _zookeeper_settings(given: Mapping[str, str]) -> Settings:
    values: dict[str, object] = {key: given[key] for key in _TEXTS if key in given}
    if _SET_ACL in given:
        values[_SET_ACL] = _FLAGS.get(given[_SET_ACL].lower(), given[_SET_ACL])
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        errors = (f"{d['loc'][0]}: {shown(d['input'])}: {reason(d)}" for d in error.errors())
        raise ConfigError([f"{_OPTION}: {line}" for line in errors]) from error
