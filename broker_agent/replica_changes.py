"""The changes of an agent that are recorded in its state-change log: a closed union of values.

`ReplicaManager.commit` takes a change into the table of hosted partitions and the metrics, records it, and checks the
requests that wait for it. All four follow from the same value, so they cannot disagree.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from msgspec import Struct

from broker_agent.log_damage import DamagedReplica
from cluster.model.broker import BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from cluster.model.partition import TopicPartition
from cluster.requests.agents import SCRUB
from cluster.requests.control import LeaderAndIsrPartitionState
from state_log.record import Cause, Kind, StateChange


class RoleTaken(Struct, frozen=True):
    """A role was taken as the controller requested. The offsets and `min_insync_replicas` are those of the log just
    before: what was known to be committed here, and the log end.

    `follows_anew`: the replica follows in a newer leader epoch. `silent_ms`: for how long the leader before had not
    answered this replica, which leads now; None if it had not followed it.
    """

    topic_partition: TopicPartition
    topic_id: TopicId | None
    state: LeaderAndIsrPartitionState
    cause: Cause
    high_watermark: Offset
    log_end_offset: Offset
    min_insync_replicas: int
    follows_anew: bool
    silent_ms: int | None = None


class IsrCommitted(Struct, frozen=True):
    """An ISR that this leader had proposed is in effect: after a restart nothing else here knows it.

    `cause`: that a controller granted it, with its event if it named one, or that this broker wrote it;
    `is_expansion`: a follower joined; otherwise some left.
    """

    topic_partition: TopicPartition
    topic_id: TopicId | None
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    min_insync_replicas: int | None
    cause: Cause
    is_expansion: bool


class ReplicaRemoved(Struct, frozen=True):
    """The partition is no longer hosted: its log is deleted next, or failed to open. Not recorded."""

    topic_partition: TopicPartition


class ReplicaStopped(Struct, frozen=True):
    """A StopReplica was carried out. `is_deleted`: so that the log is gone; `failure`: why it is not.

    `topic_id`: of the log, or where there was none of the request.
    """

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    cause: Cause
    is_deleted: bool
    failure: Exception | None = None
    topic_id: TopicId | None = None


class ReplicaOffline(Struct, frozen=True):
    """The replica is refused until its directory is back in service, or the process ends: its directory failed, or its
    log cannot be loaded (P25).

    `why`: how the directory failed; recorded only with it, as without it the replica had no role yet.
    """

    topic_partition: TopicPartition
    why: str | None = None
    topic_id: TopicId | None = None


class ReplicaBack(Struct, frozen=True):
    """The directory of an offline replica is in service again: the next request may give it a role. Not recorded: the
    role is.
    """

    topic_partition: TopicPartition


class LogTruncated(Struct, frozen=True):
    """A follower cut its log from the end `from_offset` down to `to_offset`, when the high watermark was as given."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    leader: BrokerId
    leader_epoch: LeaderEpoch
    cause: Cause | None
    from_offset: Offset
    to_offset: Offset
    high_watermark: Offset
    reason: str


class MoveOfReplica(Struct, frozen=True):
    """The log of a replica, and the two log directories between which it moves."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    from_directory: str
    to_directory: str


class ReplicaMoveStarted(Struct, frozen=True):
    """A copy of a log was created in another log directory, as somebody asked."""

    move: MoveOfReplica


class ReplicaMoveAbandoned(Struct, frozen=True):
    """A copy was given up before it took the place of the log. `cause`: the request or the event that ended it."""

    move: MoveOfReplica
    cause: Cause


class ReplicaMoved(Struct, frozen=True):
    """A copy has taken the place of the log. Role, epochs and offsets are the same as before."""

    move: MoveOfReplica


class DamageFound(Struct, frozen=True):
    """A log was found to lack records, when it was opened or by the scrub."""

    replica: DamagedReplica


class RegistrationChanged(Struct, frozen=True):
    """The broker was registered under this epoch (`to_state` "registered"), or its session "expired"."""

    broker_epoch: BrokerEpoch
    to_state: str
    cause: Cause


ReplicaChange = (
    RoleTaken
    | IsrCommitted
    | ReplicaRemoved
    | ReplicaStopped
    | ReplicaOffline
    | ReplicaBack
    | LogTruncated
    | ReplicaMoveStarted
    | ReplicaMoveAbandoned
    | ReplicaMoved
    | DamageFound
    | RegistrationChanged
)

ALTERED: Final = Cause("AlterReplicaLogDirs")
"""The request of a person or tool, which has no number."""
DIRECTORY_FAILED: Final = Cause("LogDirectoryFailure")

_Record = Callable[..., StateChange]
"""Makes a record from kind, cause, partition and further fields."""


def record_of(change: ReplicaChange, own_id: BrokerId) -> StateChange | None:
    """The state-change record of a change of broker `own_id`; None if it is not recorded."""

    def record(kind: Kind, cause: Cause | None, tp: TopicPartition | None = None, **rest: Any) -> StateChange:
        topic, partition = (None, None) if tp is None else tp
        return StateChange(kind=kind, cause=cause, topic=topic, partition=partition, broker=own_id, **rest)

    return _RECORDS[type(change)](change, own_id, record)


def _role_taken(change: RoleTaken, own_id: BrokerId, record: _Record) -> StateChange:
    state = change.state
    leads = state.leader == own_id
    return record(
        Kind.ROLE,
        change.cause,
        change.topic_partition,
        controller_epoch=state.controller_epoch,
        topic_id=change.topic_id,
        to_state="leader" if leads else "follower",
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=state.isr,
        replicas=state.replicas,
        high_watermark=change.high_watermark,
        log_end_offset=change.log_end_offset,
        min_insync_replicas=change.min_insync_replicas if leads else None,
        silent_ms=change.silent_ms,
    )


def _isr_committed(change: IsrCommitted, own_id: BrokerId, record: _Record) -> StateChange:
    return record(
        Kind.ROLE,
        change.cause,
        change.topic_partition,
        topic_id=change.topic_id,
        to_state="leader",
        leader=own_id,
        leader_epoch=change.leader_epoch,
        partition_epoch=change.partition_epoch,
        isr=change.isr,
        replicas=change.replicas,
        min_insync_replicas=change.min_insync_replicas,
    )


def _replica_stopped(change: ReplicaStopped, _: BrokerId, record: _Record) -> StateChange:
    to_state = "deleted" if change.is_deleted else "stopped"
    why = None if change.failure is None else str(change.failure)
    return record(
        *(Kind.ROLE, change.cause, change.topic_partition),
        topic_id=change.topic_id,
        to_state=to_state,
        leader_epoch=change.leader_epoch,
        reason=why,
    )


def _replica_offline(change: ReplicaOffline, _: BrokerId, record: _Record) -> StateChange | None:
    if change.why is None:
        return None
    return record(
        *(Kind.ROLE, DIRECTORY_FAILED, change.topic_partition),
        topic_id=change.topic_id,
        to_state="offline",
        reason=change.why,
    )


def _log_truncated(change: LogTruncated, _: BrokerId, record: _Record) -> StateChange:
    return record(
        Kind.TRUNCATION,
        change.cause,
        change.topic_partition,
        topic_id=change.topic_id,
        leader=change.leader,
        leader_epoch=change.leader_epoch,
        from_offset=change.from_offset,
        to_offset=change.to_offset,
        high_watermark=change.high_watermark,
        reason=change.reason,
    )


def _moved(move: MoveOfReplica, cause: Cause, to_state: str, record: _Record) -> StateChange:
    return record(
        Kind.DIRECTORY_MOVE,
        cause,
        move.topic_partition,
        topic_id=move.topic_id,
        to_state=to_state,
        reason=f"from {move.from_directory} to {move.to_directory}",
    )


def _damage_found(change: DamageFound, _: BrokerId, record: _Record) -> StateChange:
    replica = change.replica
    by_scrub = replica.found_by == SCRUB
    return record(
        Kind.TRUNCATION,
        Cause("LogScrub" if by_scrub else "LogRecovery"),
        replica.topic_partition,
        topic_id=replica.topic_id,
        from_offset=replica.damage.to_offset,
        to_offset=replica.damage.from_offset,
        reason=SCRUB if by_scrub else replica.detail,
    )


def _registration_changed(change: RegistrationChanged, _: BrokerId, record: _Record) -> StateChange:
    epoch = change.broker_epoch
    return record(
        Kind.REGISTRATION,
        change.cause,
        broker_epoch=epoch,
        to_state=change.to_state,
        reason=f"broker epoch {epoch}",
    )


_RECORDS: Final[Mapping[type, Callable[[Any, BrokerId, _Record], StateChange | None]]] = {
    RoleTaken: _role_taken,
    IsrCommitted: _isr_committed,
    ReplicaRemoved: lambda _change, _own_id, _record: None,
    ReplicaStopped: _replica_stopped,
    ReplicaOffline: _replica_offline,
    ReplicaBack: lambda _change, _own_id, _record: None,
    LogTruncated: _log_truncated,
    ReplicaMoveStarted: lambda change, _, record: _moved(change.move, ALTERED, "started", record),
    ReplicaMoveAbandoned: lambda change, _, record: _moved(change.move, change.cause, "abandoned", record),
    ReplicaMoved: lambda change, _, record: _moved(change.move, ALTERED, "completed", record),
    DamageFound: _damage_found,
    RegistrationChanged: _registration_changed,
}
assert _RECORDS.keys() == set(get_args(ReplicaChange)), "each kind of change has its record, or says that it has none"
