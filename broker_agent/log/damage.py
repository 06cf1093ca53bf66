"""What is found wrong with a log when it is opened: offsets that are missing, or a log that cannot be loaded at all."""

from msgspec import Struct

from cluster.broker import Offset, TopicId
from cluster.errors import StorageError
from cluster.partition import TopicPartition


class CheckpointedOffsets(Struct, frozen=True):
    """The log directory's checkpoints for one log."""

    recovery_point: Offset = Offset(0)
    log_start_offset: Offset = Offset(0)
    high_watermark: Offset = Offset(0)


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


class UnloadableLog(Struct, frozen=True):
    """A log that is offline until the process ends, why, and its checkpointed offsets, which are kept for it."""

    directory: str
    why: str
    offsets: CheckpointedOffsets

    def as_error(self) -> StorageError:
        """For whoever asks for the log."""
        return StorageError(self.directory, self.why)
