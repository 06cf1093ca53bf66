"""The newest leadership that an agent knows of each partition, by (leader epoch, partition epoch)."""

from collections.abc import Iterable
from typing import NamedTuple

from cluster.model.broker import ControllerEpoch, LeaderEpoch, TopicId
from cluster.requests.recovery import KnownLeadership
from state_log.record import LoggedStateChange

_ROLES = ("leader", "follower")


class KnownReplica(NamedTuple):
    """A partition of one topic; a later topic of the same name has another id."""

    topic: str
    topic_id: TopicId | None
    partition: int


def newest(known: Iterable[KnownLeadership]) -> dict[KnownReplica, KnownLeadership]:
    """The newest of each partition; of equal ones the first, so name the source that knows most first."""
    found: dict[KnownReplica, KnownLeadership] = {}
    for leadership in known:
        replica = KnownReplica(leadership.topic, leadership.topic_id, leadership.partition)
        present = found.get(replica)
        if present is None or epochs_of(leadership) > epochs_of(present):
            found[replica] = leadership
    return found


def epochs_of(leadership: KnownLeadership) -> tuple[int, int]:
    return leadership.leader_epoch, leadership.partition_epoch


def recorded_leaderships(records: Iterable[LoggedStateChange]) -> Iterable[KnownLeadership]:
    """The leaderships in an agent's records of the roles it took."""
    for record in records:
        if (
            record.to_state in _ROLES
            and record.topic is not None
            and record.partition is not None
            and record.leader is not None
            and record.leader_epoch is not None
            and record.partition_epoch is not None
        ):
            yield KnownLeadership(
                record.topic,
                record.topic_id,
                record.partition,
                record.leader,
                record.leader_epoch,
                record.partition_epoch,
                record.isr or (),
                record.replicas or (),
            )


def recorded_controller_epoch(records: Iterable[LoggedStateChange]) -> ControllerEpoch:
    """The highest controller epoch in these records, 0 if there is none."""
    highest = ControllerEpoch(0)
    for record in records:
        cause = None if record.cause is None else record.cause.controller_epoch
        highest = max(highest, record.controller_epoch or highest, cause or highest)
    return highest


def highest_epoch(*epochs: LeaderEpoch | None) -> LeaderEpoch:
    return max((epoch for epoch in epochs if epoch is not None), default=LeaderEpoch(-1))
