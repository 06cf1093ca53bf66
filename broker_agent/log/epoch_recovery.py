"""The leader epochs of a log at its start: of the checkpoint if it agrees with the batches, else of the batches.

Source: Kafka LeaderEpochFileCache, LogLoader.
"""

from itertools import chain, islice

import structlog

from broker_agent.log import checkpoints
from broker_agent.log.disk import Disk
from broker_agent.log.epoch_history import EpochEntry, EpochHistory
from broker_agent.log.segment_recovery import assign_epoch
from broker_agent.log.segments import Segments
from cluster.model.broker import NO_LEADER_EPOCH, LeaderEpoch, Offset

_log = structlog.stdlib.get_logger()


def read_epochs(disk: Disk, path: str) -> list[EpochEntry]:
    """The entries of the leader epoch checkpoint; none if it is malformed. Raises OSError."""
    try:
        return checkpoints.read_checkpoint(disk, f"{path}/{checkpoints.LEADER_EPOCHS}", checkpoints.decode_epochs)
    except checkpoints.MalformedCheckpointError as error:
        _log.warning("Leader epoch checkpoint is rebuilt", why=str(error))
        return []


def fit_epochs(
    epochs: EpochHistory, segments: Segments, path: str, *, log_start: Offset, end: Offset
) -> tuple[EpochHistory, LeaderEpoch]:
    """The history of the log, and its newest epoch that does not rest on batch headers alone; -1 if all do."""
    had_entries = epochs.latest is not None
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(log_start)
    if _agrees(epochs, segments, log_start, end):
        return epochs, NO_LEADER_EPOCH if epochs.latest is None else epochs.latest
    if had_entries:
        file = f"{path}/{checkpoints.LEADER_EPOCHS}"
        _log.warning("Leader epoch checkpoint does not agree with the batches; it is rebuilt", file=file)
    epochs = EpochHistory()
    for header in chain.from_iterable(segment.sound_headers() for segment in segments):
        assign_epoch(epochs, header)
    epochs.truncate_from_start(log_start)
    return epochs, NO_LEADER_EPOCH


def _agrees(epochs: EpochHistory, segments: Segments, log_start: Offset, end: Offset) -> bool:
    """Whether each entry begins where its epoch begins in the batches, and the last one is that of the last batch.

    Epochs never fall, so that this leaves no room for others in between. It costs two headers for each entry.
    """
    if log_start == end:
        return True
    before = NO_LEADER_EPOCH
    for entry in epochs.entries:
        headers = list(islice(segments.headers(Offset(max(log_start, entry.start_offset - 1))), 2))
        if entry.start_offset > log_start:
            if not headers or headers[0].last_offset >= entry.start_offset or headers[0].leader_epoch != before:
                return False
            del headers[0]
        if not headers or headers[0].leader_epoch != entry.epoch:
            return False
        before = entry.epoch
    newest = [segment.last_epoch for segment in segments if segment.next_offset > segment.base_offset]
    return not newest or newest[-1] == before
