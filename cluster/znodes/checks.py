"""Whether a znode is what it should be at its path, for every path that klamm reads (BD-5)."""

import re
from collections.abc import Callable
from typing import Final

from cluster.model import bounds
from cluster.model.bounds import why_not
from cluster.model.broker import BrokerId, ControllerId, PartitionEpoch
from cluster.model.errors import MalformedZnodeError
from cluster.model.partition import TopicPartition
from cluster.znodes.admin_requests import decode_log_dir_event, decode_partitions, decode_reassignments
from cluster.znodes.adoption import decode_adoption
from cluster.znodes.candidates import decode_profile
from cluster.znodes.cluster_wide import decode_cluster_id, decode_features, decode_producer_id_block
from cluster.znodes.configs import DEFAULT_ENTITY, decode_config, decode_config_change
from cluster.znodes.controller import decode_controller, decode_controller_epoch
from cluster.znodes.paths import broker_of_name
from cluster.znodes.registrations import decode_broker, decode_controller_registration
from cluster.znodes.topics import decode_state, decode_topic

_Check = Callable[[str, bytes], object]
"""(path, content): decode the znode. Raises MalformedZnodeError."""


def why_malformed(path: str, data: bytes) -> str | None:
    """Say why a znode cannot be used; None if it can, or if klamm does not read such a path."""
    for pattern, check in _CHECKS:
        if pattern.fullmatch(path):
            try:
                check(path, data)
            except MalformedZnodeError as error:
                return error.why
    return None


def _last_name(path: str) -> str:
    return path.rpartition("/")[2]


def _id_in(path: str, data: bytes) -> BrokerId:
    broker = broker_of_name(_last_name(path))
    if broker is None:
        raise MalformedZnodeError(path, data, f"the name {bounds.BROKER_ID.rule}")
    return broker


def _topic_in(path: str, data: bytes) -> str:
    topic = _last_name(path)
    if not bounds.TOPIC_NAME.accepts(topic):
        raise MalformedZnodeError(path, data, f"the name {bounds.TOPIC_NAME.rule}")
    return topic


def _broker_config(path: str, data: bytes) -> None:
    if _last_name(path) != DEFAULT_ENTITY:
        _id_in(path, data)
    decode_config(path, data)


def _topic_config(path: str, data: bytes) -> None:
    _topic_in(path, data)
    decode_config(path, data)


def _controller(path: str, data: bytes) -> None:
    if decode_controller(data) is None:
        raise MalformedZnodeError(path, data, "names no controller")


def _controller_registration(path: str, data: bytes) -> None:
    controller = ControllerId(_id_in(path, data))
    decode_controller_registration(controller, data)
    decode_profile(controller, data)


def _state(path: str, data: bytes) -> None:
    _, _, _, topic, _, name, _ = path.split("/")
    partition = bounds.parse_number(bounds.PARTITION, name)
    if partition is None:
        raise MalformedZnodeError(path, data, why_not(bounds.PARTITION, name))
    if decode_state(TopicPartition(topic, partition), data, PartitionEpoch(0)) is None:
        raise MalformedZnodeError(path, data, "not JSON")


_CHECKS: Final[tuple[tuple[re.Pattern[str], _Check], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), check)
    for pattern, check in (
        ("/controller", _controller),
        ("/controller_epoch", lambda _, data: decode_controller_epoch(data)),
        ("/controllers/ids/[^/]+", _controller_registration),
        ("/brokers/ids/[^/]+", lambda path, data: decode_broker(_id_in(path, data), data)),
        ("/brokers/topics/[^/]+", lambda path, data: decode_topic(_last_name(path), data)),
        ("/brokers/topics/[^/]+/partitions/[^/]+/state", _state),
        ("/config/topics/[^/]+", _topic_config),
        ("/config/brokers/[^/]+", _broker_config),
        ("/config/changes/config_change_[^/]*", decode_config_change),
        ("/admin/delete_topics/[^/]+", _topic_in),
        ("/admin/reassign_partitions", lambda _, data: decode_reassignments(data)),
        ("/admin/preferred_replica_election", decode_partitions),
        ("/isr_change_notification/[^/]+", decode_partitions),
        ("/log_dir_event_notification/[^/]+", decode_log_dir_event),
        ("/feature", lambda _, data: decode_features(data)),
        ("/cluster/id", lambda _, data: decode_cluster_id(data)),
        ("/klamm/adoption", lambda _, data: decode_adoption(data)),
        ("/latest_producer_id_block", lambda _, data: decode_producer_id_block(data)),
    )
)
