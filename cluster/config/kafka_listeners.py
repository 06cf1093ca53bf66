"""Addresses of a controller for Kafka's brokers and clients: `klamm.kafka.listeners` and what they are told.

Source: Kafka KafkaConfig.effectiveAdvertisedListeners, CoreUtils.listenerListToEndPoints.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from cluster.config.files import shown
from cluster.model import bounds
from cluster.model.broker import WITH_SASL, WITH_TLS, Endpoint

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LISTENERS_KEY: Final = "klamm.kafka.listeners"
_ADVERTISED_KEY: Final = "klamm.kafka.advertised.listeners"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_ADDRESS: Final = re.compile(rf"({_NAME.pattern})://(?:\[([0-9A-Fa-f:]+)\]|([^\s/\[\]:,]*)):([0-9]{{1,5}})")


class KafkaListener(Struct, frozen=True):
    """One address to listen at; `advertised`: what brokers and clients are told, with port 0 for the bound one."""

    name: str
    host: str
    port: int
    security_protocol: str
    advertised: Endpoint

    @property
    def has_tls(self) -> bool:
        """Whether it is reached under TLS."""
        return self.security_protocol in WITH_TLS

    @property
    def has_sasl(self) -> bool:
        """Whether who connects has to authenticate by SASL."""
        return self.security_protocol in WITH_SASL

    def endpoint(self, bound_port: int) -> Endpoint:
        """The endpoint to advertise, with the bound port where none was given."""
        given = self.advertised
        return Endpoint(given.host, given.port or bound_port, given.listener, given.security_protocol)


def is_listener_name(name: str) -> bool:
    """Whether a listener may be called so, in any case of letters."""
    return _NAME.fullmatch(name) is not None


def parse_kafka_listeners(
    listeners: str | None, advertised: str | None, protocol_map: str | None, own_host: str
) -> tuple[KafkaListener, ...]:
    """The listeners that the settings name; empty if none. Raises ValueError with key, value and what to give.

    `own_host`: what is advertised for a wildcard address.
    """
    found = _addresses(_LISTENERS_KEY, listeners)
    advertised_addresses = _addresses(_ADVERTISED_KEY, advertised)
    unknown = sorted(set(advertised_addresses) - set(found))
    if unknown:
        raise ValueError(f"{_ADVERTISED_KEY}: {shown(advertised)}: {_LISTENERS_KEY} has no listener {unknown[0]}")
    protocols = protocols_in(protocol_map)
    parsed: list[KafkaListener] = []
    for name, (host, port) in found.items():
        protocol = protocols.get(name, name)
        if protocol not in PROTOCOLS:
            raise ValueError(
                f"{_LISTENERS_KEY}: {shown(listeners)}: the security protocol of {name} is {protocol}; give it one of "
                f"{', '.join(PROTOCOLS)} in listener.security.protocol.map"
            )
        advertised_host, advertised_port = advertised_addresses.get(name, (host, port))
        endpoint = Endpoint(advertised_host or own_host, advertised_port, name, protocol)
        parsed.append(KafkaListener(name, host, port, protocol, endpoint))
    return tuple(parsed)


def _addresses(key: str, given: str | None) -> dict[str, tuple[str, int]]:
    """Listener name -> host, empty for a wildcard, and port."""
    found: dict[str, tuple[str, int]] = {}
    for part in (given or "").split(","):
        if not part.strip():
            continue
        match = _ADDRESS.fullmatch(part.strip())
        if match is None or int(match[4]) > bounds.PORT.maximum:
            raise ValueError(f"{key}: {shown(given)}: must be LISTENER://host:port[,LISTENER://host:port…]")
        name, host = match[1].upper(), match[2] or match[3] or ""
        if name in found:
            raise ValueError(f"{key}: {shown(given)}: names the listener {name} twice")
        found[name] = ("" if host in {"0.0.0.0", "::"} else host, int(match[4]))  # noqa: S104 - compared with, or asked for by the operator.
    return found


def protocols_in(given: str | None) -> Mapping[str, str]:
    """The security protocols of listeners by `listener.security.protocol.map`."""
    pairs = [part.partition(":") for part in (given or "").upper().split(",") if part.strip()]
    return {name.strip(): protocol.strip() for name, _, protocol in pairs}
