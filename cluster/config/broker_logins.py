"""How a controller authenticates itself to Apache Kafka's brokers at their listeners with SASL.

The settings are those with which brokers authenticate themselves to one another. Source: Kafka JaasContext,
ChannelBuilders, SaslConfigs; KIP-85.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from msgspec.structs import replace

from cluster.config.jaas_credentials import MODULES, credentials_in, kerberos_credentials_in
from cluster.config.kafka_listeners import protocols_in
from cluster.config.sasl_keys import path_of_url
from cluster.config.settings import Settings
from cluster.model.broker import WITH_SASL, WITH_TLS, Endpoint
from cluster.model.errors import ConfigError
from cluster.sasl.clients import TOKEN_SETTING, ClientCredentials, ReadCredentials
from cluster.sasl.jaas import LoginModule, parse_login_module, parse_sections
from cluster.sasl.mechanisms import GSSAPI, MECHANISMS, OAUTHBEARER
from cluster.tls.guarded_files import read_guarded

SECTION: Final = "KafkaServer"
"""The section of a JAAS file with what a broker needs at all its listeners."""
_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_FILE: Final = "java.security.auth.login.config"
OF_ALL: Final = "sasl.jaas.config"


class BrokerLogins:
    """Knows the credentials of this controller, by the name of the brokers' listener."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._protocols = protocols_in(settings.listener_security_protocol_map)

    def of(self, endpoint: Endpoint) -> ReadCredentials | None:
        """The reader of the credentials for a broker's listener with SASL; None if the settings name no mechanism.

        It raises ConfigError for one that is registered without TLS, where this controller's settings say that brokers
        have TLS: whoever may write a registration would get the password. Kafka, too, goes by its settings.
        """
        if self._settings.sasl_mechanism_inter_broker_protocol is None:
            return None
        own = self._protocols.get(endpoint.listener, endpoint.listener)
        if own in WITH_TLS and not endpoint.has_tls:
            return partial(_refuse_to_read, endpoint, own)
        return partial(read_broker_credentials, self._settings, endpoint.listener)

    def suit(self, listener: str) -> bool:
        """Whether these credentials are for a listener: one without SASL, or with the mechanism among those that this
        controller has there itself, as the brokers do. They are for none without TLS where brokers have it among
        themselves.
        """
        own, names = self._protocols.get(listener, listener), self._settings.listener_names
        if own not in WITH_SASL:
            return True
        control = names.control if names.control in self._protocols else names.client
        if self._protocols.get(control, control) in WITH_TLS and own not in WITH_TLS:
            return False
        return self._settings.sasl_mechanism_inter_broker_protocol in self._settings.mechanisms_of(listener)


def _refuse_to_read(endpoint: Endpoint, own: str) -> ClientCredentials:
    raise ConfigError(
        [
            f"the broker is registered with {endpoint.security_protocol} there, and listener.security.protocol.map of "
            f"this controller has {endpoint.listener}:{own}: it sends no credentials without TLS; correct the "
            "registration, or the setting"
        ]
    )


def login_errors(settings: Settings, listeners: Iterable[str]) -> list[str]:
    """Say what is missing to authenticate at these listeners with SASL. Reads the files."""
    found = list(listeners)
    if found and settings.sasl_mechanism_inter_broker_protocol is None:
        known = ", ".join(MECHANISMS)
        why = f"is missing: brokers take control requests at {found[0]} with SASL; give the mechanism that they use"
        return [f'settings."{_MECHANISM}": {why}, one of {known}']
    errors: list[str] = []
    for listener in found:
        try:
            read_broker_credentials(settings, listener).begin()
        except ConfigError as error:
            errors += [f"settings: {line}" for line in error.errors]
    return list(dict.fromkeys(errors))


def read_broker_credentials(settings: Settings, listener: str) -> ClientCredentials:
    """Read the credentials for a listener. Raises ConfigError that names the setting, and quotes no secret. Blocks."""
    mechanism = settings.sasl_mechanism_inter_broker_protocol
    assert mechanism is not None, "asked for with a mechanism only"
    if mechanism == OAUTHBEARER:
        path = path_of_url(settings.sasl_oauthbearer_token_endpoint_url or "")
        if not path:
            raise ConfigError([f"{TOKEN_SETTING}: is missing: OAUTHBEARER needs the file of a token"])
        return ClientCredentials(mechanism, token_file=path, setting=TOKEN_SETTING, mechanism_setting=_MECHANISM)
    name, module = find_login_module(settings, listener, mechanism)
    if module is None:
        what = "a principal and a keytab" if mechanism == GSSAPI else "a user and a password"
        raise ConfigError([f"{name}: is missing: {mechanism} needs {what}"])
    try:
        if mechanism == GSSAPI:
            service = settings.kerberos_service_of(listener)
            return replace(kerberos_credentials_in(module, name, service), mechanism_setting=_MECHANISM)
        found = credentials_in(module, mechanism)
    except ConfigError as error:
        raise ConfigError([f"{name}: {line}" for line in error.errors]) from error
    return ClientCredentials(found.mechanism, found.user, found.password, None, name, _MECHANISM)


def find_login_module(settings: Settings, listener: str, mechanism: str) -> tuple[str, LoginModule | None]:
    """Find the login module of a mechanism at a listener, and where it is; None if there is none, with where it should
    be. Raises ConfigError that names the setting.

    In Kafka's order: the setting of the listener and the mechanism, the section of the listener in the JAAS file, that
    of all listeners; and then, which Kafka has for clients only, `sasl.jaas.config`.
    """
    given = settings.jaas_of(listener, mechanism)
    if given is None:
        name, found = _in_file(settings, listener, mechanism)
        if found is not None:
            return name, found
        if settings.sasl_jaas_config is None:
            return f"listener.name.{listener.lower()}.{mechanism.lower()}.{OF_ALL}", None
        given = OF_ALL, settings.sasl_jaas_config.get_secret_value()
    name, text = given
    try:
        return name, parse_login_module(text)
    except ConfigError as error:
        raise ConfigError([f"{name}: {line}" for line in error.errors]) from error


def _in_file(settings: Settings, listener: str, mechanism: str) -> tuple[str, LoginModule | None]:
    path = settings.java_security_auth_login_config
    if path is None:
        return _FILE, None
    try:
        sections = parse_sections(read_guarded(_FILE, path, "passwords").decode())
    except UnicodeDecodeError as error:
        raise ConfigError([f"{_FILE}: {path}: is not text in UTF-8"]) from error
    except ConfigError as error:
        named = f"{_FILE}: {path}: "
        raise ConfigError([named + line.removeprefix(named) for line in error.errors]) from error
    for section in (f"{listener.lower()}.{SECTION}", SECTION):
        modules = [module for module in sections.get(section, ()) if mechanism in MODULES.get(module.name, ())]
        if modules:
            return f"{_FILE}: {path}: section {section}", modules[0]
    return _FILE, None
