"""A log that cannot be loaded: offline until the process ends, while the others of its directory are served."""

from msgspec import Struct

from cluster.model.broker import Offset
from cluster.model.errors import StorageError


class CheckpointedOffsets(Struct, frozen=True):
    """The log directory's checkpoints for one log."""

    recovery_point: Offset = Offset(0)
    log_start_offset: Offset = Offset(0)
    high_watermark: Offset = Offset(0)


class UnloadableLog(Struct, frozen=True):
    """A log that is offline until the process ends, why, and its checkpointed offsets, which are kept for it."""

    directory: str
    why: str
    offsets: CheckpointedOffsets

    def as_error(self) -> StorageError:
        """For whoever asks for the log."""
        return StorageError(self.directory, self.why)
