"""The recovery point of one log, and the flush that advances it.

What to flush is captured on the event loop, flushed by a thread, and checked again on return: the log may have grown or
been truncated meanwhile. Source: Kafka UnifiedLog.flush.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from broker_agent.log import checkpoints
from broker_agent.log.config import UNLIMITED, LogConfig
from broker_agent.log.recovery import LoadedLog
from broker_agent.log.segments import LogDependencies
from cluster.model.broker import Offset


class LogFlusher:
    """Used by the log only, which ensures that one task at a time is in `flush` or `write_epochs`.

    Invariants: recovery point <= log end; the epochs on disk are at least as new as the recovery point.
    """

    def __init__(self, dependencies: LogDependencies, path: str, loaded: LoadedLog) -> None:
        self.recovery_point = loaded.recovery_point
        """First offset not known to be flushed."""
        self._disk, self._flush_times = dependencies.disk, dependencies.metrics.flush_times
        self.path = path
        """The directory of the log."""
        self._segments, self._epochs = loaded.segments, loaded.epochs
        self._captured = loaded.recovery_point
        self._has_rolled, self._names_are_dirty = loaded.has_unflushed_gaps, False
        self.cuts = 0
        """Number of truncations."""
        self._flushed_at_s = asyncio.get_running_loop().time()

    def on_roll(self) -> None:
        self._has_rolled = self._names_are_dirty = True

    def on_segments_deleted(self) -> None:
        self._names_are_dirty = True

    def on_truncation(self, offset: Offset) -> None:
        """The log was truncated to `offset`, possibly during a flush."""
        self.cuts += 1
        self._names_are_dirty = True
        self.recovery_point = min(self.recovery_point, offset)
        self._captured = min(self._captured, offset)

    def is_due(self, end: Offset, config: LogConfig, now_s: float) -> bool:
        unflushed = end - self._captured
        is_late = unflushed > 0 and (now_s - self._flushed_at_s) * 1000 >= config.flush_ms
        return is_late or unflushed >= config.flush_messages or self._has_rolled or self._epochs.is_dirty

    def is_waiting(self, end: Offset, config: LogConfig) -> bool:
        """Whether a flush will be due once `flush.ms` is over."""
        return end > self._captured and config.flush_ms < UNLIMITED

    async def flush(self, end: Offset) -> None:
        """Flush everything below `end`, the log end."""
        cuts = self.cuts
        dirty = [segment for segment in self._segments if segment.is_dirty]
        self._has_rolled, self._captured = False, end
        self._flushed_at_s = asyncio.get_running_loop().time()
        try:
            # With records of a journaled epoch its checkpoint is written, too; without, the journal has all of it.
            lacks_epochs = self._epochs.checkpoint_lacks(end)
            await self._write([segment.flusher() for segment in dirty], with_journaled=lacks_epochs)
        except BaseException:
            for segment in dirty:
                segment.is_dirty = True
            self._captured = min(self._captured, self.recovery_point)
            raise
        if dirty:
            took_s = asyncio.get_running_loop().time() - self._flushed_at_s
            self._flush_times.update_ms(took_s * 1000)
        if cuts == self.cuts:
            # After a truncation meanwhile, data below `end` may be newer than what was flushed.
            self.recovery_point = max(self.recovery_point, end)

    async def write_epochs(
        self, write: Callable[[checkpoints.Replacement], Awaitable[bool]], flush_before: str | None
    ) -> bool:
        """Make the epochs durable if they are not; returns whether the epoch checkpoint has them.

        `write` is given how to replace the checkpoint, and returns whether it did, or wrote to the journal instead.
        `flush_before`: a file that has to be durable before the checkpoint.
        """
        if not self._epochs.is_dirty:
            await self._write([], with_journaled=False)
            return not self._epochs.is_journaled
        names_were_dirty = self._names_are_dirty
        entries = self._epochs.entries
        content = checkpoints.encode_epochs(entries)
        self._epochs.is_dirty = self._names_are_dirty = False
        try:
            # The last step of a replacement flushes all names in the directory.
            is_replaced = await write(
                checkpoints.Replacement(self.path, checkpoints.LEADER_EPOCHS, content, flush_before)
            )
        except BaseException:
            self._epochs.is_dirty = True
            self._names_are_dirty |= names_were_dirty
            raise
        if is_replaced:
            self._epochs.checkpointed(entries)
        else:
            self._epochs.is_journaled = True
            self._names_are_dirty |= names_were_dirty
        return is_replaced

    async def _write(self, flushers: Sequence[Callable[[], None]], *, with_journaled: bool) -> None:
        """Run the flushers, then write changed names and epochs, all in a worker thread."""
        work = list(flushers)
        disk, path, entries = self._disk, self.path, self._epochs.entries
        epochs_were_dirty, names_were_dirty = self._epochs.is_dirty, self._names_are_dirty
        writes_epochs = epochs_were_dirty or (with_journaled and self._epochs.is_journaled)
        if names_were_dirty and not writes_epochs:
            work.append(lambda: disk.sync_directory(path))
        if writes_epochs:
            # The last step of the atomic replacement flushes all names in the directory.
            content = checkpoints.encode_epochs(entries)
            work.append(lambda: checkpoints.write_atomically(disk, path, checkpoints.LEADER_EPOCHS, content))
        self._epochs.is_dirty = self._names_are_dirty = False
        if not work:
            return
        try:
            await disk.run(lambda: run_all(work))
        except BaseException:
            self._epochs.is_dirty |= epochs_were_dirty
            self._names_are_dirty |= names_were_dirty
            raise
        if writes_epochs:
            self._epochs.checkpointed(entries)


def run_all(work: Sequence[Callable[[], None]]) -> None:
    """Run every task, as a flusher must be called, and raise the first error."""
    errors: list[OSError] = []
    for task in work:
        try:
            task()
        except OSError as error:
            errors.append(error)
    if errors:
        raise errors[0]
