"""Reads how a client reaches a cluster from a properties file, as Kafka's own tools take it with `--command-config`."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from cluster.config.files import shown
from cluster.config.jaas_credentials import SERVICE_NAME, credentials_in, kerberos_credentials_in
from cluster.config.sasl_keys import path_of_url
from cluster.config.secret_keys import is_secret_key
from cluster.model.errors import ConfigError
from cluster.sasl.clients import TOKEN_SETTING, ClientCredentials, ReadCredentials
from cluster.sasl.jaas import parse_login_module
from cluster.sasl.mechanisms import GSSAPI, MECHANISMS, OAUTHBEARER, OF_OWN_NODES
from cluster.tls.guarded_files import read_guarded
from cluster.tls.settings import PROTOCOLS, TlsSettings, tls_settings

OPTION: Final = "--command-config"
PROTOCOL: Final = "security.protocol"
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL")
"""Those in which klamm speaks to brokers of Apache Kafka."""
SASL_SSL: Final = "SASL_SSL"
_PROTOCOLS: Final = (*SECURITY_PROTOCOLS, SASL_SSL)
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_PROTOCOLS: Final = (SASL_PLAINTEXT, SASL_SSL)
"""Those in which klamm speaks to brokers of Apache Kafka as a user."""
_HANDLER: Final = "sasl.login.callback.handler.class"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
_HANDLERS: Final = (f"{_OAUTH}OAuthBearerLoginCallbackHandler", f"{_OAUTH}secured.OAuthBearerLoginCallbackHandler")
"""The class by which Kafka's tools read a token from a file, and its name before 3.4. Source: KIP-768."""
SASL_KEYS: Final = frozenset({_MECHANISM, _JAAS, TOKEN_SETTING, SERVICE_NAME, _HANDLER})
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


class ClientSecurity(NamedTuple):
    """How klamm's own nodes are called. `tls` None: without TLS; `sasl` None: not as a user."""

    tls: TlsSettings | None = None
    sasl: ReadCredentials | None = None


def read_properties(path: Path) -> dict[str, str]:
    """Read a file of `key=value` lines. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([f"{OPTION}: {path}: {error.strerror}"]) from error
    except ValueError as error:
        raise ConfigError([f"{OPTION}: {path}: is not text in UTF-8"]) from error
    # As in java.util.Properties, a line ends with a backslash to continue in the next one.
    lines = re.sub(r"\\\n[ \t]*", "", text).splitlines()
    pairs = [line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith(("#", "!"))]
    # So have keys and certificates their ends of lines.
    return {key.strip(): value.strip().replace("\\n", "\n") for key, _, value in pairs}


def read_own_properties(path: Path) -> dict[str, str]:
    """Read the file of a client. Raises ConfigError, also if it has a password and others can read it."""
    found = read_properties(path)
    if secret := next((key for key in found if key == _JAAS or is_secret_key(key)), None):
        read_guarded(OPTION, str(path), f"{secret} in it")
    return found


def read_client_security(path: Path) -> ClientSecurity:
    """Read how klamm's own nodes are called, and as which user. Raises ConfigError, which names each key that is wrong
    or not supported.

    The credentials are read once more at each authentication, so that a password that is replaced takes effect.
    """
    given = read_own_properties(path)
    if errors := list(_errors(given)):
        raise ConfigError([f"{OPTION}: {path}: {line}" for line in errors])
    protocol = given.get(PROTOCOL, "PLAINTEXT").upper()
    if protocol == "PLAINTEXT":
        return ClientSecurity()
    sasl = partial(read_user_credentials, path) if protocol == SASL_SSL else None
    return ClientSecurity(tls_settings(given), sasl)


def read_user_credentials(path: Path) -> ClientCredentials:
    """Read the user and password, or the file of a token, in the file of a client. Raises ConfigError. Blocks."""
    given = read_own_properties(path)
    try:
        return _credentials(given)
    except ConfigError as error:
        raise ConfigError([f"{OPTION}: {path}: {line}" for line in error.errors]) from error


def _credentials(given: Mapping[str, str]) -> ClientCredentials:
    """Read what the keys of SASL say. Raises ConfigError, which quotes neither user nor password."""
    mechanism = given.get(_MECHANISM, "").upper()
    if mechanism not in MECHANISMS:
        what = shown(mechanism) if mechanism else "is missing"
        raise ConfigError([f"{_MECHANISM}: {what}: must be one of {', '.join(MECHANISMS)}"])
    if _HANDLER in given:
        _check_handler(given[_HANDLER], mechanism)
    if mechanism == OAUTHBEARER:
        token_file = path_of_url(given.get(TOKEN_SETTING, ""))
        if not token_file:
            raise ConfigError([f"{TOKEN_SETTING}: must be file: with the path of a token; klamm fetches none"])
        return ClientCredentials(mechanism, token_file=token_file)
    if _JAAS not in given:
        what = "a principal and a keytab" if mechanism == GSSAPI else "a user and a password"
        raise ConfigError([f"{_JAAS}: is missing: {mechanism} needs {what}"])
    try:
        module = parse_login_module(given[_JAAS])
        if mechanism == GSSAPI:
            return kerberos_credentials_in(module, _JAAS, given.get(SERVICE_NAME, ""))
        return credentials_in(module, mechanism)
    except ConfigError as error:
        raise ConfigError([f"{_JAAS}: {line}" for line in error.errors]) from error


def _check_handler(name: str, mechanism: str) -> None:
    """Raise ConfigError for a class that klamm does not replace: it may find another user than the file names."""
    if mechanism != OAUTHBEARER:
        raise ConfigError([f"{_HANDLER}: has an effect with {_MECHANISM}={OAUTHBEARER} only"])
    if name not in _HANDLERS:
        raise ConfigError(
            [f"{_HANDLER}: {shown(name)}: must be {_HANDLERS[0]}, whose token klamm reads from the file itself"]
        )


def credentials_errors(given: Mapping[str, str]) -> list[str]:
    """Say what is wrong with the keys of SASL of a file whose protocol needs them."""
    if given.get(PROTOCOL, "").upper() not in SASL_PROTOCOLS:
        return []
    try:
        _credentials(given)
    except ConfigError as error:
        return error.errors
    return []


def _errors(given: Mapping[str, str]) -> Iterator[str]:
    """A key that is passed over in silence would be taken for one that has its effect."""
    uses_sasl = given.get(PROTOCOL, "").upper() == SASL_SSL
    if uses_sasl:
        yield from credentials_errors(given)
    if given.get(_MECHANISM, "").upper() == GSSAPI:
        yield f"{_MECHANISM}: GSSAPI: klamm's own nodes do not take it, only {', '.join(OF_OWN_NODES)}"
    for key, value in given.items():
        if key == PROTOCOL:
            if value.upper() not in _PROTOCOLS:
                yield f"{key}: {shown(value)}: {_why_no_protocol(value.upper())}"
        elif key in SASL_KEYS:
            if not uses_sasl:
                yield f"{key}: has an effect with security.protocol=SASL_SSL only"
        elif key not in TLS_KEYS | WITHOUT_MEANING:
            yield f"{key}: is not supported: remove it"
    if given.get("ssl.endpoint.identification.algorithm", "https").lower() != "https":
        yield "ssl.endpoint.identification.algorithm: must be https: gRPC always checks the names in certificates"
    versions = given.get("ssl.enabled.protocols", ",".join(PROTOCOLS))
    if {part.strip() for part in versions.split(",")} != set(PROTOCOLS):
        yield f"ssl.enabled.protocols: {shown(versions)}: must be {','.join(PROTOCOLS)}: gRPC always takes both"


def _why_no_protocol(protocol: str) -> str:
    if protocol == "SASL_PLAINTEXT":
        return "whoever listens would get the password or token: it must be SASL_SSL"
    return f"must be one of {', '.join(_PROTOCOLS)}"
