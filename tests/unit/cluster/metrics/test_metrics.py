"""Metrics in memory and their exposition."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cluster.metrics.registry import Metrics


def exposition(metrics: Metrics) -> list[str]:
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode().splitlines()


def test_a_gauge_is_exposed_under_its_kafka_name() -> None:
    metrics = Metrics()
    gauge = metrics.gauge("kafka.controller", "KafkaController", "ActiveControllerCount")
    gauge.set(3)
    gauge.inc()
    gauge.dec(2)
    assert gauge.value == 2
    assert "kafka_controller_kafkacontroller_activecontrollercount 2.0" in exposition(metrics)


def test_readings_are_taken_at_each_scrape() -> None:
    metrics, sizes = Metrics(), {"t": 1}
    metrics.readings("kafka.log", "Log", "Size", lambda: [({"topic": topic}, size) for topic, size in sizes.items()])
    sizes["t"], sizes["u"] = 2, 3
    lines = exposition(metrics)
    assert "# TYPE kafka_log_log_size gauge" in lines
    assert lines[-2:] == ['kafka_log_log_size{topic="t"} 2.0', 'kafka_log_log_size{topic="u"} 3.0']


def test_tags_become_labels_and_a_meter_is_a_total() -> None:
    metrics = Metrics()
    metrics.meter("kafka.server", "BrokerTopicMetrics", "BytesInPerSec").mark(5)
    metrics.meter("kafka.server", "BrokerTopicMetrics", "BytesInPerSec", topic="t").mark(2)
    metrics.gauge("kafka.controller", "ControllerChannelManager", "QueueSize", **{"broker-id": 1}).set(7)
    lines = exposition(metrics)
    assert "# TYPE kafka_server_brokertopicmetrics_bytesinpersec_total counter" in lines
    assert "kafka_server_brokertopicmetrics_bytesinpersec_total 5.0" in lines
    assert 'kafka_server_brokertopicmetrics_bytesinpersec_total{topic="t"} 2.0' in lines
    assert 'kafka_controller_controllerchannelmanager_queuesize{broker_id="1"} 7.0' in lines


def test_a_timer_has_a_count_a_sum_and_quantiles_of_its_newest_values() -> None:
    metrics = Metrics()
    timer = metrics.timer("kafka.controller", "ControllerStats", "LeaderElectionRateAndTimeMs")
    for value in [1_000_000] * 5 + list(range(1024)):
        timer.update_ms(value)
    assert timer.quantiles() == [512, 768, 972, 1003, 1013, 1022]
    lines = exposition(metrics)
    name = "kafka_controller_controllerstats_leaderelectionrateandtimems"
    assert f'{name}{{quantile="0.5"}} 512.0' in lines
    assert f"{name}_count 1029.0" in lines
    assert f"{name}_sum {5_000_000 + 1023 * 512}.0".replace("5523776.0", "5.523776e+06") in lines


def test_a_histogram_that_is_reset_forgets_everything() -> None:
    histogram = Metrics().histogram("d", "t", "n")
    histogram.update(4)
    histogram.reset()
    assert (histogram.count, histogram.sum, set(histogram.quantiles())) == (0, 0, {0.0})
    histogram.update(2)
    assert set(histogram.quantiles()) == {2}


def test_a_textual_state_is_a_label() -> None:
    metrics = Metrics()
    metrics.text("kafka.server", "SessionExpireListener", "SessionState").set("CONNECTED")
    assert 'kafka_server_sessionexpirelistener_sessionstate{value="CONNECTED"} 1.0' in exposition(metrics)


def test_asking_twice_gives_the_same_metric_and_removing_ends_it() -> None:
    metrics = Metrics()
    gauge = metrics.gauge("d", "t", "n", topic="a", partition=1)
    assert metrics.gauge("d", "t", "n", partition=1, topic="a") is gauge
    with pytest.raises(AssertionError):
        metrics.meter("d", "t", "n", partition=1, topic="a")
    metrics.remove("d", "t", "n", topic="a", partition=1)
    metrics.remove("d", "t", "n", topic="a", partition=1)
    assert exposition(metrics) == []
    assert metrics.gauge("d", "t", "n", topic="a", partition=1) is not gauge
