"""TLS of Kafka listeners in tests."""

import asyncio
from functools import partial

from cluster.metrics.registry import Metrics
from cluster.tls.contexts import server_context
from cluster.tls.live import LiveContexts, LiveMaterial
from cluster.tls.refusals import RefusedHandshakes
from cluster.tls.settings import TlsSettings
from controller.adapters.kafka.handshakes import Handshakes


def shaking_hands(contexts: LiveContexts) -> Handshakes:
    """TLS of a listener whose metrics nobody reads."""
    return Handshakes("SSL", contexts, asyncio.Semaphore(8), Metrics(), RefusedHandshakes())


def listening(settings: TlsSettings) -> Handshakes:
    """The same, of what the settings name."""
    return shaking_hands(LiveContexts(LiveMaterial(settings), partial(server_context, settings)))
