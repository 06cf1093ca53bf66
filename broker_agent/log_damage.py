"""What was found missing in a log when it was opened: the agent records it and answers DescribeLogDirs with it."""

from msgspec import Struct

from cluster.broker import BrokerId, Offset, TopicId
from cluster.partition import TopicPartition
from state_log.record import Cause, Kind, StateChange


class LogDamage(Struct, frozen=True):
    """Offsets from `from_offset` up to, not including, `to_offset` were in the log and are not, or not all, any more.

    `size`: bytes that were cut off; what was gone before is not counted, and what is left in the middle stays.
    """

    from_offset: Offset
    to_offset: Offset
    size: int
    reason: str


class DamagedReplica(Struct, frozen=True):
    """The damage of one replica of this broker, found when its log directory was opened."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    directory: str
    damage: LogDamage

    @property
    def detail(self) -> str:
        """One sentence for people, without the partition."""
        lost = self.damage
        return (
            f"offsets {lost.from_offset}..{lost.to_offset - 1} are damaged in {self.directory} "
            f"({lost.size} bytes cut off): {lost.reason}"
        )


def damage_record(broker: BrokerId, replica: DamagedReplica) -> StateChange:
    """The state-change record of a damaged replica."""
    return StateChange(
        kind=Kind.TRUNCATION,
        cause=Cause("LogRecovery"),
        topic=replica.topic_partition.topic,
        topic_id=replica.topic_id,
        partition=replica.topic_partition.partition,
        broker=broker,
        from_offset=replica.damage.to_offset,
        to_offset=replica.damage.from_offset,
        reason=replica.detail,
    )
