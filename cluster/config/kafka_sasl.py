"""SASL at a controller's Kafka listeners, for brokers and clients: mechanisms, users, and what must be configured.

The settings are those of the brokers' listeners. Source: Kafka SaslChannelBuilder, PlainServerCallbackHandler.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from cluster.config.broker_logins import OF_ALL, find_login_module, login_errors
from cluster.config.jaas_credentials import MODULES, check_module, kerberos_login_in, users_in
from cluster.config.kafka_listeners import KafkaListener
from cluster.config.listener_sasl import listener_sasl, missing_for_sasl, unusable_files
from cluster.config.settings import Settings
from cluster.model.errors import ConfigError
from cluster.sasl.kerberos import KerberosLogin
from cluster.sasl.listeners import PASSWORDS_SETTING, ListenerSasl
from cluster.sasl.mechanisms import GSSAPI, PLAIN
from cluster.tls.secret import Secret


def kafka_sasl(settings: Settings, listeners: Iterable[KafkaListener]) -> dict[str, ListenerSasl]:
    """The SASL of the listeners that have it, by their names. `kafka_sasl_errors` has found nothing."""
    return {one.name: _sasl_of(settings, one.name) for one in listeners if one.has_sasl}


def kafka_sasl_errors(settings: Settings, listeners: Iterable[KafkaListener]) -> list[str]:
    """Say what is wrong with SASL at these listeners, with its files, and with the controller's own credentials."""
    secured = [one for one in listeners if one.has_sasl]
    errors = [line for one in secured for line in _errors_of(settings, one.name)]
    names = settings.listener_names
    control = names.control_endpoint(one.advertised for one in listeners)
    if control is not None and control.has_sasl:
        errors += login_errors(settings, [control.listener])
    return list(dict.fromkeys(errors))


def _sasl_of(settings: Settings, listener: str) -> ListenerSasl:
    found = listener_sasl(settings, listener)
    if PLAIN in found.mechanisms:
        found = replace(found, plain_users=_plain_users(settings, listener))
    if GSSAPI in found.mechanisms:
        rules = settings.kerberos_rules_of(listener)
        found = replace(found, kerberos=_kerberos_login(settings, listener), kerberos_rules=rules)
    return found


def _kerberos_login(settings: Settings, listener: str) -> KerberosLogin:
    """The principal with which the listener answers GSSAPI. Raises ConfigError."""
    name, module = find_login_module(settings, listener, GSSAPI)
    if module is None:
        raise ConfigError([f"{name}: is missing: GSSAPI needs a principal and a keytab"])
    try:
        found = kerberos_login_in(module, name, settings.kerberos_service_of(listener))
    except ConfigError as error:
        raise ConfigError([f"{name}: {line}" for line in error.errors]) from error
    if found.keytab is None:
        raise ConfigError([f"{name}: has useTicketCache=true: a server needs useKeyTab=true, keyTab and principal"])
    return found


def _plain_users(settings: Settings, listener: str) -> dict[str, Secret]:
    """The users in the login module of PLAIN. Raises ConfigError."""
    name, module = find_login_module(settings, listener, PLAIN)
    if module is None or (name == OF_ALL and PLAIN not in MODULES.get(module.name, ())):
        return {}
    try:
        check_module(module, PLAIN)
    except ConfigError as error:
        raise ConfigError([f"{name}: {line}" for line in error.errors]) from error
    return users_in(module)


def _errors_of(settings: Settings, listener: str) -> Iterator[str]:
    try:
        mechanisms = settings.mechanisms_of(listener)
        has_users = PLAIN in mechanisms and bool(_plain_users(settings, listener))
        if GSSAPI in mechanisms:
            _kerberos_login(settings, listener)
    except ConfigError as error:
        yield from (f"settings: {line}" for line in error.errors)
        return
    missing = [line for line in missing_for_sasl(settings, listener) if not (has_users and _is_of_users(line))]
    own = f"listener.name.{listener.lower()}.plain.sasl.jaas.config"
    hint = f'; or give {own} options user_NAME="password", as the brokers have them'
    yield from [line + hint if _is_of_users(line) else line for line in missing]
    if not missing:
        yield from unusable_files(_sasl_of(settings, listener))


def _is_of_users(line: str) -> bool:
    return line.startswith(f'settings."{PASSWORDS_SETTING}"')
