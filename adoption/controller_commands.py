"""The commands that start the controllers of a cluster: printed by `klamm adopt`, to be run as they are printed.

`HOST`, the files and the JAAS file are for the operator to fill in. Pure functions.
"""

import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from adoption.survey import Survey, SurveyedBroker
from adoption.wanted import (
    ALLOW_UNLISTED,
    DEFAULT_MAPPING,
    INTER_BROKER_MECHANISM,
    TLS_PROTOCOLS,
    AuthorizerKind,
    Wanted,
    WantedListener,
)
from cluster.config.jaas_credentials import SERVICE_NAME
from cluster.config.settings import Settings
from cluster.model import bounds
from cluster.sasl.clients import TOKEN_SETTING
from cluster.sasl.mechanisms import GSSAPI, OAUTHBEARER
from cluster.security.acls import ACL_AUTHORIZER
from cluster.security.kerberos_names import SETTING as KERBEROS_RULES

_FIRST_ID: Final = 901
_CONTROLLERS: Final = 2
AUTHORITIES: Final = "AUTHORITIES.pem"
_FIRST_BEYOND_GENERATED: Final = 2_000_000_901
"""Where brokers draw their ids from a sequence that begins below the usual ids of candidates."""
_GENERATED_ABOVE: Final = 1000
_GRPC_PORT, _METRICS_PORT, _KAFKA_PORT = 9701, 7701, 19092
_GRPC_LISTENERS: Final = ("GRPC", "GRPC_CONTROL")
_METRICS: Final = "METRICS"
ENABLED_MECHANISMS: Final = "sasl.enabled.mechanisms"
SUPER_USERS: Final = "SUPER-USERS"
ALLOW_UNLISTED_VALUE: Final = "AS-AT-BROKERS"
"""Values that brokers do not tell: the operator has to fill them in, as the controller takes no such value."""
_OF_TOKENS: Final = {
    "sasl.oauthbearer.jwks.endpoint.url": "file:///KEYS",
    "sasl.oauthbearer.expected.audience": "AUDIENCE",
    "sasl.oauthbearer.expected.issuer": "ISSUER",
}
LOOPBACK: Final = "127.0.0.1"


def controller_commands(survey: Survey, wanted: Wanted, zookeeper: str) -> Iterator[str]:
    """Yield the commands of two controllers, each for another machine. `zookeeper`: the connect string."""
    taken = {int(broker.id) for broker in survey.brokers} | {int(broker) for broker in survey.absent}
    first = first_id(survey)
    ids = [number for number in range(first, first + len(taken) + _CONTROLLERS) if number not in taken][:_CONTROLLERS]
    # Whoever reaches the gRPC listener may do everything, unless it has certificates: brokers that ask for some, or
    # authorise, must not be open by it.
    is_open = not wanted.guards_grpc and (wanted.authenticates or wanted.authorizer is not AuthorizerKind.NONE)
    host = LOOPBACK if is_open else "HOST"
    for position, number in enumerate(ids):
        options = [
            f"--id {number}",
            f"--zookeeper {shlex.quote(zookeeper)}",
            f"--listen {host}:{_GRPC_PORT + 10 * position}",
            f"--metrics-listen HOST:{_METRICS_PORT + position}",
            f"--data /var/lib/klamm/controller-{number}",
            *(f"--override {_quoted(f'{key}={value}')}" for key, value in _settings(survey, wanted, position)),
        ]
        yield " \\\n  ".join(("klamm controller", *options))


def scrape_job(wanted: Wanted) -> str:
    """Write the job for Prometheus that reads the metrics of these controllers."""
    targets = ", ".join(f"HOST:{_METRICS_PORT + position}" for position in range(_CONTROLLERS))
    lines = ["- job_name: klamm-controller"]
    if wanted.secures_metrics:
        lines += ["  scheme: https", "  tls_config:", f"    ca_file: {AUTHORITIES}"]
    lines += ["  static_configs:", f"    - targets: [{targets}]  # --metrics-listen of the controllers"]
    return "\n".join(lines)


def _quoted(setting: str) -> str:
    """Quote a setting for a shell. What is filled in for users has a ';' between them."""
    # Nothing but the placeholder: what brokers say of themselves may end like it, and have quotes of its own.
    return f"'{setting}'" if setting == f"super.users={SUPER_USERS}" else shlex.quote(setting)


def first_id(survey: Survey) -> int:
    """The least id for a candidate that no broker will draw."""
    reserved = [generated_above(broker) for broker in survey.brokers]
    is_out_of_reach = all(highest is None or highest > _FIRST_ID for highest in reserved)
    return _FIRST_ID if is_out_of_reach else _FIRST_BEYOND_GENERATED


def generated_above(broker: SurveyedBroker) -> int | None:
    """Find where the ids begin that ZooKeeper gives to brokers without one; None if it gives none."""
    if broker.config("broker.id.generation.enable") == "false":
        return None
    reserved = bounds.parse_number(bounds.BROKER_ID, broker.config("reserved.broker.max.id"))
    return _GENERATED_ABOVE if reserved is None else reserved


def _settings(survey: Survey, wanted: Wanted, position: int) -> Iterator[tuple[str, str]]:
    yield "klamm.broker.protocol", "kafka"
    if wanted.protocol is not None:
        yield "inter.broker.protocol.version", str(wanted.protocol)
    yield from _listeners(wanted, _KAFKA_PORT + 10 * position)
    if wanted.inter_broker_listener != "PLAINTEXT":
        yield "inter.broker.listener.name", wanted.inter_broker_listener
    if wanted.control_plane_listener:
        yield "control.plane.listener.name", wanted.control_plane_listener
    if wanted.has_tls or wanted.guards_grpc:
        yield from _tls(wanted)
    yield from _sasl(wanted)
    yield from rights_settings(wanted)
    if wanted.racks:
        yield "klamm.kafka.rack", wanted.racks[position % len(wanted.racks)]
    if wanted.registers_as_broker:
        yield "klamm.kafka.register.as.broker", "true"
    if wanted.zookeeper_tls:
        yield "zookeeper.ssl.client.enable", "true"
        yield "zookeeper.ssl.keystore.location", "KEY-AND-CERTIFICATE.pem"
        yield "zookeeper.ssl.truststore.location", AUTHORITIES
    by_password = not wanted.zookeeper_tls and (survey.has_credentials or "zookeeper.set.acl" in wanted.settings)
    if by_password or any(listener.mechanisms for listener in wanted.served):
        yield "java.security.auth.login.config", "JAAS.conf"
    defaults = Settings()
    for key, values in wanted.settings.items():
        default = str(getattr(defaults, key.replace(".", "_"))).lower()
        if values[0] != default:
            yield key, values[0]


def _sasl(wanted: Wanted) -> Iterator[tuple[str, str]]:
    """Users and passwords are in the sections of the JAAS file, as the brokers have them: not in a command."""
    mechanisms = {one.name: ",".join(one.mechanisms) for one in wanted.served if one.mechanisms}
    if not mechanisms:
        return
    yield from _of_each(ENABLED_MECHANISMS, mechanisms, "")
    given = dict(wanted.own_settings)
    if not any(one.mechanisms for one in wanted.served if one.name in wanted.of_brokers):
        # Kafka's default, GSSAPI, which brokers without SASL among themselves do not use.
        given.pop(INTER_BROKER_MECHANISM, None)
    if any(OAUTHBEARER in found for found in mechanisms.values()):
        given = _OF_TOKENS | given
    else:
        given = {key: value for key, value in given.items() if key == INTER_BROKER_MECHANISM}
    yield from given.items()
    if given.get(INTER_BROKER_MECHANISM) == OAUTHBEARER:
        yield TOKEN_SETTING, "file:///TOKEN"
    by_kerberos = [one for one in wanted.served if GSSAPI in one.mechanisms]
    yield from _of_each(SERVICE_NAME, {one.name: one.kerberos_service for one in by_kerberos}, "")
    yield from _of_each(KERBEROS_RULES, {one.name: one.kerberos_mapping for one in by_kerberos}, DEFAULT_MAPPING)


def rights_settings(wanted: Wanted) -> Iterator[tuple[str, str]]:
    """Yield the settings with which a controller lets nobody do what the authorizer of the brokers forbids."""
    if wanted.authorizer is AuthorizerKind.ACL:
        yield "authorizer.class.name", ACL_AUTHORIZER
        yield "super.users", SUPER_USERS
        if wanted.allows_unlisted:
            yield ALLOW_UNLISTED, ALLOW_UNLISTED_VALUE
    elif wanted.authorizer is AuthorizerKind.OTHER:
        yield "klamm.kafka.controller.only", "true"
        yield "super.users", SUPER_USERS


def _listeners(wanted: Wanted, first_port: int) -> Iterator[tuple[str, str]]:
    """Yield the listeners that the brokers have, with the same security."""
    names = [listener.name for listener in wanted.served] or ["PLAINTEXT"]
    yield "klamm.kafka.listeners", ",".join(f"{name}://HOST:{first_port + i}" for i, name in enumerate(names))
    if needs_protocol_map(wanted):
        yield "listener.security.protocol.map", protocol_map(wanted)


def needs_protocol_map(wanted: Wanted) -> bool:
    """Whether the names of listeners do not say it all."""
    names_say_all = all(one.name == one.security_protocol for one in wanted.served)
    return wanted.guards_grpc or wanted.secures_metrics or not names_say_all


def protocol_map(wanted: Wanted) -> str:
    """Write the listeners as `listener.security.protocol.map` has them."""
    own: list[str] = []
    if wanted.guards_grpc or wanted.secures_metrics:
        # Where one of its own listeners has TLS, a controller wants to be told of each.
        of_grpc = "SSL" if wanted.guards_grpc else "PLAINTEXT"
        of_metrics = "SSL" if wanted.secures_metrics else "PLAINTEXT"
        own = [*(f"{name}:{of_grpc}" for name in _GRPC_LISTENERS), f"{_METRICS}:{of_metrics}"]
    return ",".join([*(f"{one.name}:{one.security_protocol}" for one in wanted.served), *own])


def _tls(wanted: Wanted) -> Iterator[tuple[str, str]]:
    """The operator has the certificates."""
    yield "ssl.keystore.location", "KEY-AND-CERTIFICATE.pem"
    yield "ssl.truststore.location", AUTHORITIES
    if not wanted.identifies_hosts:
        yield "ssl.endpoint.identification.algorithm", ""
    secured = [listener for listener in wanted.served if _is_tls(listener)]
    # Who certifies clients at one listener must not certify brokers at another.
    for listener in secured:
        if listener.has_own_authorities:
            name = f"AUTHORITIES-OF-{listener.name}.pem"
            yield listener_key(listener.name, "ssl.truststore.location"), name
    # Through a controller that asks for none, anybody could do what brokers ask a certificate for.
    demands = {listener.name: listener.client_auth for listener in secured if not listener.mechanisms}
    yield from _of_each("ssl.client.auth", demands, "none")
    # Of users with SASL only the setting of a listener itself demands certificates, as with Kafka.
    of_users = [one for one in secured if one.mechanisms and one.client_auth != "none"]
    yield from ((client_auth_key(one.name), one.client_auth) for one in of_users)
    if wanted.guards_grpc and set(demands.values()) != {"required"}:
        yield client_auth_key("GRPC"), "required"
    if wanted.secures_metrics and len(set(demands.values()) | {"none"}) == 2:
        # What is demanded of all would be demanded of Prometheus and of health checks.
        yield client_auth_key(_METRICS), "none"
    if wanted.authorizer is not AuthorizerKind.NONE:
        mappings = {listener.name: listener.principal_mapping for listener in secured}
        yield from _of_each("ssl.principal.mapping.rules", mappings, DEFAULT_MAPPING)


def _of_each(key: str, values: Mapping[str, str], default: str) -> Iterator[tuple[str, str]]:
    """Yield a setting for all listeners together, or for each, where it is not the default."""
    if len(set(values.values())) == 1:
        yield from ((key, value) for value in set(values.values()) - {default})
        return
    yield from ((listener_key(name, key), value) for name, value in values.items() if value != default)


def _is_tls(listener: WantedListener) -> bool:
    return listener.security_protocol in TLS_PROTOCOLS


def client_auth_key(listener: str) -> str:
    """The key that demands certificates of the clients of one listener."""
    return listener_key(listener, "ssl.client.auth")


def listener_key(listener: str, key: str) -> str:
    """The key of one listener alone."""
    return f"listener.name.{listener.lower()}.{key}"
