"""Index files of a segment whose process was killed while it wrote them."""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from broker_agent.log.config import LogConfig
from broker_agent.log.record_batch import walk
from broker_agent.log.segment import PlacedBatch, Segment
from cluster.model.broker import Offset
from simulator.disk import SimulatedDisk
from simulator.record_batches import encode_batch
from tests.contract.log_worlds import TestClock

CONFIG = LogConfig(index_interval_bytes=200)
TIMES = [100, 900, *range(101, 118)]
"""The largest timestamp is in the second batch, which the offset index covers."""


class KilledError(Exception):
    """The process is gone."""


def open_segment(disk: SimulatedDisk) -> Segment:
    return Segment(disk, "/log", Offset(0), CONFIG, created_ms=0, jitter_ms=0)


@pytest.mark.rule("R10.6")
@pytest.mark.parametrize("writes", [0, 1, 2])
@pytest.mark.parametrize("anew", [False, True])
def test_a_kill_between_two_index_files_loses_no_timestamp(
    writes: int, anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimulatedDisk(TestClock(), Random(1))
    disk.make_directory("/log")
    segment = open_segment(disk)
    segment.create_indexes()
    for number, timestamp in enumerate(TIMES):
        records = encode_batch(
            b"r" * 100, 1, base_offset=number, leader_epoch=0, base_timestamp=timestamp, max_timestamp=timestamp
        )
        segment.append([records], [PlacedBatch(position, header) for position, header in walk(records)])
    left = [writes]
    append = Segment._append

    def killed_after(self: Segment, suffix: str, content: bytes, flushers: list[Callable[[], None]] | None) -> None:
        if left[0] == 0:
            raise KilledError
        left[0] -= 1
        append(self, suffix, content, flushers)

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "_append", killed_after)
        with suppress(KilledError):
            segment._rebuild_indexes() if anew else segment.save_indexes()
    again = open_segment(disk)
    assert again.load() is None
    assert again.largest_timestamp == 900
    found = (header for _, header in again.batches_at_time(200, Offset(0)) if header.max_timestamp >= 200)
    assert next(found).base_offset == 1
