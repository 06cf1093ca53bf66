"""What a step may wait for, as predicates over a picture."""

from collections.abc import Callable
from typing import Any

from tests.recorded.picture import Picture
from tests.recorded.scenario import Condition


def holds(condition: Condition, picture: Picture, epoch_delta: int) -> bool:
    """`epoch_delta`: the controller epoch before the step, counted like `controller.epoch_delta`."""
    ((kind, value),) = condition.items()
    if kind == "controller":
        elected = value == "present" or picture["controller.epoch_delta"] > epoch_delta
        return bool(picture["controller.present"]) and elected
    return PREDICATES[kind](picture, value)


def _of_partition(picture: Picture, where: list[Any], field: str) -> Any:
    """None where the partition, or its state node, does not exist."""
    topic, partition = where[:2]
    return picture.get(f"partitions.{topic}-{partition}.{field}")


def _nothing_is_being_reassigned(picture: Picture, _: object) -> bool:
    moving = any(value for field, value in picture.items() if field.endswith((".adding", ".removing")))
    return picture["admin.reassign_partitions"] is None and not moving


def _topic_is_gone(picture: Picture, topic: str) -> bool:
    return topic not in picture["topics"] and topic not in picture["admin.delete_topics"]


PREDICATES: dict[str, Callable[[Picture, Any], bool]] = {
    "broker_up": lambda picture, broker: broker in picture["brokers"],
    "broker_down": lambda picture, broker: broker not in picture["brokers"],
    "topic_gone": _topic_is_gone,
    "reassignment_done": _nothing_is_being_reassigned,
    "election_done": lambda picture, _: picture["admin.preferred_replica_election"] is None,
    "no_state": lambda picture, where: _of_partition(picture, where, "state") == "absent",
    "leader": lambda picture, where: _of_partition(picture, where, "leader") == where[2],
    "isr": lambda picture, where: _of_partition(picture, where, "isr") == sorted(where[2]),
    "isr_size": lambda picture, where: len(_of_partition(picture, where, "isr") or ()) == where[2],
}
