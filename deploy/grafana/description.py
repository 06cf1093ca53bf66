"""What klamm's dashboards show: panels and their queries. `make_dashboards` makes Grafana's JSON of it.

Queries use `$node`, and on the dashboard of partitions `$topic`, which are regular expressions.
"""

from typing import Final

from msgspec import Struct

STAT, GRAPH, TABLE = "stat", "graph", "table"
_B, _C, _A = 'job="klamm-broker"', 'job="klamm-controller"', 'job="klamm-audit"'
_NODE: Final = 'node=~"$node"'
_BROKER, _CONTROLLER = f"{_B}, {_NODE}", f"{_C}, {_NODE}"
_P: Final = "kafka_cluster_partition_"
_ANY: Final = 'job=~"klamm-.*", node=~"$node"'


class Panel(Struct, frozen=True):
    """One panel. `queries`: PromQL and the legend of its series. `unit` is Grafana's. Red from `bad_from` on, or below
    `bad_below`.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = GRAPH
    help: str = ""
    bad_from: float | None = None
    bad_below: float | None = None


class Dashboard(Struct, frozen=True):
    """`rows`: titles and panels. `variables`: by name, the metric and the label whose values can be chosen."""

    uid: str
    title: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    variables: tuple[tuple[str, str, str], ...] = ()

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for _, panels in self.rows for panel in panels)


def columns(panels: tuple[Panel, ...], kind: str) -> int:
    """Panels beside one another: four where that fills the row."""
    beside = sum((panel.kind == STAT) == (kind == STAT) for panel in panels)
    return 6 if kind == STAT else 4 if beside % 4 == 0 else 3


def stat(title: str, query: str, help_: str = "", *, unit: str = "short", bad_from: float | None = 1) -> Panel:
    return Panel(title, ((query, ""),), unit, STAT, help_, bad_from)


def graph(title: str, *queries: tuple[str, str], unit: str = "short", help_: str = "") -> Panel:
    return Panel(title, queries, unit, GRAPH, help_)


def _rate(metric: str, labels: str) -> str:
    return f"rate({metric}{{{labels}}}[$__rate_interval])"


_TOPIC: Final = "kafka_server_brokertopicmetrics_"
_KC: Final = "kafka_controller_kafkacontroller_"
_RM: Final = "kafka_server_replicamanager_"

OVERVIEW: Final = Dashboard(
    "klamm-overview",
    "klamm overview",
    (
        (
            "Is something wrong?",
            (
                Panel("Active controllers", (("klamm:active_controllers:sum", ""),), "short", STAT, "Must be 1.", 2, 1),
                stat("Offline partitions", "klamm:offline_partitions:max", "Without a leader."),
                stat("Under min ISR", "klamm:under_min_isr_partitions:sum", "Producers with acks=all are refused."),
                stat("Under-replicated", "klamm:under_replicated_partitions:sum"),
                stat("Offline log directories", f"sum(kafka_log_logmanager_offlinelogdirectorycount{{{_B}}})"),
                stat("Processes down", 'sum(1 - up{job=~"klamm-controller|klamm-broker"})'),
                Panel(
                    "Alerts firing",
                    (('count by (alertname, severity) (ALERTS{alertstate="firing"})', "{{alertname}} ({{severity}})"),),
                    kind=TABLE,
                    help="docs/alerts.md says what to do.",
                ),
            ),
        ),
        (
            "Traffic",
            (
                graph("Bytes in", ("klamm:bytes_in:rate1m", "{{node}}"), unit="Bps"),
                graph("Bytes out", ("klamm:bytes_out:rate1m", "{{node}}"), unit="Bps"),
                graph("Records in", ("klamm:messages_in:rate1m", "{{node}}"), unit="ops"),
            ),
        ),
        (
            "Cluster",
            (
                graph(
                    "Topics, partitions, brokers",
                    (f"max({_KC}globaltopiccount{{{_C}}})", "topics"),
                    (f"max({_KC}globalpartitioncount{{{_C}}})", "partitions"),
                    (f"max({_KC}activebrokercount{{{_C}}})", "brokers"),
                ),
                graph("Leaders by broker", (f"{_RM}leadercount{{{_B}}}", "{{node}}")),
                graph(
                    "Disk free",
                    ("klamm_process_disk_freebytes / (klamm_process_disk_totalbytes > 0)", "{{node}}"),
                    unit="percentunit",
                ),
            ),
        ),
    ),
)

CONTROLLER: Final = Dashboard(
    "klamm-controller",
    "klamm controller",
    (
        (
            "Events",
            (
                graph("Active controller", (f"{_KC}activecontrollercount{{{_CONTROLLER}}}", "{{node}}")),
                graph(
                    "Event queue",
                    (f"kafka_controller_controllereventmanager_eventqueuesize{{{_CONTROLLER}}}", "{{node}}"),
                ),
                graph(
                    "Age of the oldest event",
                    (f"klamm_controller_controllereventmanager_oldesteventagems{{{_CONTROLLER}}}", "{{node}}"),
                    unit="ms",
                ),
                graph(
                    "Time in the queue, 99th percentile",
                    (
                        f'kafka_controller_controllereventmanager_eventqueuetimems{{{_CONTROLLER}, quantile="0.99"}}',
                        "{{node}}",
                    ),
                    unit="ms",
                ),
            ),
        ),
        (
            "Failover and elections",
            (
                Panel(
                    "Phases of the last failover",
                    tuple(
                        (f"klamm_controller_failover_{phase}ms{{{_CONTROLLER}}}", f"{phase} {{{{node}}}}")
                        for phase in ("load", "replicamachine", "partitionmachine", "sent", "lastacknowledgement")
                    ),
                    "ms",
                    TABLE,
                    "The first three are durations, the others times since the election.",
                ),
                graph(
                    "Broker events with elections",
                    (
                        _rate("kafka_controller_controllerstats_leaderelectionrateandtimems_count", _CONTROLLER),
                        "{{node}}",
                    ),
                    unit="ops",
                ),
                stat(
                    "Unclean elections, last hour",
                    f"round(sum(increase(kafka_controller_controllerstats_uncleanleaderelectionspersec_total{{{_C}}}[1h])))",
                    "Acknowledged records may be lost.",
                ),
            ),
        ),
        (
            "Work in progress",
            (
                graph(
                    "Topic deletions and reassignments",
                    (f"max(klamm_controller_topicdeletion_inprogresscount{{{_C}}})", "deletions"),
                    (f"max(klamm_controller_partitionreassignment_inprogresscount{{{_C}}})", "reassignments"),
                ),
                graph(
                    "Age of the oldest of them",
                    (f"max(klamm_controller_topicdeletion_oldestagems{{{_C}}})", "deletion"),
                    (f"max(klamm_controller_partitionreassignment_oldestagems{{{_C}}})", "reassignment"),
                    unit="ms",
                ),
                graph(
                    "Requests queued for brokers",
                    (
                        f"kafka_controller_controllerchannelmanager_queuesize{{{_CONTROLLER}}}",
                        "{{node}} to {{broker_id}}",
                    ),
                ),
                graph(
                    "Leaders that are not preferred",
                    (f"max({_KC}preferredreplicaimbalancecount{{{_C}}})", "partitions"),
                ),
            ),
        ),
    ),
    (("node", f"{_KC}activecontrollercount", "node"),),
)

AGENTS: Final = Dashboard(
    "klamm-brokers",
    "klamm brokers",
    (
        (
            "Requests",
            (
                graph(
                    "Requests",
                    (
                        f"sum by (request) ({_rate('kafka_network_requestmetrics_requestspersec_total', _BROKER)})",
                        "{{request}}",
                    ),
                    unit="reqps",
                ),
                graph(
                    "Total time, 99th percentile",
                    (
                        f'max by (request) (kafka_network_requestmetrics_totaltimems{{{_BROKER}, quantile="0.99"}})',
                        "{{request}}",
                    ),
                    unit="ms",
                    help_="Fetches wait for records, so theirs is long when nothing is produced.",
                ),
                graph(
                    "Errors",
                    (
                        "sum by (request, error) (rate(kafka_network_requestmetrics_errorspersec_total"
                        f'{{{_BROKER}, error!="NONE"}}[$__rate_interval]))',
                        "{{request}} {{error}}",
                    ),
                    unit="reqps",
                ),
                graph(
                    "Requests in flight",
                    (f"sum by (kind) (klamm_network_admission_openrequests{{{_BROKER}}})", "{{kind}}"),
                ),
            ),
        ),
        (
            "Replication",
            (
                graph("Largest lag", (f"kafka_server_replicafetchermanager_maxlag{{{_BROKER}}}", "{{node}}")),
                graph(
                    "Replication in",
                    (_rate(f"{_TOPIC}replicationbytesinpersec_total", _BROKER), "{{node}}"),
                    unit="Bps",
                ),
                graph(
                    "ISR shrinks and expands",
                    (_rate(f"{_RM}isrshrinkspersec_total", _BROKER), "shrinks {{node}}"),
                    (_rate(f"{_RM}isrexpandspersec_total", _BROKER), "expands {{node}}"),
                    unit="ops",
                ),
                graph(
                    "Partitions not fetched after an error",
                    (f"kafka_server_replicafetchermanager_failedpartitionscount{{{_BROKER}}}", "{{node}}"),
                ),
            ),
        ),
        (
            "Process",
            (
                graph("CPU", (_rate("process_cpu_seconds_total", _ANY), "{{node}}"), unit="percentunit"),
                graph("Memory", (f"process_resident_memory_bytes{{{_ANY}}}", "{{node}}"), unit="bytes"),
                graph(
                    "Event loop idle",
                    (f"kafka_network_socketserver_networkprocessoravgidlepercent{{{_ANY}}}", "{{node}}"),
                    unit="percentunit",
                ),
                graph(
                    "Event-loop lag, 99th percentile",
                    (f'klamm_process_eventloop_lagms{{{_ANY}, quantile="0.99"}}', "{{node}}"),
                    unit="ms",
                ),
                graph("Open files", (f"process_open_fds{{{_ANY}}}", "{{node}}")),
                graph(
                    "Disk writes",
                    (_rate("kafka_server_kafkaserver_linux_disk_write_bytes", _ANY), "{{node}}"),
                    unit="Bps",
                ),
                graph(
                    "Log flush time, 99th percentile",
                    (f'kafka_log_logflushstats_logflushrateandtimems{{{_BROKER}, quantile="0.99"}}', "{{node}}"),
                    unit="ms",
                ),
                graph(
                    "State-change log",
                    (_rate("klamm_statelog_statechangelog_recordspersec_total", _ANY), "{{node}}"),
                    unit="ops",
                ),
            ),
        ),
    ),
    (("node", f"{_RM}leadercount", "node"),),
)

_TP: Final = f'{_B}, topic=~"$topic"'


def _top(metric: str) -> str:
    """The ten topics with the highest rate."""
    return f'topk(10, sum by (topic) (rate({_TOPIC}{metric}{{{_TP}, topic!=""}}[$__rate_interval])))'


PARTITIONS: Final = Dashboard(
    "klamm-partitions",
    "klamm partitions",
    (
        (
            "Topics",
            (
                graph(
                    "Records in",
                    (_top("messagesinpersec_total"), "{{topic}}"),
                    unit="ops",
                ),
                graph(
                    "Bytes out",
                    (_top("bytesoutpersec_total"), "{{topic}}"),
                    unit="Bps",
                ),
                graph(
                    "Size of all replicas",
                    (f"topk(10, sum by (topic) (kafka_log_log_size{{{_TP}}}))", "{{topic}}"),
                    unit="bytes",
                ),
            ),
        ),
        (
            "Partitions (needs klamm.metrics.partitions)",
            (
                Panel(
                    "Not at full strength",
                    (
                        (f"topk(5, sum by (topic) ({_P}underreplicated{{{_TP}}}))", "under-replicated {{topic}}"),
                        (f"topk(5, sum by (topic) ({_P}underminisr{{{_TP}}}))", "under min ISR {{topic}}"),
                        (f"topk(5, sum by (topic) ({_P}atminisr{{{_TP}}}))", "at min ISR {{topic}}"),
                    ),
                    kind=TABLE,
                ),
                graph(
                    "Fewest in-sync replicas",
                    (
                        f"bottomk(10, max by (topic, partition) ({_P}insyncreplicascount{{{_TP}}}))",
                        "{{topic}}-{{partition}}",
                    ),
                ),
                graph(
                    "Highest log end offset",
                    (
                        f"topk(10, max by (topic, partition) (kafka_log_log_logendoffset{{{_TP}}}))",
                        "{{topic}}-{{partition}}",
                    ),
                ),
                graph(
                    "Largest lag of a follower",
                    (
                        f"topk(10, max by (topic, partition) (kafka_server_fetcherlagmetrics_consumerlag{{{_TP}}}))",
                        "{{topic}}-{{partition}}",
                    ),
                ),
            ),
        ),
    ),
    (("topic", f"{_P}replicascount", "topic"),),
)

AUDIT: Final = Dashboard(
    "klamm-audit",
    "klamm audit",
    (
        (
            "Verdict",
            (
                Panel("Verdict", ((f"klamm_audit_job_verdict{{{_A}}}", "{{value}}"),), kind=TABLE),
                stat("Findings", f"sum(klamm_audit_job_findings{{{_A}}}) or vector(0)"),
                stat("Reasons to be incomplete", f"sum(klamm_audit_job_incompletereasons{{{_A}}})"),
                stat("Lines in quarantine", f"sum(klamm_audit_job_quarantinedlines{{{_A}}})"),
            ),
        ),
        (
            "Progress",
            (
                graph("Backlog", (f"klamm_audit_job_backlogbytes{{{_A}}}", "bytes"), unit="bytes"),
                graph("Records", (_rate("klamm_audit_job_records_total", _A), "records"), unit="ops"),
                graph(
                    "Time of a batch, median",
                    (f'klamm_audit_job_batchms{{{_A}, quantile="0.5"}}', "batch"),
                    unit="ms",
                ),
                graph("Memory", (f"process_resident_memory_bytes{{{_A}}}", "driver"), unit="bytes"),
            ),
        ),
    ),
)

ZOOKEEPER: Final = Dashboard(
    "klamm-zookeeper",
    "klamm ZooKeeper",
    (
        (
            "As controllers and brokers see it",
            (
                graph(
                    "Request latency, 99th percentile",
                    (
                        f'kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms{{{_ANY}, quantile="0.99"}}',
                        "{{node}}",
                    ),
                    unit="ms",
                ),
                graph("Requests", (_rate("klamm_zookeeper_client_requests_total", _ANY), "{{node}}"), unit="ops"),
                Panel(
                    "Session state",
                    ((f"kafka_server_sessionexpirelistener_sessionstate{{{_ANY}}}", "{{node}} {{value}}"),),
                    kind=TABLE,
                ),
                graph(
                    "Disconnects and expiries",
                    (
                        f"sum(increase(kafka_server_sessionexpirelistener_zookeeperdisconnectspersec_total{{{_ANY}}}[5m]))",
                        "disconnects",
                    ),
                    (
                        f"sum(increase(kafka_server_sessionexpirelistener_zookeeperexpirespersec_total{{{_ANY}}}[5m]))",
                        "expiries",
                    ),
                ),
            ),
        ),
        (
            "ZooKeeper's own metrics (need its Prometheus provider)",
            (
                graph("Request latency, average", ('avg_latency{job="zookeeper"}', "{{node}}"), unit="ms"),
                graph("Outstanding requests", ('outstanding_requests{job="zookeeper"}', "{{node}}")),
                graph("Connections", ('num_alive_connections{job="zookeeper"}', "{{node}}")),
                graph(
                    "Znodes and watches",
                    ('znode_count{job="zookeeper"}', "znodes {{node}}"),
                    ('watch_count{job="zookeeper"}', "watches {{node}}"),
                ),
            ),
        ),
    ),
    (("node", "kafka_server_sessionexpirelistener_sessionstate", "node"),),
)

DASHBOARDS: Final = (OVERVIEW, CONTROLLER, AGENTS, PARTITIONS, AUDIT, ZOOKEEPER)
