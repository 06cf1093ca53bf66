"""The paths of znodes. Source: Kafka ZkData.scala."""

from functools import lru_cache
from typing import Final

from cluster.model import bounds
from cluster.model.broker import BrokerId, ControllerId
from cluster.model.partition import TopicPartition

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
CONTROLLERS_IDS: Final = "/controllers/ids"
BROKERS: Final = "/brokers"
BROKERS_IDS: Final = "/brokers/ids"
BROKERS_TOPICS: Final = "/brokers/topics"
BROKERS_SEQID: Final = "/brokers/seqid"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION: Final = "/log_dir_event_notification"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_TOPICS: Final = "/config/topics"
CONFIG_BROKERS: Final = "/config/brokers"
CONFIG_CLIENTS: Final = "/config/clients"
CONFIG_USERS: Final = "/config/users"
CLUSTER_ID: Final = "/cluster/id"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"
ADOPTION: Final = "/klamm/adoption"
"""Not of Kafka: while it stands, candidates take `/controller` from Kafka's brokers."""
STATE_LOG: Final = "/klamm/state_log"
"""Not of Kafka: the heads of the state-change logs."""
LEFT_REPLICAS: Final = "/klamm/left_replicas"
"""Not of Kafka: replicas of deleted topics on brokers that were away."""
KNOWN_CONTROLLERS: Final = "/klamm/controllers"
"""Not of Kafka: a child for each controller that ever took part in elections."""
CONTROLLER_LOG: Final = "controller-"
"""What the names of controllers' logs begin with; an id follows."""

PERSISTENT_PATHS: Final = (
    "/consumers",
    BROKERS_IDS,
    BROKERS_TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKERS_SEQID,
    ISR_CHANGE_NOTIFICATION,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    CONFIG_TOPICS,
    CONFIG_CLIENTS,
    CONFIG_USERS,
    CONFIG_BROKERS,
    "/config/ips",
)
"""Persistent znodes that every process creates at startup if missing, parents included."""


def broker_path(broker: BrokerId) -> str:
    """The path of a broker's registration."""
    return f"{BROKERS_IDS}/{broker}"


def broker_of_name(name: str) -> BrokerId | None:
    """The broker id of a child of `/brokers/ids`; None if the name is not a broker id of 31 bits."""
    broker = bounds.parse_number(bounds.BROKER_ID, name)
    return None if broker is None else BrokerId(broker)


@lru_cache(maxsize=1024)
def partition_of_name(name: str) -> int | None:
    """The number of a child of `/brokers/topics/<topic>/partitions`; None if the name is no partition number."""
    return bounds.parse_number(bounds.PARTITION, name)


def controller_registration_path(controller: ControllerId) -> str:
    """The path of a candidate's registration."""
    return f"{CONTROLLERS_IDS}/{controller}"


def controller_of_registration_path(path: str) -> ControllerId | None:
    """The inverse of `controller_registration_path`; None for any other path."""
    parent, _, name = path.rpartition("/")
    number = broker_of_name(name) if parent == CONTROLLERS_IDS else None
    return None if number is None else ControllerId(number)


def topic_path(topic: str) -> str:
    """The path of a topic's assignment."""
    return f"{BROKERS_TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{BROKERS_TOPICS}/{topic}/partitions"


def partition_path(tp: TopicPartition) -> str:
    return f"{BROKERS_TOPICS}/{tp.topic}/partitions/{tp.partition}"


def state_path(tp: TopicPartition) -> str:
    """The path of a partition's state: leader, ISR and epochs."""
    return f"{BROKERS_TOPICS}/{tp.topic}/partitions/{tp.partition}/state"


def partition_of_state_path(path: str) -> TopicPartition | None:
    """The inverse of `state_path`; None for any other path."""
    match path.split("/"):
        case ["", "brokers", "topics", topic, "partitions", name, "state"]:
            partition = partition_of_name(name)
            return None if partition is None else TopicPartition(topic, partition)
        case _:
            return None


def topic_config_path(topic: str) -> str:
    return f"{CONFIG_TOPICS}/{topic}"


def state_log_path(node: str) -> str:
    """The path of a node's log head. `node`: `controller-<id>` or `broker-<id>`."""
    return f"{STATE_LOG}/{node}"


def left_replicas_path(broker: BrokerId, topic: str) -> str:
    """The path that records what a broker still has of a deleted topic."""
    return f"{LEFT_REPLICAS}/{broker}/{topic}"


def known_controller_path(controller: ControllerId) -> str:
    """The path that records that a candidate takes part in elections, so that it can be missed."""
    return f"{KNOWN_CONTROLLERS}/{controller}"


def delete_topic_path(topic: str) -> str:
    """The path that marks a topic for deletion."""
    return f"{DELETE_TOPICS}/{topic}"
