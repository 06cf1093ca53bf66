"""What the dashboards of the audit and of ZooKeeper show."""

from typing import Final

from deploy.grafana.panels import TABLE, Dashboard, Panel, graph, rate, stat

_A: Final = 'job="klamm-audit"'
_ANY: Final = 'job=~"klamm-.*", node=~"$node"'

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
                graph("Records", (rate("klamm_audit_job_records_total", _A), "records"), unit="ops"),
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
                graph("Requests", (rate("klamm_zookeeper_client_requests_total", _ANY), "{{node}}"), unit="ops"),
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
