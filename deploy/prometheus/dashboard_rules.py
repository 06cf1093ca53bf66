"""Writes the recording rules under which klamm's metrics have the names and labels of other people's dashboards.

    .venv/bin/python -m deploy.prometheus.dashboard_rules

`strimzi.rules.yaml` serves Strimzi's dashboards in both styles, `confluent.rules.yaml` those of jmx-monitoring-stacks.
No one set of names serves both, so each file makes copies that carry only the labels of its dashboards; klamm's own
metrics, alerts and dashboards need neither. A counter stays a counter: its copy grows as it does.

Most copies have the name of what they copy, so a sum over that name counts them too. They are therefore in a folder
that is loaded on request only, and have the label `klamm_copy`. A rule selects what has no such label: else it would
copy its own copy, or the other file's.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml
from msgspec import Struct

FOLDER: Final = Path(__file__).resolve().parent / "copies"
BROKERS, CONTROLLERS, ZOOKEEPERS = "klamm-broker", "klamm-controller", "zookeeper"
CLUSTER: Final = "klamm"
"""The value of the labels by which dashboards choose a cluster."""
_OWN_LABELS: Final = "job, node"
_LABEL: Final = "klamm_copy"

_TOPIC_METRICS: Final = "kafka_server_brokertopicmetrics_"
_REQUESTS: Final = "kafka_network_requestmetrics_"
_SESSION: Final = "kafka_server_sessionexpirelistener_"
_BY_TOPIC: Final = (
    "bytesin",
    "bytesout",
    "messagesin",
    "totalproducerequests",
    "totalfetchrequests",
    "failedproducerequests",
    "failedfetchrequests",
)
_OF_PARTITIONS: Final = (
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_underminisr",
    "kafka_cluster_partition_replicascount",
    "kafka_log_log_size",
    "kafka_log_log_logstartoffset",
    "kafka_log_log_logendoffset",
)
_OF_BROKERS: Final = (
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
)
_OF_CONTROLLERS: Final = (
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "kafka_controller_kafkacontroller_globaltopiccount",
    "kafka_controller_kafkacontroller_globalpartitioncount",
)
_REQUEST_TIMES: Final = (
    "requestqueuetimems",
    "localtimems",
    "remotetimems",
    "responsequeuetimems",
    "responsesendtimems",
)
_IDLE_NS: Final = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total"
_FETCH_SESSIONS: Final = "kafka_server_fetchsessioncache_"
_DISK_IO: Final = ("kafka_server_kafkaserver_linux_disk_read_bytes", "kafka_server_kafkaserver_linux_disk_write_bytes")


class Copy(Struct, frozen=True):
    """A series under another name: `expr` is a metric, or a function of one, with `SELECT` for its label matchers."""

    record: str
    expr: str
    job: str
    labels: Mapping[str, str] = {}


def same(name: str, job: str, record: str = "") -> Copy:
    return Copy(record or name, f"{name}SELECT", job)


def strimzi() -> Iterator[Copy]:
    """Yield the copies for `strimzi-kafka.json` (JMX exporter and metrics reporter) and `strimzi-zookeeper.json`."""
    for name in (*_OF_BROKERS, *_OF_PARTITIONS, *_DISK_IO, "process_open_fds"):
        yield same(name, BROKERS)
    for name in _OF_CONTROLLERS[:2]:
        yield same(name, CONTROLLERS)
    unclean = "kafka_controller_controllerstats_uncleanleaderelections"
    yield same(f"{unclean}persec_total", CONTROLLERS)
    yield same(f"{unclean}persec_total", CONTROLLERS, f"{unclean}_total")
    for name in _BY_TOPIC:
        for record in (f"{name}persec_total", f"{name}_total"):
            yield same(f"{_TOPIC_METRICS}{name}persec_total", BROKERS, _TOPIC_METRICS + record)
    yield same("kafka_server_socket_server_metrics_connection_count", BROKERS)
    network = "kafka_network_socketserver_networkprocessoravgidle"
    yield same(f"{network}percent", BROKERS)
    yield same(f"{network}percent", BROKERS, f"{network}_percent")
    yield same(_IDLE_NS, BROKERS)
    handler = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
    yield Copy(handler, f"rate({_IDLE_NS}SELECT[1m]) / 1e9", BROKERS)
    # Kubernetes has these from its kubelet; here they come from the processes themselves.
    yield same("process_resident_memory_bytes", BROKERS, "container_memory_usage_bytes")
    yield same("process_cpu_seconds_total", BROKERS, "container_cpu_usage_seconds_total")
    yield Copy(
        "kubelet_volume_stats_available_bytes", "min without (directory) (klamm_process_disk_freebytesSELECT)", BROKERS
    )
    yield from _strimzi_zookeeper()


def _strimzi_zookeeper() -> Iterator[Copy]:
    names = {
        "num_alive_connections": "zookeeper_numaliveconnections",
        "outstanding_requests": "zookeeper_outstandingrequests",
        "avg_latency": "zookeeper_avgrequestlatency",
        "znode_count": "zookeeper_inmemorydatatree_nodecount",
        "watch_count": "zookeeper_inmemorydatatree_watchcount",
        "process_open_fds": "process_open_fds",
        "process_resident_memory_bytes": "container_memory_usage_bytes",
        "process_cpu_seconds_total": "container_cpu_usage_seconds_total",
        "jvm_memory_bytes_used": "jvm_memory_used_bytes",
        "jvm_gc_collection_seconds_sum": "jvm_gc_collection_seconds_sum",
        "jvm_gc_collection_seconds_count": "jvm_gc_collection_seconds_count",
        "jvm_threads_current": "jvm_threads_current",
    }
    for name, record in names.items():
        yield same(name, ZOOKEEPERS, record)
    # A single server does not have it.
    yield Copy("zookeeper_quorumsize", "quorum_sizeSELECT or 0 * znode_countSELECT + 1", ZOOKEEPERS)


def confluent() -> Iterator[Copy]:
    """Yield copies for `kafka-cluster`, `kafka-topics` and `zookeeper-cluster` of jmxexporter-prometheus-grafana."""
    replica_fetchers = ("minfetchrate", "maxlag")
    for name in (
        *_OF_BROKERS,
        *_OF_PARTITIONS,
        *_DISK_IO,
        "process_cpu_seconds_total",
        "kafka_network_requestchannel_requestqueuesize",
        "kafka_network_requestchannel_responsequeuesize",
        "kafka_network_socketserver_networkprocessoravgidlepercent",
        "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms",
        f"{_FETCH_SESSIONS}numincrementalfetchsessions",
    ):
        yield same(name, BROKERS)
    for name in replica_fetchers:
        metric = f"kafka_server_replicafetchermanager_{name}"
        yield Copy(metric, f"max without (clientId) ({metric}SELECT)", BROKERS, {"clientid": "Replica"})
    yield from _confluent_counters()
    for name in _OF_CONTROLLERS:
        yield same(name, CONTROLLERS)
    # The dashboards offer as `instance` what has this metric, and controllers are apart from brokers here.
    state = "kafka_server_kafkaserver_brokerstate"
    controllers = f"{_OF_CONTROLLERS[0]}{_matchers(CONTROLLERS)}"
    yield Copy(state, f"{state}SELECT or 0 * {controllers} + 3", BROKERS)
    yield from _confluent_requests()
    yield same(
        "kafka_server_socket_server_metrics_connection_count",
        BROKERS,
        "kafka_server_socketservermetrics_connection_count",
    )
    handler = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_oneminuterate"
    yield Copy(handler, f"rate({_IDLE_NS}SELECT[1m]) / 1e9", BROKERS)
    yield from _confluent_zookeeper()


def _confluent_counters() -> Iterator[Copy]:
    """Yield copies of the counters, which have no suffix in these dashboards."""
    for name in (
        *(f"{_TOPIC_METRICS}{name}persec" for name in _BY_TOPIC),
        *(f"{_SESSION}zookeeper{event}persec" for event in ("syncconnects", "expires", "disconnects", "authfailures")),
        "kafka_server_replicamanager_isrshrinkspersec",
        "kafka_server_replicamanager_isrexpandspersec",
        f"{_FETCH_SESSIONS}incrementalfetchsessionevictionspersec",
        f"{_REQUESTS}requestspersec",
        f"{_REQUESTS}errorspersec",
    ):
        yield same(f"{name}_total", BROKERS, name)
    unclean = "kafka_controller_controllerstats_uncleanleaderelectionspersec"
    yield same(f"{unclean}_total", CONTROLLERS, unclean)


def _confluent_requests() -> Iterator[Copy]:
    """Kafka counts each fetch a second time, as Fetch; the panels of consumers ask for that."""
    for name in _REQUEST_TIMES:
        metric = f"{_REQUESTS}{name}"
        yield same(metric, BROKERS)
        select = _matchers(BROKERS, 'request="FetchConsumer"')
        yield Copy(metric, f"max without (request) ({metric}{select})", BROKERS, {"request": "Fetch"})
    yield same(f"{_REQUESTS}totaltimems", BROKERS)
    select = _matchers(BROKERS, 'request=~"Fetch.+"')
    fetches = f"sum without (request) ({_REQUESTS}requestspersec_total{select})"
    yield Copy(f"{_REQUESTS}requestspersec", fetches, BROKERS, {"request": "Fetch"})


def _confluent_zookeeper() -> Iterator[Copy]:
    names = {
        "znode_count": "zookeeper_nodecount",
        "num_alive_connections": "zookeeper_numaliveconnections",
        "outstanding_requests": "zookeeper_outstandingrequests",
        "watch_count": "zookeeper_watchcount",
        "min_latency": "zookeeper_minrequestlatency",
        "avg_latency": "zookeeper_avgrequestlatency",
        "max_latency": "zookeeper_maxrequestlatency",
        "process_cpu_seconds_total": "process_cpu_seconds_total",
        "jvm_memory_bytes_used": "jvm_memory_bytes_used",
        "jvm_memory_bytes_max": "jvm_memory_bytes_max",
        "jvm_gc_collection_seconds_sum": "jvm_gc_collection_seconds_sum",
    }
    for name, record in names.items():
        yield same(name, ZOOKEEPERS, record)


def strimzi_rule(copy: Copy) -> dict[str, object]:
    """Strimzi's dashboards choose by namespace, cluster and pod; a broker is the pod `klamm-<node>`."""
    is_zookeeper = copy.job == ZOOKEEPERS
    fixed = {
        "namespace": CLUSTER,
        "strimzi_io_cluster": CLUSTER,
        "strimzi_io_kind": "Kafka",
        "strimzi_io_name": f"{CLUSTER}-{'zookeeper' if is_zookeeper else 'kafka'}",
        "container": "zookeeper" if is_zookeeper else "kafka",
        _LABEL: "strimzi",
    }
    pod = "kubernetes_pod_name"
    value = f"{CLUSTER}-$1"
    if copy.record.startswith("container_"):
        pod = "pod"
    elif copy.record.startswith("kubelet_"):
        pod, value = "persistentvolumeclaim", f"data-{CLUSTER}-$1"
    named = f'label_replace({_selected(copy)}, "{pod}", "{value}", "node", "(.*)")'
    expr = f"max without ({_OWN_LABELS}, instance) ({named})"
    return {"record": copy.record, "expr": expr, "labels": {**fixed, **copy.labels}}


def confluent_rule(copy: Copy) -> dict[str, object]:
    """Confluent's dashboards choose by job, environment and instance; controllers are brokers to them."""
    job = "zookeeper" if copy.job == ZOOKEEPERS else "kafka-broker"
    expr = f"max without ({_OWN_LABELS}) ({_selected(copy)})"
    return {
        "record": copy.record,
        "expr": expr,
        "labels": {"job": job, "env": CLUSTER, _LABEL: "confluent", **copy.labels},
    }


def _selected(copy: Copy) -> str:
    return copy.expr.replace("SELECT", _matchers(copy.job))


def _matchers(job: str, *more: str) -> str:
    """Match what the processes of a job expose, and no copy of it."""
    return "{" + ", ".join((f'job="{job}"', f'{_LABEL}=""', *more)) + "}"


def rendered(name: str) -> str:
    """The content of `<name>.rules.yaml`."""
    rules = [strimzi_rule(c) for c in strimzi()] if name == "strimzi" else [confluent_rule(c) for c in confluent()]
    made = (
        f"# Made by deploy/prometheus/dashboard_rules.py: klamm's metrics for dashboards of {name.capitalize()}.\n"
        f'# Copies, which sums over the same names count too: leave them out with {_LABEL}="".'
    )
    document = {"groups": [{"name": f"{name}-dashboards", "rules": rules}]}
    return f"{made}\n{yaml.safe_dump(document, sort_keys=False, width=200)}"


if __name__ == "__main__":
    for name in ("strimzi", "confluent"):
        (FOLDER / f"{name}.rules.yaml").write_text(rendered(name))
