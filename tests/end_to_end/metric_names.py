"""What real processes expose: every metric of the catalogue, and those that must have counted something."""

from typing import Final

from cluster.metrics.catalogue import COUNTER, STATE, SUMMARY, catalogue
from cluster.metrics.registry import exposition_name

CONTROLLER_MOVES: Final = (
    "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count",
    "kafka_server_sessionexpirelistener_zookeepersyncconnectspersec",
    "kafka_network_requestmetrics_totaltimems_count",
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_globaltopiccount",
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "kafka_controller_kafkacontroller_activebrokercount",
    "kafka_controller_controllerstats_controllerchangerateandtimems_count",
    "kafka_controller_controllerstats_topicchangerateandtimems_count",
    "kafka_controller_controllereventmanager_eventqueuetimems_count",
    "kafka_controller_controllerchannelmanager_requestrateandqueuetimems_count",
)
"""What an active controller has counted when topics were made."""
AGENT_MOVES: Final = (
    "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count",
    "kafka_server_sessionexpirelistener_zookeepersyncconnectspersec",
    "kafka_network_requestmetrics_requestspersec",
    "kafka_network_requestmetrics_requestbytes_count",
    "kafka_network_requestmetrics_errorspersec",
    "kafka_network_requestmetrics_localtimems_sum",
    "kafka_network_requestmetrics_remotetimems_sum",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_brokertopicmetrics_bytesinpersec",
    "kafka_server_brokertopicmetrics_bytesoutpersec",
    "kafka_server_brokertopicmetrics_totalproducerequestspersec",
    "kafka_server_brokertopicmetrics_totalfetchrequestspersec",
    "kafka_server_brokertopicmetrics_replicationbytesinpersec",
    "kafka_server_brokertopicmetrics_replicationbytesoutpersec",
    "kafka_server_fetcherstats_requestspersec",
    "kafka_server_fetcherstats_bytespersec",
    "kafka_server_delayedfetchmetrics_expirespersec",
    "kafka_server_fetchsessioncache_numincrementalfetchsessions",
    "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
    "kafka_server_kafkaserver_brokerstate",
    "kafka_log_log_numlogsegments",
    "kafka_log_log_size",
)
"""What every agent has counted that leads and follows partitions with records."""


Exposed = set[tuple[str, str, tuple[str, ...]]]
"""Name as a scraper sees it, type, names of labels."""
_TYPE: Final = {COUNTER: "counter", SUMMARY: "summary", STATE: "gauge"}


_OF_RECOVERY: Final = frozenset({"remainingLogsToRecover", "remainingSegmentsToRecover"})
"""Not of a broker that has started: they vanish when its logs are loaded."""


_OF_QUOTAS: Final = frozenset({"Produce", "Fetch", "Request", "ControllerMutation"})


def exposed_by(program: str) -> Exposed:
    """Everything that an active controller or a broker with partitions exposes, by the catalogue."""
    return {
        (exposition_name(domain, type_, metric.name), _TYPE.get(metric.type, "gauge"), tuple(sorted(labels)))
        for metric in catalogue()
        for domain, _, type_ in [metric.bean.partition(":type=")]
        for labels in metric.labels
        if program in metric.programs
        and metric.name not in _OF_RECOVERY
        # Not without TLS, and without an authorizer.
        and type_ not in {"Certificates", "Handshakes", "Authorizer"}
        # Not without a move between log directories, and without a client that has a quota.
        and "is_future" not in labels
        and not (type_ in _OF_QUOTAS and "client_id" in labels)
    }
