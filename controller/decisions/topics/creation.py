"""Validates new topics: name, counts or explicit assignment, configs; places their replicas.

Source: Kafka Topic, AdminZkClient.validateTopicCreate, ZkAdminManager.createTopics.
"""

import base64
import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TYPE_CHECKING, Final

from cluster.model.broker import Broker, BrokerId, TopicId
from cluster.model.errors import ApiError, ErrorCode, all_refusals
from cluster.model.partition import ReplicaAssignment
from cluster.model.replica_placement import place_replicas
from cluster.requests.topics import NewPartitions, NewTopic
from controller.decisions.configs.topic_configs import check_topic_configs

if TYPE_CHECKING:
    from random import Random

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_UNSET: Final = -1


def duplicate_names(topics: Sequence[NewTopic | NewPartitions]) -> AbstractSet[str]:
    """Names that occur more than once in a request; each of those items is refused."""
    return {name for name, count in Counter(topic.name for topic in topics).items() if count > 1}


class TakenNames:
    """Names that a new topic must not have or collide with; in metric names '.' and '_' are the same.

    Built once per request, however many topics there are.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._first_alike: dict[str, str] = {}
        for name in names:
            self.add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        self._names.add(name)
        alike = self._first_alike.setdefault(_in_metrics(name), name)
        if name < alike:
            self._first_alike[_in_metrics(name)] = name

    def collision_with(self, name: str) -> str | None:
        """The first known name that `name` collides with, or None."""
        return self._first_alike.get(_in_metrics(name))


def _in_metrics(name: str) -> str:
    return name.replace(".", "_")


def plan_new_topic(
    topic: NewTopic,
    taken: TakenNames,
    live_brokers: Collection[Broker],
    *,
    default_partitions: int,
    default_replication_factor: int,
    random: "Random",
    controllers: AbstractSet[BrokerId] = frozenset(),
    kafka_release: str | None = None,
) -> dict[int, ReplicaAssignment]:
    """The assignment of a new topic, after all checks of TP-1. Raises ApiError that names everything invalid.

    `controllers`: ids that host no replicas. `kafka_release`: see `check_topic_configs`.
    """
    errors: list[ApiError] = []
    placed: dict[int, ReplicaAssignment] = {}
    for check in (
        partial(check_topic_name, topic.name, taken),
        partial(check_topic_configs, topic.configs, kafka_release),
        partial(_check_no_controllers, topic.assignments, controllers),
    ):
        try:
            check()
        except ApiError as error:
            errors.append(error)
    try:
        placed = _place(topic, live_brokers, default_partitions, default_replication_factor, random)
    except ApiError as error:
        errors.append(error)
    if errors:
        raise all_refusals(errors)
    return placed


def _place(
    topic: NewTopic, live_brokers: Collection[Broker], partitions: int, replication_factor: int, random: "Random"
) -> dict[int, ReplicaAssignment]:
    """The explicit assignment, or one placed with the requested or default counts."""
    if topic.assignments:
        if topic.num_partitions != _UNSET or topic.replication_factor != _UNSET:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "an explicit assignment and counts exclude each other",
                field="assignments",
                value=",".join(map(str, sorted(topic.assignments))),
            )
        check_assignments(topic.assignments)
        placed = topic.assignments
    else:
        # Without a live broker the count is refused below, before the random choice matters.
        brokers = max(1, len(live_brokers))
        placed = place_replicas(
            live_brokers,
            partitions if topic.num_partitions == _UNSET else topic.num_partitions,
            replication_factor if topic.replication_factor == _UNSET else topic.replication_factor,
            start=random.randrange(brokers),
            shift=random.randrange(brokers),
        )
    return {partition: ReplicaAssignment(tuple(placed[partition])) for partition in sorted(placed)}


def check_topic_name(name: str, taken: TakenNames) -> None:
    """Raise ApiError for a name that is malformed, taken, or collides with another in metric names."""
    if name in {".", ".."} or not _NAME.fullmatch(name):
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"invalid topic name {name!r}: use 1 to 249 of a-z, A-Z, 0-9, '.', '_', '-'; '.' and '..' are reserved",
            field="name",
            value=name,
        )
    if name in taken:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} already exists", field="name", value=name)
    collision = taken.collision_with(name)
    if collision is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name} collides with {collision}: '.' and '_' are the same in metric names",
            field="name",
            value=name,
        )


def check_assignments(assignments: Mapping[int, Sequence[BrokerId]]) -> None:
    """Raise ApiError unless partitions are 0..n-1 with the same number of distinct replicas, at least one.

    It names everything that is wrong.
    """
    if sorted(assignments) != list(range(len(assignments))):
        raise bad_assignment("partitions must be numbered from 0 without gaps", sorted(assignments))
    factor = len(assignments[0])
    errors: list[ApiError] = []
    for partition in sorted(assignments):
        replicas = assignments[partition]
        if not replicas or len(set(replicas)) != len(replicas) or min(replicas) < 0:
            errors.append(
                bad_assignment(f"partition {partition} needs at least one replica, each broker once", replicas)
            )
        elif len(replicas) != factor:
            why = f"partition {partition} needs as many replicas as partition 0, {factor}"
            errors.append(bad_assignment(why, replicas))
    if errors:
        raise all_refusals(errors)


def _check_no_controllers(assignments: Mapping[int, Sequence[BrokerId]], controllers: AbstractSet[BrokerId]) -> None:
    named = {partition: replicas for partition, replicas in assignments.items() if not controllers.isdisjoint(replicas)}
    errors = [
        bad_assignment(f"partition {partition} has a replica on a controller, which hosts none", replicas)
        for partition, replicas in sorted(named.items())
    ]
    if errors:
        raise all_refusals(errors)


def bad_assignment(why: str, numbers: Sequence[int]) -> ApiError:
    value = ":".join(map(str, numbers))
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{why}: {value}", field="assignments", value=value)


def new_topic_id(random: "Random") -> TopicId:
    """A version-4 UUID in unpadded URL-safe base64, not starting with `-`, which tools parse as a flag (ZK-22)."""
    while True:
        # The version bits exclude the reserved ids 0 and 1.
        drawn = uuid.UUID(int=random.getrandbits(128), version=4)
        text = base64.urlsafe_b64encode(drawn.bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return TopicId(text)
