"""Addresses of the listeners in Kafka's keys: `listeners`, `advertised.listeners` and the map of protocols.

Source: Kafka KafkaConfig.effectiveListenerSecurityProtocolMap, CoreUtils.listenerListToEndPoints.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from cluster.config.files import cut, shown
from cluster.config.settings import Settings
from cluster.model.listeners import DEFAULT_CONTROL_LISTENER, EXTERNAL_LISTENER

FIELDS_OF_KEY: Final = {
    "listeners": ("listen", "control_listen", "external_listen"),
    "advertised.listeners": ("advertised", "control_advertised", "external_advertised"),
}
"""For each of Kafka's keys, the fields with the address for clients, for control requests, for external clients."""
_LISTENER: Final = re.compile("^([A-Z0-9][A-Z0-9_.-]*)://")
METRICS_LISTENER: Final = "METRICS"
"""What the port for metrics and health is called in settings of listeners."""


class _Address(NamedTuple):
    listener: str
    address: str


def fields_in_kafka_keys(settings: Mapping[str, Any]) -> dict[str, str]:
    """The fields that Kafka's keys give; the first address that is neither EXTERNAL nor for control is for clients."""
    control = str(settings.get("control.plane.listener.name", DEFAULT_CONTROL_LISTENER)).upper()
    found: dict[str, str] = {}
    for key, (for_clients, for_control, external) in FIELDS_OF_KEY.items():
        given = settings.get(key)
        if isinstance(given, str):
            fields = {control: for_control, EXTERNAL_LISTENER: external}
            for listener, address in _split(given):
                found.setdefault(fields.get(listener, for_clients), address)
    return found


def without_listener(address: str) -> str:
    """The address without `LISTENER://`."""
    return _LISTENER.sub("", address)


def misnamed_listeners(settings: Settings, *, has_external: bool) -> list[str]:
    """Errors of names and protocols: each listener has one address. `has_external`: whether one is named EXTERNAL."""
    names, errors = settings.listener_names, []
    for key, name in (("inter.broker.listener.name", names.client), ("control.plane.listener.name", names.control)):
        # Kafka's brokers may well call their own so; then only an external listener of the controller contradicts.
        if name == EXTERNAL_LISTENER and (has_external or settings.klamm_broker_protocol == "klamm"):
            errors.append(f'settings."{key}": {name!r}: is the name of the external listener; give another')
    for key, given in (("listeners", settings.listeners), ("advertised.listeners", settings.advertised_listeners)):
        if given is None:
            continue
        listeners = [listener or names.client for listener, _ in _split(given)]
        if set(listeners) - {names.client, names.control, EXTERNAL_LISTENER} or len(set(listeners)) < len(listeners):
            errors.append(
                f'settings."{key}": {shown(given)}: must have one address named {cut(names.client)}, as '
                f"inter.broker.listener.name says, at most one named {cut(names.control)}, as "
                f"control.plane.listener.name says, and at most one named {EXTERNAL_LISTENER}"
            )
    return errors


def named_listeners(settings: Settings, *, has_external: bool, has_metrics: bool) -> list[str]:
    """The names of all listeners that a process has, that for metrics included."""
    names = settings.listener_names
    found = [names.client, names.control]
    return [*found, *([EXTERNAL_LISTENER] if has_external else []), *([METRICS_LISTENER] if has_metrics else [])]


def _split(listeners: str) -> Iterator[_Address]:
    for part in listeners.split(","):
        named = _LISTENER.match(part.strip().upper())
        yield _Address("" if named is None else named[1], part.strip()[0 if named is None else named.end() :])
