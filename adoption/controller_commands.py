"""The commands that start the controllers of a cluster: printed by `klamm adopt`, to be run as they are printed.

`HOST`, the files and the JAAS file are for the operator to fill in. Pure functions.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from adoption.survey import Survey, SurveyedBroker
from adoption.wanted import Wanted, WantedListener
from cluster.config.settings import Settings
from cluster.model import bounds

_FIRST_ID: Final = 901
_FIRST_BEYOND_GENERATED: Final = 2_000_000_901
"""Where brokers draw their ids from a sequence that begins below the usual ids of candidates."""
_GENERATED_ABOVE: Final = 1000
_GRPC_PORT, _METRICS_PORT, _KAFKA_PORT = 9701, 7701, 19092
LOOPBACK: Final = "127.0.0.1"


def controller_commands(survey: Survey, wanted: Wanted, zookeeper: str) -> Iterator[str]:
    """Yield the commands of two controllers, each for another machine. `zookeeper`: the connect string."""
    taken = {int(broker.id) for broker in survey.brokers} | {int(broker) for broker in survey.absent}
    first = first_id(survey)
    ids = [number for number in range(first, first + len(taken) + 2) if number not in taken][:2]
    # Whoever reaches the gRPC listener may do everything: brokers that ask for certificates must not be open by it.
    host = LOOPBACK if wanted.authenticates else "HOST"
    for position, number in enumerate(ids):
        options = [
            f"--id {number}",
            f"--zookeeper {shlex.quote(zookeeper)}",
            f"--listen {host}:{_GRPC_PORT + 10 * position}",
            f"--metrics-listen HOST:{_METRICS_PORT + position}",
            f"--data /var/lib/klamm/controller-{number}",
            *(f"--override {shlex.quote(f'{key}={value}')}" for key, value in _settings(survey, wanted, position)),
        ]
        yield " \\\n  ".join(("klamm controller", *options))


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
    yield from _listeners(wanted.listeners, _KAFKA_PORT + 10 * position)
    if wanted.inter_broker_listener != "PLAINTEXT":
        yield "inter.broker.listener.name", wanted.inter_broker_listener
    if wanted.control_plane_listener:
        yield "control.plane.listener.name", wanted.control_plane_listener
    if any(listener.security_protocol == "SSL" for listener in wanted.listeners):
        yield from _tls(wanted)
    if wanted.racks:
        yield "klamm.kafka.rack", wanted.racks[position % len(wanted.racks)]
    if wanted.registers_as_broker:
        yield "klamm.kafka.register.as.broker", "true"
    if survey.has_credentials or "zookeeper.set.acl" in wanted.settings:
        yield "java.security.auth.login.config", "JAAS.conf"
    defaults = Settings()
    for key, values in wanted.settings.items():
        default = str(getattr(defaults, key.replace(".", "_"))).lower()
        if values[0] != default:
            yield key, values[0]


def _listeners(listeners: Sequence[WantedListener], first_port: int) -> Iterator[tuple[str, str]]:
    """Yield the listeners that the brokers have, with the same security."""
    names = [listener.name for listener in listeners] or ["PLAINTEXT"]
    yield "klamm.kafka.listeners", ",".join(f"{name}://HOST:{first_port + i}" for i, name in enumerate(names))
    if any(listener.name != listener.security_protocol for listener in listeners):
        yield "listener.security.protocol.map", protocol_map(listeners)


def protocol_map(listeners: Sequence[WantedListener]) -> str:
    """Write the listeners as `listener.security.protocol.map` has them."""
    return ",".join(f"{listener.name}:{listener.security_protocol}" for listener in listeners)


def _tls(wanted: Wanted) -> Iterator[tuple[str, str]]:
    """The operator has the certificates."""
    yield "ssl.keystore.location", "KEY-AND-CERTIFICATE.pem"
    yield "ssl.truststore.location", "AUTHORITIES.pem"
    if not wanted.identifies_hosts:
        yield "ssl.endpoint.identification.algorithm", ""
    # Through a controller that asks for none, anybody could do what brokers ask a certificate for.
    demands = {listener.name: listener.client_auth for listener in wanted.listeners if _is_tls(listener)}
    if len(set(demands.values())) == 1:
        yield from (("ssl.client.auth", demand) for demand in set(demands.values()) - {"none"})
        return
    yield from ((client_auth_key(name), demand) for name, demand in demands.items() if demand != "none")


def _is_tls(listener: WantedListener) -> bool:
    return listener.security_protocol == "SSL"


def client_auth_key(listener: str) -> str:
    """The key that demands certificates of the clients of one listener."""
    return f"listener.name.{listener.lower()}.ssl.client.auth"
