"""The journal of a log directory: where the leader epochs of many logs become durable with one flush.

After an election an agent begins an epoch in thousands of logs, each durable before its leader takes records (R3.7a).
In the checkpoint of each log that is two flushes a log; here it is one for all that wait. A line holds the whole
history of one log and its topic id, and counts until the checkpoint of that log has a newer epoch. A few logs at a time
are written to their own checkpoints, as by Kafka, whose tools do not know this file.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from threading import Lock
from typing import Final
from zlib import crc32

import structlog
from msgspec import Struct

from broker_agent.log import checkpoints
from broker_agent.log.disk import Disk
from broker_agent.log.disk_errors import is_want_of_room
from broker_agent.log.epoch_history import EpochEntry
from broker_agent.log.grouped_work import GroupedWork
from cluster.model import bounds
from cluster.model.broker import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId
from cluster.model.partition import TopicPartition

EPOCH_JOURNAL: Final = "leader-epoch-journal"
FEW: Final = 4
"""So many logs at a time are written to their own checkpoints."""
_GROUP_MAX: Final = 1 << 16
_SLACK_BYTES: Final = 1 << 16
"""The journal is rewritten when what no longer counts is larger than this, and than what does."""
_VERSION: Final = "0"
_NONE: Final = "-"
_log = structlog.stdlib.get_logger()


class JournaledEpochs(Struct, frozen=True):
    """The leader epochs of one log, as they were when the newest of them began. `topic_id`: None if it had none."""

    topic_id: TopicId | None
    entries: tuple[EpochEntry, ...]


NOT_JOURNALED: Final = JournaledEpochs(None, ())


class BegunEpoch(Struct, frozen=True):
    """What to make durable of one log: its epochs, the newest of which begins. `checkpoint`: how its own file is
    replaced.
    """

    topic_partition: TopicPartition
    epochs: JournaledEpochs
    checkpoint: checkpoints.Replacement


class EpochJournal:
    """Makes leader epochs durable, several logs at a time. Its methods that block run in one thread at a time."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk, self._directory = disk, directory
        self._live: dict[TopicPartition, bytes] = {}
        """The lines that count, by partition."""
        self._in_file: dict[TopicPartition, LeaderEpoch] = {}
        """The newest epoch of each partition that the file has, whether it counts or not."""
        self._size = 0
        self._exclusively = Lock()
        self._begun = GroupedWork(disk, self._write, groups_at_once=1, items_of_group=_GROUP_MAX)

    def open(self, content: bytes | None) -> Mapping[TopicPartition, JournaledEpochs]:
        """Continue the journal with this content, and return what it says of each partition."""
        lines, damaged = decode_journal(content)
        if damaged:
            path = f"{self._directory}/{EPOCH_JOURNAL}"
            _log.warning("Lines of the leader epoch journal cannot be read and are left out", file=path, lines=damaged)
        self._live = {tp: encode_line(tp, epochs) for tp, epochs in lines.items()}
        self._in_file, self._size = {tp: _newest(epochs) for tp, epochs in lines.items()}, len(content or b"")
        return lines

    async def begin(self, begun: BegunEpoch) -> bool:
        """Make a leader epoch durable; returns whether it is in the checkpoint of its log. Raises OSError."""
        return await self._begun.run(begun)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Take note that the checkpoint of a log has, durably, what the journal says of it."""
        self._live.pop(topic_partition, None)

    def has_newer(self, topic_partition: TopicPartition, epoch: LeaderEpoch | None) -> bool:
        """Whether the file has a newer epoch of a log than this one, its latest: that was truncated, and the next start
        would take it from the file.
        """
        return self._in_file.get(topic_partition, NO_LEADER_EPOCH) > (NO_LEADER_EPOCH if epoch is None else epoch)

    def bury(self, topic_partitions: Set[TopicPartition]) -> None:
        """Void, durably, what the journal says of logs that are not in the directory any more, or that lost these
        epochs by a truncation. Blocks on disk I/O; raises OSError.
        """
        with self._exclusively:
            gone = self._in_file.keys() & topic_partitions
            for topic_partition in gone:
                self._live.pop(topic_partition, None)
            if gone:
                self._append([encode_line(tp, None) for tp in sorted(gone)])
            for topic_partition in gone:
                del self._in_file[topic_partition]

    def tidy(self) -> None:
        """Leave only what counts in the file, if there is room to rewrite it. Blocks on disk I/O; raises OSError."""
        with self._exclusively:
            if self._in_file.keys() != self._live.keys():
                self._rewrite(dict(self._live))

    def _write(self, begun: Sequence[BegunEpoch]) -> Sequence[bool | Exception]:
        if len(begun) <= FEW:
            errors = checkpoints.write_together(self._disk, [each.checkpoint for each in begun])
            return [True if error is None else error for error in errors]
        with self._exclusively:
            lines = {each.topic_partition: encode_line(each.topic_partition, each.epochs) for each in begun}
            self._in_file |= {each.topic_partition: _newest(each.epochs) for each in begun}
            self._append(lines.values())
            self._live |= lines
            self._rewrite_if_long()
        return [False] * len(begun)

    def _append(self, lines: Iterable[bytes]) -> None:
        # What is torn at its end stays a line by itself.
        content, is_new = b"\n" + b"".join(lines), self._size == 0
        file = self._disk.open_file(f"{self._directory}/{EPOCH_JOURNAL}")
        try:
            file.append([content])
            size = file.size
            file.flusher()()
        finally:
            file.close()
        if is_new:
            self._disk.sync_directory(self._directory)
        self._size = size

    def _rewrite_if_long(self) -> None:
        # The event loop may forget lines meanwhile; one that is still written is older than the log's checkpoint.
        live = dict(self._live)
        size = sum(map(len, live.values()))
        if self._size - size > max(_SLACK_BYTES, size):
            self._rewrite(live)

    def _rewrite(self, live: dict[TopicPartition, bytes]) -> None:
        content = b"".join(live.values())
        try:
            checkpoints.write_atomically(self._disk, self._directory, EPOCH_JOURNAL, content)
        except OSError as error:
            if not is_want_of_room(error):
                raise
            # Everything in it is durable, and more than is needed: neither a role nor a clean stop fails by that.
            self._disk.remove_file(f"{self._directory}/{EPOCH_JOURNAL}.tmp")
            return
        self._size, self._in_file = len(content), {tp: self._in_file[tp] for tp in live}


def _newest(epochs: JournaledEpochs) -> LeaderEpoch:
    return epochs.entries[-1].epoch


def encode_line(topic_partition: TopicPartition, epochs: JournaledEpochs | None) -> bytes:
    """Encode what the journal says of a partition; None: nothing, whatever it said before."""
    topic_id = _NONE if epochs is None else epochs.topic_id or _NONE
    entries = () if epochs is None else epochs.entries
    history = ",".join(f"{entry.epoch}:{entry.start_offset}" for entry in entries) or _NONE
    fields = f"{topic_partition.topic} {topic_partition.partition} {topic_id} {history}".encode()
    return b"%s %08x %s\n" % (_VERSION.encode(), crc32(fields), fields)


def decode_journal(content: bytes | None) -> tuple[dict[TopicPartition, JournaledEpochs], int]:
    """Decode the newest line of each partition, and count the lines that cannot be read.

    A power failure may have torn what was not flushed: nobody relies on that, and each line is checked by itself.
    """
    found: dict[TopicPartition, JournaledEpochs] = {}
    damaged = 0
    for line in (content or b"").split(b"\n"):
        decoded = _decode_line(line) if line else None
        if decoded is None:
            damaged += bool(line)
            continue
        topic_partition, epochs = decoded
        if epochs.entries:
            found[topic_partition] = epochs
        else:
            found.pop(topic_partition, None)
    return found, damaged


def _decode_line(line: bytes) -> tuple[TopicPartition, JournaledEpochs] | None:
    version, _, rest = line.partition(b" ")
    checksum, _, fields = rest.partition(b" ")
    if version != _VERSION.encode() or checksum != b"%08x" % crc32(fields):
        return None
    topic, number, topic_id, history = (fields.decode("utf-8", errors="replace").split(" ") + [""] * 4)[:4]
    partition = bounds.parse_number(bounds.PARTITION, number)
    is_known = topic_id == _NONE or bounds.TOPIC_ID.accepts(topic_id)
    if partition is None or not bounds.TOPIC_NAME.accepts(topic) or not is_known:
        return None
    entries = () if history == _NONE else tuple(map(_decode_entry, history.split(",")))
    epochs = tuple(entry for entry in entries if entry is not None)
    if len(epochs) < len(entries):
        return None
    return TopicPartition(topic, partition), JournaledEpochs(None if topic_id == _NONE else TopicId(topic_id), epochs)


def _decode_entry(entry: str) -> EpochEntry | None:
    epoch, _, start = entry.partition(":")
    number, offset = bounds.parse_number(bounds.EPOCH_OF_BATCH, epoch), bounds.parse_number(bounds.OFFSET, start)
    return None if number is None or offset is None else EpochEntry(LeaderEpoch(number), Offset(offset))
