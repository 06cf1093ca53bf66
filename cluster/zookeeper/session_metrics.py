"""The metrics of the ZooKeeper client, by Kafka's names (kafka.server)."""

from typing import Any, Final, Protocol

from cluster.zookeeper.kazoo_session import Exchange
from cluster.zookeeper.port import SessionState

_EVENT_METERS: Final = {
    SessionState.CONNECTED: "ZooKeeperSyncConnectsPerSec",
    SessionState.DISCONNECTED: "ZooKeeperDisconnectsPerSec",
    SessionState.EXPIRED: "ZooKeeperExpiresPerSec",
    SessionState.AUTH_FAILED: "ZooKeeperAuthFailuresPerSec",
}
_NEVER_MARKED: Final = "ZooKeeperReadOnlyConnectsPerSec"
"""For dashboards made for Kafka: this client never asks for a read-only connection."""


class ClientMetrics(Protocol):
    """Holds what the client reports to: a registry of metrics by Kafka's names."""

    def histogram(self, domain: str, type_: str, name: str) -> Any: ...
    def meter(self, domain: str, type_: str, name: str) -> Any: ...
    def text(self, domain: str, type_: str, name: str) -> Any: ...


class SessionMetrics:
    """The metrics of the client library, by Kafka's names (kafka.server) where Kafka has them."""

    def __init__(self, metrics: ClientMetrics, *, uses_sasl: bool) -> None:
        listener = ("kafka.server", "SessionExpireListener")
        self._latency = metrics.histogram("kafka.server", "ZooKeeperClientMetrics", "ZooKeeperRequestLatencyMs")
        # Kafka counts neither; benchmarks do, because batching is what makes the difference.
        self._requests = metrics.meter("klamm.zookeeper", "Client", "Requests")
        self._round_trips = metrics.meter("klamm.zookeeper", "Client", "RoundTrips")
        self._meters = {state: metrics.meter(*listener, name) for state, name in _EVENT_METERS.items()}
        metrics.meter(*listener, _NEVER_MARKED)
        self._sasl_authentications = metrics.meter(*listener, "ZooKeeperSaslAuthenticationsPerSec")
        self._uses_sasl = uses_sasl
        self._state = metrics.text(*listener, "SessionState")

    def sent(self, requests: int, round_trips: int) -> None:
        """Count what was sent. `round_trips`: how often the network's latency was paid, once per `max_in_flight`
        requests.
        """
        self._requests.mark(requests)
        self._round_trips.mark(round_trips)

    def exchange(self, exchange: Exchange) -> None:
        for request in exchange.requests:
            if request.sent_at is not None and request.answered_at is not None:
                self._latency.update((request.answered_at - request.sent_at) * 1000)

    def session_event(self, state: SessionState) -> None:
        self._meters[state].mark()
        if self._uses_sasl and state is SessionState.CONNECTED:
            # Connections are reported when their user is proven.
            self._sasl_authentications.mark()
        self._state.set(state.name)
