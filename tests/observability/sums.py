"""Sums that people write who know the names of Kafka and its JMX exporter, and the truth on a healthy cluster."""

from typing import Final

MESSAGES_IN: Final = "kafka_server_brokertopicmetrics_messagesinpersec_total"
"""The series without a topic counts what all topics of a broker count."""
ABNORMAL: Final = "sum by (strimzi_io_name, namespace) (kafka_controller_kafkacontroller_activecontrollercount) != 1"
"""Strimzi's alert AbnormalControllerState."""


def sums(*, topics: int, partitions: int, replicas: int, brokers: int) -> dict[str, float]:
    """By query its truth, while every replica is in sync and preferred leaders lead. `partitions`: of all topics."""
    return {
        "sum(kafka_controller_kafkacontroller_activecontrollercount)": 1,
        "sum(kafka_controller_kafkacontroller_activebrokercount)": brokers,
        "sum(kafka_controller_kafkacontroller_globaltopiccount)": topics,
        "sum(kafka_controller_kafkacontroller_globalpartitioncount)": partitions,
        "sum(kafka_controller_kafkacontroller_offlinepartitionscount)": 0,
        "sum(kafka_controller_kafkacontroller_preferredreplicaimbalancecount)": 0,
        "sum(kafka_server_replicamanager_underreplicatedpartitions)": 0,
        "sum(kafka_server_replicamanager_underminisrpartitioncount)": 0,
        "sum(kafka_server_replicamanager_offlinereplicacount)": 0,
        "sum(kafka_server_replicamanager_leadercount)": partitions,
        "sum(kafka_server_replicamanager_partitioncount)": partitions * replicas,
        "sum(kafka_cluster_partition_insyncreplicascount)": partitions * replicas,
        "sum(kafka_cluster_partition_underreplicated)": 0,
        "count(kafka_server_kafkaserver_brokerstate)": brokers,
        "count(kafka_server_kafkaserver_brokerstate == 3)": brokers,
        "count(kafka_log_log_size)": partitions * replicas,
        f"count({ABNORMAL}) or vector(0)": 0,
    }
