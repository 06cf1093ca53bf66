"""What a step may wait for, as predicates over a picture."""

from collections.abc import Callable
from typing import Any

from tests.recorded.scenario import Condition
from tests.recorded.snapshot import Snapshot


def holds(condition: Condition, snapshot: Snapshot, epoch_delta: int) -> bool:
    """`epoch_delta`: the controller epoch before the step, counted like `controller.epoch_delta`."""
    ((kind, value),) = condition.items()
    if kind == "controller":
        elected = value == "present" or snapshot["controller.epoch_delta"] > epoch_delta
        return bool(snapshot["controller.present"]) and elected
    return PREDICATES[kind](snapshot, value)


def _of_partition(snapshot: Snapshot, where: list[Any], field: str) -> Any:
    """None where the partition, or its state node, does not exist."""
    topic, partition = where[:2]
    return snapshot.get(f"partitions.{topic}-{partition}.{field}")


def _nothing_is_being_reassigned(snapshot: Snapshot, _: object) -> bool:
    moving = any(value for field, value in snapshot.items() if field.endswith((".adding", ".removing")))
    return snapshot["admin.reassign_partitions"] is None and not moving


def _topic_is_gone(snapshot: Snapshot, topic: str) -> bool:
    return topic not in snapshot["topics"] and topic not in snapshot["admin.delete_topics"]


PREDICATES: dict[str, Callable[[Snapshot, Any], bool]] = {
    "broker_up": lambda snapshot, broker: broker in snapshot["brokers"],
    "broker_down": lambda snapshot, broker: broker not in snapshot["brokers"],
    "topic_gone": _topic_is_gone,
    "reassignment_done": _nothing_is_being_reassigned,
    "election_done": lambda snapshot, _: snapshot["admin.preferred_replica_election"] is None,
    "no_state": lambda snapshot, where: _of_partition(snapshot, where, "state") == "absent",
    "leader": lambda snapshot, where: _of_partition(snapshot, where, "leader") == where[2],
    "isr": lambda snapshot, where: _of_partition(snapshot, where, "isr") == sorted(where[2]),
    "isr_size": lambda snapshot, where: len(_of_partition(snapshot, where, "isr") or ()) == where[2],
}
