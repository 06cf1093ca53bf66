"""Reads `--command-config`: how brokers and ZooKeeper are reached, in a properties file as Kafka's tools take it."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from pydantic import ValidationError

from adoption.broker_access import BrokerAccess
from cluster.config.client_properties import (
    OPTION,
    PROTOCOL,
    SASL_KEYS,
    SASL_PLAINTEXT,
    SASL_PROTOCOLS,
    SECURITY_PROTOCOLS,
    TLS_KEYS,
    WITHOUT_MEANING,
    credentials_errors,
    read_own_properties,
    read_properties,
    read_user_credentials,
)
from cluster.config.config import read_credentials
from cluster.config.files import shown
from cluster.config.settings import Settings
from cluster.config.tls_keys import ZooKeeperTlsKeys
from cluster.config.validation_reasons import reason
from cluster.model.errors import ConfigError
from cluster.tls.contexts import client_context
from cluster.tls.settings import TlsSettings, tls_settings
from cluster.zookeeper.login import Credentials

_SET_ACL: Final = "zookeeper.set.acl"
_TEXTS: Final = ("java.security.auth.login.config", "zookeeper.sasl.clientconfig", "klamm.zookeeper.auth.scheme")
_ZOOKEEPER_TLS: Final = frozenset(
    str(field.alias) for name, field in ZooKeeperTlsKeys.model_fields.items() if name.startswith("zookeeper_")
)
_SWITCHES: Final = frozenset(
    {_SET_ACL, "zookeeper.ssl.client.enable", "zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"}
)
_FLAGS: Final = {"true": True, "false": False}


class CommandConfig(Struct, frozen=True):
    """`brokers`: how they are reached. `credentials`, `sets_acl`: see KazooZooKeeper;
    `zookeeper_tls` None: ZooKeeper is spoken to without TLS.
    """

    brokers: BrokerAccess = BrokerAccess()
    credentials: Credentials | None = None
    sets_acl: bool = False
    zookeeper_tls: TlsSettings | None = None


def read_command_config(path: Path | None) -> CommandConfig:
    """Read the file. Raises ConfigError, which names each key that is wrong or not supported."""
    if path is None:
        return CommandConfig()
    given = read_properties(path)
    if given.get(PROTOCOL, "").upper() in SASL_PROTOCOLS:
        # With a password in it, others must not be able to read the file.
        given = read_own_properties(path)
    if errors := [*_unsupported(given), *credentials_errors(given)]:
        raise ConfigError([f"{OPTION}: {line}" for line in errors])
    context = client_context(tls_settings(given))
    settings = _zookeeper_settings(given)
    protocol = given.get(PROTOCOL, "").upper()
    login = partial(read_user_credentials, path) if protocol in SASL_PROTOCOLS else None
    access = BrokerAccess(context, login, sends_in_clear=protocol == SASL_PLAINTEXT)
    return CommandConfig(access, read_credentials(settings), settings.zookeeper_set_acl, settings.zookeeper_tls)


def _unsupported(given: Mapping[str, str]) -> Iterator[str]:
    """A key that is passed over in silence would be taken for one that has its effect."""
    uses_sasl = given.get(PROTOCOL, "").upper() in SASL_PROTOCOLS
    for key, value in given.items():
        if key == PROTOCOL:
            if value.upper() not in (*SECURITY_PROTOCOLS, *SASL_PROTOCOLS):
                known = ", ".join((*SECURITY_PROTOCOLS, *SASL_PROTOCOLS))
                yield f"{key}: {shown(value)}: must be one of {known}"
        elif key in SASL_KEYS:
            if not uses_sasl:
                yield f"{key}: has an effect with {PROTOCOL}={' or '.join(SASL_PROTOCOLS)} only"
        elif key not in TLS_KEYS | WITHOUT_MEANING | _ZOOKEEPER_TLS | {_SET_ACL, *_TEXTS}:
            yield f"{key}: is not supported: remove it"


def _zookeeper_settings(given: Mapping[str, str]) -> Settings:
    values: dict[str, object] = {key: given[key] for key in (*_TEXTS, *_ZOOKEEPER_TLS) if key in given}
    values |= {key: _FLAGS.get(given[key].lower(), given[key]) for key in _SWITCHES if key in given}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        errors = (f"{d['loc'][0]}: {shown(d['input'])}: {reason(d)}" for d in error.errors())
        raise ConfigError([f"{OPTION}: {line}" for line in errors]) from error
