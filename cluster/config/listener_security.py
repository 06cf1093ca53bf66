"""Which listeners of a process have TLS, and whether their settings are such that it can be served.

Source: Kafka KafkaConfig.listenerSecurityProtocolMap; KIP-103.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from cluster.config.files import shown
from cluster.config.listener_addresses import METRICS_LISTENER
from cluster.config.settings import Settings
from cluster.model.errors import ConfigError
from cluster.model.listeners import EXTERNAL_LISTENER
from cluster.tls.contexts import lacks_of_server
from cluster.tls.material import load_material
from cluster.tls.settings import TlsSettings, contradictions

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
GRPC_LISTENERS: Final = ("GRPC", "GRPC_CONTROL", "GRPC_EXTERNAL")
"""What the gRPC listeners of a controller that governs Apache Kafka's brokers are called in settings of security."""
SASL_SSL: Final = "SASL_SSL"
_KNOWN: Final = (PLAINTEXT, SSL, SASL_SSL)
_MAP: Final = "listener.security.protocol.map"


def security_name(settings: Settings, listener: str) -> str:
    """The name in settings of security of a gRPC listener of this process, or of the port for metrics.

    Where brokers are of Apache Kafka, the name of a broker's listener is that of a Kafka listener, so the gRPC
    listeners, which are registered by the same names, have others there.
    """
    if settings.klamm_broker_protocol == "klamm":
        return listener
    names, (client, control, external) = settings.listener_names, GRPC_LISTENERS
    return {EXTERNAL_LISTENER: external, names.control: control, names.client: client}.get(listener, listener)


def security_protocol_of(settings: Settings, listener: str) -> str:
    """PLAINTEXT, SSL or SASL_SSL, as the map says for this listener, by its security name; PLAINTEXT if it says
    nothing.
    """
    return _protocols(settings.listener_security_protocol_map).get(listener, PLAINTEXT)


def has_tls(settings: Settings, listener: str) -> bool:
    """Whether the listener has TLS, with SASL or without."""
    return security_protocol_of(settings, listener) in (SSL, SASL_SSL)


def server_tls_of(settings: Settings, listener: str) -> TlsSettings | None:
    """The TLS of a listener, by its security name; None for one without. At the listener for control requests clients
    need a certificate.
    """
    if not has_tls(settings, listener):
        return None
    found = settings.tls_of(listener)
    if listener == _control(settings) and not settings.sets_client_auth_of(listener):
        found = replace(found, client_auth="required")
    return found


def peer_tls_of(settings: Settings) -> TlsSettings | None:
    """The TLS with which this process calls other nodes; None if it has neither key nor trust store.

    It shows the certificate of its control listener, else that of its client listener: a node has one identity.
    """
    names = settings.listener_names
    secured = [name for name in (names.control, names.client) if has_tls(settings, name)]
    found = settings.tls_of(secured[0] if secured else None)
    return found if found.has_keystore and found.has_truststore else None


def security_errors(settings: Settings, listeners: Iterable[str]) -> list[str]:
    """Say what is wrong with the protocols of these listeners of the process, by their security names, and with their
    `ssl.*` and its files.
    """
    used = list(dict.fromkeys(listeners))
    protocols = _protocols(settings.listener_security_protocol_map)
    errors = [
        f'settings."{_MAP}": {shown(f"{name}:{protocols[name]}")}: {_why_not(protocols[name])}'
        for name in used
        if protocols.get(name, PLAINTEXT) not in _KNOWN
    ]
    secured = [name for name in used if has_tls(settings, name)]
    unnamed = [name for name in used if secured and name not in protocols]
    errors += [
        f'settings."{_MAP}": {shown(settings.listener_security_protocol_map)}: says nothing of the listener {name}, '
        f"while {secured[0]} has {protocols[secured[0]]}: add {name}:SSL, or {name}:PLAINTEXT if it is to stay open"
        for name in unnamed
    ]
    for name in secured:
        errors += [f"settings: {line}" for line in _errors_of_listener(settings, name)]
    # The same file is named once, however many listeners have it.
    return list(dict.fromkeys(errors))


def _why_not(protocol: str) -> str:
    if protocol == "SASL_PLAINTEXT":
        return "whoever listens would get passwords and tokens: it must be SASL_SSL"
    return "the protocol must be PLAINTEXT, SSL or SASL_SSL"


def _errors_of_listener(settings: Settings, listener: str) -> list[str]:
    found = server_tls_of(settings, listener)
    assert found is not None, f"{listener} has TLS"
    own = f"listener.name.{listener.lower()}.ssl.client.auth"
    errors = [*contradictions(found), *lacks_of_server(found)]
    if found.client_auth == "requested":
        errors.append(f"{own}: requested: gRPC has none or required; a listener for each, if clients differ")
    if listener == _control(settings) and found.client_auth != "required":
        errors.append(f"{own}: {found.client_auth}: must be required where nodes control each other")
    if not found.checks_names and listener != METRICS_LISTENER:
        errors.append("ssl.endpoint.identification.algorithm: '': gRPC always checks the names in certificates")
    if errors:
        return errors
    try:
        load_material(found)
    except ConfigError as error:
        return error.errors
    return []


def _control(settings: Settings) -> str:
    return security_name(settings, settings.listener_names.control)


def _protocols(given: str | None) -> dict[str, str]:
    pairs = [part.partition(":") for part in (given or "").upper().split(",") if part.strip()]
    return {name.strip(): protocol.strip() for name, _, protocol in pairs}
