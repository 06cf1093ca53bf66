"""TLS with which a controller governs brokers of Apache Kafka: at its Kafka listeners, and as a client of brokers."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from cluster.config.kafka_listeners import KafkaListener
from cluster.config.kafka_settings import KafkaKeys
from cluster.tls.contexts import client_context, server_context
from cluster.tls.live import LiveContexts, LiveMaterial
from cluster.tls.refusals import RefusedHandshakes
from cluster.tls.settings import TlsSettings

OF_BROKERS: Final = "brokers"
"""What the material with which brokers are called is for, in log lines and metrics."""


class KafkaTls(Struct, frozen=True):
    """`to_brokers`: with the certificate of this controller, if it has one. `passing_on`: without it, for what clients
    ask that have shown none themselves, and must not gain by it. `listening`: for each listener with TLS. `refused`:
    what its clients are refused for.
    """

    to_brokers: LiveContexts
    passing_on: LiveContexts
    listening: Mapping[str, LiveContexts]
    refused: RefusedHandshakes = field(default_factory=RefusedHandshakes)


def kafka_tls(
    settings: KafkaKeys,
    listeners: tuple[KafkaListener, ...],
    load: Callable[[str, TlsSettings], LiveMaterial] = lambda use, found: LiveMaterial(found, use),
) -> KafkaTls:
    """Make the contexts, which follow their files. Raises ConfigError that names the settings.

    `load`: reads the files of settings, or returns them if they were read before; it is told what they are for.
    """
    own = settings.tls_of()
    secured = {one.name: _tls_of_listener(settings, one) for one in listeners if one.has_tls}
    material = load(OF_BROKERS, own)
    return KafkaTls(
        LiveContexts(material, partial(client_context, own)),
        LiveContexts(material, lambda found: client_context(own, replace(found, own=None))),
        {name: _listening(found, partial(load, name.lower())) for name, found in secured.items()},
    )


def _tls_of_listener(settings: KafkaKeys, listener: KafkaListener) -> TlsSettings:
    """The TLS of a listener. Users with SASL show certificates only where the setting of the listener itself demands
    them, as in Kafka.
    """
    found = settings.tls_of(listener.name)
    if listener.has_sasl and not settings.sets_own_client_auth(listener.name):
        return replace(found, client_auth="none")
    return found


def _listening(found: TlsSettings, load: Callable[[TlsSettings], LiveMaterial]) -> LiveContexts:
    return LiveContexts(load(found), partial(server_context, found))
