"""Which listeners of a process have SASL, and whether their settings are such that users can be checked."""

from collections.abc import Iterable, Iterator
from typing import Final

from cluster.config.listener_addresses import METRICS_LISTENER
from cluster.config.listener_security import SASL_SSL, security_name, security_protocol_of, server_tls_of
from cluster.config.sasl_keys import path_of_url
from cluster.config.scram_users import ScramUsers
from cluster.config.settings import Settings
from cluster.model.errors import ConfigError
from cluster.model.listeners import EXTERNAL_LISTENER
from cluster.sasl.bearer import BearerRules
from cluster.sasl.listeners import KEYS_SETTING, PASSWORDS_SETTING, ListenerSasl, ServerMechanisms
from cluster.sasl.mechanisms import GSSAPI, OAUTHBEARER, OF_OWN_NODES, PLAIN

_AUDIENCE: Final = "sasl.oauthbearer.expected.audience"
_ISSUER: Final = "sasl.oauthbearer.expected.issuer"
_MECHANISMS: Final = "sasl.enabled.mechanisms"


def sasl_of(settings: Settings, listener: str) -> ListenerSasl | None:
    """The SASL of a listener, by its security name; None for one without. `sasl_errors` has found nothing."""
    return listener_sasl(settings, listener) if security_protocol_of(settings, listener) == SASL_SSL else None


def listener_sasl(settings: Settings, listener: str) -> ListenerSasl:
    """The SASL of a listener that has it, as the settings say."""
    mechanisms = settings.mechanisms_of(listener)
    is_bearer = OAUTHBEARER in mechanisms
    return ListenerSasl(
        mechanisms,
        settings.session_ms_of(listener),
        settings.klamm_sasl_plain_users_file if PLAIN in mechanisms else None,
        path_of_url(settings.sasl_oauthbearer_jwks_endpoint_url or "") if is_bearer else None,
        _bearer_rules(settings) if is_bearer else None,
        settings.allows_anonymous(listener),
    )


def sasl_errors(settings: Settings, listeners: Iterable[str]) -> list[str]:
    """Say what is wrong with SASL at these listeners, by their security names, and with its files."""
    found = [name for name in dict.fromkeys(listeners) if security_protocol_of(settings, name) == SASL_SSL]
    errors = [line for name in found for line in _errors_of_listener(settings, name)]
    return list(dict.fromkeys(errors))


def require_certificates_of_followers(settings: Settings) -> None:
    """Raise ConfigError if brokers could not fetch from this one: they have no passwords, and show a certificate only
    where one is demanded.
    """
    name = settings.inter_broker_listener_name
    tls = server_tls_of(settings, name)
    if sasl_of(settings, name) is not None and tls is not None and tls.client_auth != "required":
        raise ConfigError(
            [
                f'settings."listener.security.protocol.map": {name}:SASL_SSL: brokers fetch here, too, by certificate: '
                f"it must be SSL, with clients at {EXTERNAL_LISTENER}:SASL_SSL (external_listen); or set "
                f"listener.name.{name.lower()}.ssl.client.auth=required, if clients have certificates as well"
            ]
        )


def _errors_of_listener(settings: Settings, listener: str) -> Iterator[str]:
    if listener == security_name(settings, settings.control_plane_listener_name):
        yield (
            f'settings."listener.security.protocol.map": {listener}:SASL_SSL: nodes know each other by certificates '
            "only: it must be SSL"
        )
        return
    if listener == METRICS_LISTENER:
        yield (
            f'settings."listener.security.protocol.map": {listener}:SASL_SSL: the port for metrics has no SASL: it '
            "must be SSL or PLAINTEXT"
        )
        return
    if GSSAPI in settings.mechanisms_of(listener):
        own = f"listener.name.{listener.lower()}.{_MECHANISMS}"
        yield f'settings."{_MECHANISMS}": GSSAPI is for Kafka listeners: set {own} to {", ".join(OF_OWN_NODES)}'
        return
    missing = missing_for_sasl(settings, listener)
    yield from missing or unusable_files(listener_sasl(settings, listener))


def unusable_files(sasl: ListenerSasl) -> list[str]:
    """Say what is wrong with the files of users and keys."""
    try:
        ServerMechanisms(sasl, ScramUsers()).check()
    except ConfigError as error:
        return [f"settings: {line}" for line in error.errors]
    return []


def missing_for_sasl(settings: Settings, listener: str) -> list[str]:
    """Say what the settings of a listener with SASL do not name."""
    return list(_missing(settings, listener, settings.mechanisms_of(listener)))


def _missing(settings: Settings, listener: str, mechanisms: tuple[str, ...]) -> Iterator[str]:
    if not mechanisms:
        yield f'settings."{_MECHANISMS}": is missing: the listener {listener} has SASL'
    if PLAIN in mechanisms and settings.klamm_sasl_plain_users_file is None:
        yield f'settings."{PASSWORDS_SETTING}": is missing: PLAIN needs a file with users and passwords'
    if OAUTHBEARER in mechanisms:
        needed = {
            KEYS_SETTING: settings.sasl_oauthbearer_jwks_endpoint_url,
            _AUDIENCE: settings.sasl_oauthbearer_expected_audience,
            _ISSUER: settings.sasl_oauthbearer_expected_issuer,
        }
        yield from (f'settings."{key}": is missing: OAUTHBEARER needs it' for key, value in needed.items() if not value)


def _bearer_rules(settings: Settings) -> BearerRules:
    audiences = (settings.sasl_oauthbearer_expected_audience or "").split(",")
    return BearerRules(
        tuple(audience.strip() for audience in audiences if audience.strip()),
        settings.sasl_oauthbearer_expected_issuer or "",
        settings.sasl_oauthbearer_clock_skew_seconds,
        settings.sasl_oauthbearer_sub_claim_name,
    )
