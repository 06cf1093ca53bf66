"""The client reports under Kafka's names."""

from cluster.metrics.registry import Metrics
from cluster.zookeeper.kazoo_requests import GetData
from cluster.zookeeper.kazoo_session import Exchange
from cluster.zookeeper.port import SessionState
from cluster.zookeeper.session_metrics import SessionMetrics


def test_session_events_are_counted_and_the_state_is_reported() -> None:
    metrics = Metrics()
    reported = SessionMetrics(metrics, uses_sasl=False)
    for state in (SessionState.CONNECTED, SessionState.DISCONNECTED, SessionState.CONNECTED, SessionState.EXPIRED):
        reported.session_event(state)
    listener = ("kafka.server", "SessionExpireListener")
    counts = {
        name: metrics.meter(*listener, f"ZooKeeper{name}PerSec").count
        for name in ("SyncConnects", "Disconnects", "Expires")
    }
    assert counts == {"SyncConnects": 2, "Disconnects": 1, "Expires": 1}
    zeros = {family.name: family.samples[0].value for family in metrics.collect() if "zookeeper" in family.name}
    for name in ("authfailures", "readonlyconnects", "saslauthentications"):
        assert zeros[f"kafka_server_sessionexpirelistener_zookeeper{name}persec"] == 0
    assert metrics.text(*listener, "SessionState").value == "EXPIRED"


def test_with_sasl_every_connection_is_an_authentication() -> None:
    metrics = Metrics()
    reported = SessionMetrics(metrics, uses_sasl=True)
    for state in (SessionState.CONNECTED, SessionState.DISCONNECTED, SessionState.CONNECTED, SessionState.AUTH_FAILED):
        reported.session_event(state)
    listener = ("kafka.server", "SessionExpireListener")
    assert metrics.meter(*listener, "ZooKeeperSaslAuthenticationsPerSec").count == 2
    assert metrics.meter(*listener, "ZooKeeperAuthFailuresPerSec").count == 1


def test_the_latency_of_answered_requests_is_recorded_in_milliseconds() -> None:
    metrics = Metrics()
    answered, unanswered = GetData("/a"), GetData("/b")
    answered.sent_at, answered.answered_at = 10.0, 10.25
    unanswered.sent_at = 11.0
    SessionMetrics(metrics, uses_sasl=False).exchange(Exchange([answered, unanswered]))
    histogram = metrics.histogram("kafka.server", "ZooKeeperClientMetrics", "ZooKeeperRequestLatencyMs")
    assert histogram.count == 1
    assert histogram.quantiles()[0] == 250
