"""Writes the state-change log of one node to disk: JSON lines in segments that roll by size and age.

An append is one write to the page cache, on the event loop. fsync runs periodically in a worker thread, so that logging
never slows a failover down. A restart begins a new incarnation in a new segment and leaves a torn last line in place:
readers only take complete lines. Source: Kafka StateChangeLogger, for what is logged.
"""

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import structlog

from cluster.aio.clock import WallClock
from cluster.config.settings import Settings
from cluster.model.errors import DECODE_ERRORS, StorageError
from cluster.requests.control import StateLogHead
from state_log.record import (
    Boot,
    ChainHead,
    Kind,
    LoggedStateChange,
    Stamper,
    StateChange,
    Witness,
    decode_line,
    incarnation_id,
    line_digest,
)

if TYPE_CHECKING:
    from cluster.metrics.registry import Metrics

SEGMENT_SUFFIX: Final = ".jsonl"
STATE_CHANGE_FOLDER: Final = "state-change-log"
"""Subdirectory of the first data directory, used unless the log is configured elsewhere."""
AUDITED_FILE: Final = "audited.json"
"""Written beside the segments by the audit: segment name -> bytes processed and no longer needed."""

_SEGMENT_NAME: Final = re.compile(r"(?P<node>.+)-(?P<incarnation>[0-9]{13}\.[0-9]+)-(?P<first_seq>[0-9]{20})\.jsonl")
_FOREVER: Final = -1
_BLOCK: Final = 1 << 16
"""Bytes that are read at once when the last line of a file is looked for."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class SegmentName(NamedTuple):
    """The parts of a segment's file name; sorting by name sorts a node's segments by age."""

    node: str
    incarnation: str
    first_seq: int

    def __str__(self) -> str:
        return f"{self.node}-{self.incarnation}-{self.first_seq:020d}{SEGMENT_SUFFIX}"


def parse_segment_name(name: str) -> SegmentName | None:
    """Parse a file name; None if it is not a segment."""
    match = _SEGMENT_NAME.fullmatch(name)
    return SegmentName(match["node"], match["incarnation"], int(match["first_seq"])) if match else None


def former_end(directory: Path, node: str) -> Witness | None:
    """Find the last line that earlier runs of this node have left in the directory.

    The first record of a run names it: what a run had written can then no longer be cut off unnoticed, except that of
    the newest run. None if there is no such line, if it is no record, or if it cannot be read.
    """
    names = (parse_segment_name(path.name) for path in directory.glob(f"*{SEGMENT_SUFFIX}"))
    try:
        for name in sorted((name for name in names if name is not None and name.node == node), reverse=True):
            line = _last_line(directory / str(name))
            if line is not None:
                last = decode_line(line)
                if not isinstance(last, LoggedStateChange):
                    return None
                return Witness(node, last.incarnation, last.seq, line_digest(line))
    except OSError as error:
        _log.warning("The former state-change log cannot be read", directory=str(directory), error=str(error))
    return None


def _last_line(path: Path) -> bytes | None:
    """Read the last complete line of a file, without its newline; None if there is none."""
    with path.open("rb") as file:
        position, data = file.seek(0, os.SEEK_END), b""
        while position > 0 and data.count(b"\n") < 2:
            position = max(0, position - _BLOCK)
            file.seek(position)
            data = file.read(_BLOCK if data else -1) + data
        # What is named must outlast the machine, as the line that names it does.
        os.fsync(file.fileno())
    complete, newline, _ = data.rpartition(b"\n")
    return complete.rpartition(b"\n")[2] if newline else None


def read_audited(directory: Path) -> dict[str, int]:
    """Bytes of each segment processed by an audit; empty if there was none or its file is unreadable."""
    try:
        return msgspec.json.decode((directory / AUDITED_FILE).read_bytes(), type=dict[str, int])
    except (OSError, *DECODE_ERRORS):
        return {}


def write_audited(directory: Path, taken: Mapping[str, int]) -> None:
    """Record the progress of an audit; never lowers an earlier value."""
    merged = read_audited(directory)
    for name, size in taken.items():
        merged[name] = max(size, merged.get(name, 0))
    present = {name: size for name, size in sorted(merged.items()) if (directory / name).exists()}
    temporary = directory / f"{AUDITED_FILE}.{os.getpid()}.tmp"
    temporary.write_bytes(msgspec.json.encode(present))
    temporary.replace(directory / AUDITED_FILE)


_LOG: Final = ("klamm.statelog", "StateChangeLog")


class StateChangeLogMetrics:
    """What a node exposes of the state-change log that it writes.

    `written` and `failed` are called on the event loop, `synced` on a worker thread. The registry is not imported at
    run time: readers of logs in Spark's workers import this module, and have no Prometheus library.
    """

    def __init__(self, metrics: "Metrics") -> None:
        self._records = metrics.meter(*_LOG, "RecordsPerSec")
        self._bytes = metrics.meter(*_LOG, "BytesPerSec")
        self._failures = metrics.meter(*_LOG, "FailuresPerSec")
        self._lost = metrics.meter(*_LOG, "LostRecordsPerSec")
        self._synced_at_ms = metrics.gauge(*_LOG, "LastSyncTimestampMs")

    def written(self, records: int, size: int) -> None:
        self._records.mark(records)
        self._bytes.mark(size)

    def failed(self, lost: int) -> None:
        self._failures.mark()
        self._lost.mark(lost)

    def synced(self, now_ms: int) -> None:
        self._synced_at_ms.set(now_ms)


class FileStateChangeLog:
    """A StateChangeLog on files. An append never raises: a node that cannot log keeps serving.

    Records that could not be written are lost, but keep their sequence numbers, so the audit finds the gap. `failures`
    counts such appends, each is logged, and `on_failure` is called with the StorageError.
    """

    def __init__(
        self,
        directory: Path,
        *,
        node: str,
        incarnation: str,
        clock: WallClock,
        segment_bytes: int = 67_108_864,
        segment_ms: int = 3_600_000,
        fsync_interval_ms: int = 1000,
        retention_ms: int = _FOREVER,
        spare_unaudited: bool = True,
        on_failure: Callable[[StorageError], None] | None = None,
        boot: Callable[[], Boot] | None = None,
        metrics: StateChangeLogMetrics | None = None,
        former: Witness | None = None,
    ) -> None:
        """Sizes in bytes, times in ms; `retention_ms` -1 keeps sealed segments for ever.

        `spare_unaudited`: retention keeps segments that no audit has processed completely. `former`: the end of the
        former run's log, which the first record names.
        """
        self.failures = 0
        self.directory = directory
        self.node, self.incarnation, self._clock = node, incarnation, clock
        self._segment_bytes, self._segment_ms = segment_bytes, segment_ms
        self._fsync_interval_ms = fsync_interval_ms
        self._retention_ms, self._spare_unaudited = retention_ms, spare_unaudited
        self._on_failure = on_failure
        self._metrics = metrics
        self._former = former
        self._stamper = Stamper(node, incarnation, boot)
        self._current: int | None = None
        self._size = 0
        self._opened_at_ms = 0
        self._current_name = SegmentName(node, incarnation, 0)
        self._unsynced = self._name_unsynced = False
        self._retention_due = True
        self._written_head = self._flushed_head = self._stamper.head
        self._sealed: list[int] = []
        # Guards the descriptors between the event loop and the fsync thread; never held during an fsync.
        self._descriptors = threading.Lock()
        self._syncing = threading.Lock()

    @property
    def head(self) -> ChainHead:
        """The head after everything appended so far, whether or not it could be written or was flushed."""
        return self._stamper.head

    @property
    def flushed_head(self) -> StateLogHead | None:
        """The end of what was flushed to disk, and is still there after a crash of the machine; None if nothing was."""
        next_seq, digest = self._flushed_head
        if next_seq == 0:
            return None
        return StateLogHead(self.node, self.incarnation, next_seq - 1, digest, self._stamper.boot_id)

    @property
    def former_end(self) -> Witness | None:
        """The last line of the former run, as long as this one has written nothing; None if there is none."""
        return self._former

    def append(self, changes: Sequence[StateChange]) -> None:
        if not changes:
            return
        if self._former is not None:
            # Not before: a process that never writes has no log.
            changes, self._former = [StateChange(kind=Kind.WITNESS, witness=self._former), *changes], None
        now_ms = self._clock.now_ms()
        first_seq = self._stamper.next_seq
        lines = self._stamper.stamp(changes, now_ms)
        lines.append(b"")
        try:
            block = b"\n".join(lines)
            self._write(first_seq, block, now_ms)
            if self._metrics is not None:
                self._metrics.written(len(changes), len(block))
        except OSError as error:
            self._seal()
            self._fail(error, lost=len(changes))

    async def run(self) -> None:
        """Sync periodically, and apply retention whenever a segment was started, until cancelled."""
        while True:
            await asyncio.sleep(self._fsync_interval_ms / 1000)
            try:
                await asyncio.to_thread(self.sync)
                if self._retention_due:
                    self._retention_due = False
                    await asyncio.to_thread(self.delete_expired)
            except OSError as error:
                self._fail(error, lost=0)

    def close(self) -> None:
        """Sync and close. Safe to call twice; a later append starts a new segment."""
        self._seal()
        try:
            self.sync()
        except OSError as error:
            self._fail(error, lost=0)

    def sync(self) -> None:
        """Flush everything appended so far to disk. Raises OSError."""
        with self._syncing:
            failure: OSError | None = None
            head, unsynced = self._take_unsynced()
            for descriptor in unsynced:
                try:
                    os.fsync(descriptor)
                except OSError as error:
                    failure = error
                finally:
                    os.close(descriptor)
            if failure is not None:
                self._unsynced = True
                raise failure
            self._flushed_head = head
            if self._metrics is not None:
                self._metrics.synced(self._clock.now_ms())

    def _take_unsynced(self) -> tuple[ChainHead, list[int]]:
        """The head of what was written, and the descriptors to sync and close until it is flushed: sealed segments, the
        current one, and the directory if a name is new.
        """
        with self._descriptors:
            head = self._written_head
            taken, self._sealed = self._sealed, []
            if self._unsynced and self._current is not None:
                # A duplicate stays valid if the segment is sealed and closed while it is being synced.
                taken.append(os.dup(self._current))
            if self._name_unsynced:
                taken.append(os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY))
            self._unsynced = self._name_unsynced = False
        return head, taken

    def delete_expired(self) -> None:
        """Delete this node's sealed segments older than the retention, as far as audits allow."""
        if self._retention_ms == _FOREVER or not self.directory.is_dir():
            return
        deadline_ms = self._clock.now_ms() - self._retention_ms
        audited = read_audited(self.directory) if self._spare_unaudited else {}
        for path in sorted(self.directory.glob(f"*{SEGMENT_SUFFIX}")):
            name = parse_segment_name(path.name)
            if name is None or name.node != self.node or name >= self._current_name:
                continue
            status = path.stat()
            taken = not self._spare_unaudited or audited.get(path.name, -1) >= status.st_size
            if taken and status.st_mtime * 1000 < deadline_ms:
                path.unlink(missing_ok=True)
                _log.info("State-change log segment deleted", path=str(path))

    def _write(self, first_seq: int, block: bytes, now_ms: int) -> None:
        if self._current is not None and self._is_full(now_ms):
            self._seal()
        if self._current is None:
            self._open(first_seq, now_ms)
        assert self._current is not None, "a segment was just opened"
        written = os.write(self._current, block)
        while written < len(block):
            # After a short write (full disk or limit) the next write raises the error, or completes.
            written += os.write(self._current, block[written:])
        self._size += len(block)
        # In this order: the thread that syncs takes the head first, and it must not be ahead of what is to be synced.
        self._unsynced = True
        self._written_head = self._stamper.head

    def _is_full(self, now_ms: int) -> bool:
        return self._size >= self._segment_bytes or now_ms - self._opened_at_ms >= self._segment_ms

    def _open(self, first_seq: int, now_ms: int) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._current_name = SegmentName(self.node, self.incarnation, first_seq)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._current = os.open(self.directory / str(self._current_name), flags, 0o644)
        self._size, self._opened_at_ms = 0, now_ms
        self._name_unsynced = self._retention_due = True

    def _seal(self) -> None:
        with self._descriptors:
            if self._current is not None:
                self._sealed.append(self._current)
                self._current = None

    def _fail(self, error: OSError, *, lost: int) -> None:
        self.failures += 1
        if self._metrics is not None:
            self._metrics.failed(lost)
        _log.error("Writing the state-change log failed", directory=str(self.directory), error=str(error), lost=lost)
        if self._on_failure is not None:
            self._on_failure(StorageError(str(self.directory), str(error)))


def boot_id() -> str:
    """The id of this boot of the machine, from Linux; empty elsewhere."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def read_boot() -> Boot:
    """The present boot of the machine, and the time of its monotonic clock."""
    return Boot(time.monotonic_ns() // 1_000_000, boot_id())


def open_state_change_log(
    settings: Settings, data: Sequence[str], node: str, clock: WallClock, metrics: "Metrics"
) -> FileStateChangeLog:
    """Open the log of this process, in `klamm.state.change.log.dir` or below the first data directory.

    Its first record is the end of the former run's log, if there was one.
    """
    configured = settings.klamm_state_change_log_dir
    directory = Path(data[0]) / STATE_CHANGE_FOLDER if configured is None else Path(configured)
    return FileStateChangeLog(
        directory,
        node=node,
        incarnation=incarnation_id(clock.now_ms(), os.getpid()),
        clock=clock,
        segment_bytes=settings.klamm_state_change_log_segment_bytes,
        segment_ms=settings.klamm_state_change_log_segment_ms,
        fsync_interval_ms=settings.klamm_state_change_log_flush_interval_ms,
        retention_ms=settings.klamm_state_change_log_retention_ms,
        spare_unaudited=settings.klamm_state_change_log_retention_unaudited,
        boot=read_boot,
        metrics=StateChangeLogMetrics(metrics),
        former=former_end(directory, node),
    )
