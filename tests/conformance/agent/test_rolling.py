"""When a log rolls a new segment, and what happens to the former one."""

import pytest

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.partition import TopicPartition
from tests.contract.log_worlds import InMemoryWorld, Node, batch, check_invariants, extents, fetched

SIZE = len(batch())
NOW_MS = 1_000_000


async def log_with(config: LogConfig) -> tuple[Node, PartitionLog]:
    node = Node(InMemoryWorld(), "/disk", config=config)
    await node.start()
    return node, await node.log()


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def append(log: PartitionLog, *timestamps: int, now_ms: int = NOW_MS) -> None:
    for timestamp in timestamps:
        log.append_as_leader(batch(timestamp=timestamp), LeaderEpoch(0), now_ms)


@pytest.mark.rule("R10.8", "R10.9")
async def test_a_segment_takes_what_fits_and_its_successor_begins_at_the_end_of_the_log() -> None:
    _, log = await log_with(LogConfig(segment_bytes=2 * SIZE + 1))
    append(log, *[5] * 5)
    assert bases(log) == [0, 2, 4]
    _, log = await log_with(LogConfig(segment_bytes=2 * SIZE))
    append(log, 5, 5)
    assert bases(log) == [0]


@pytest.mark.rule("R10.8")
async def test_age_is_counted_from_the_first_batch_by_the_clock_of_the_producers() -> None:
    _, log = await log_with(LogConfig(segment_ms=1000))
    append(log, 50_000, now_ms=NOW_MS)
    append(log, 51_000, 50_500, now_ms=NOW_MS + 999_999)
    assert bases(log) == [0]
    append(log, 51_001, 52_001, now_ms=NOW_MS)
    assert bases(log) == [0, 3]
    append(log, 52_002, now_ms=NOW_MS)
    assert bases(log) == [0, 3, 5]


@pytest.mark.rule("R10.8")
async def test_without_timestamps_age_is_counted_from_the_creation_and_an_empty_segment_has_none() -> None:
    node, log = await log_with(LogConfig(segment_ms=1000))
    created = node.clock.at_ms
    append(log, -1, now_ms=created + 5000)
    assert bases(log) == [0]
    node.clock.at_ms = created + 5000
    append(log, -1, now_ms=created + 5000)
    assert bases(log) == [0, 1]
    append(log, -1, now_ms=created + 6000)
    assert bases(log) == [0, 1]
    append(log, -1, now_ms=created + 6001)
    assert bases(log) == [0, 1, 3]


@pytest.mark.rule("R10.8")
@pytest.mark.parametrize(("segment_ms", "jitter_ms", "most"), [(1000, 300, 300), (100, 300, 100), (1000, 0, 0)])
async def test_jitter_takes_a_part_of_the_age_and_is_drawn_once_for_each_segment(
    segment_ms: int, jitter_ms: int, most: int
) -> None:
    node, _ = await log_with(LogConfig(segment_ms=segment_ms, segment_jitter_ms=jitter_ms))
    logs = [await node.log(tp=TopicPartition("t", number)) for number in range(30)]
    drawn = [log.segments.active.jitter_ms for log in logs]
    assert min(drawn) >= 0
    assert max(drawn) <= most
    assert len(set(drawn)) > 10 or most == 0
    for log, jitter in zip(logs, drawn, strict=True):
        append(log, 10_000, 10_000 + segment_ms - jitter)
        assert bases(log) == [0]
        append(log, 10_000 + segment_ms - jitter + 1)
        assert bases(log) == [0, 2]


@pytest.mark.rule("R10.8")
async def test_a_full_index_ends_a_segment() -> None:
    # The first batch of a segment has no entry. Of the offset index four fit, of the time index three, one of them
    # kept for the end of the segment; and in that one a timestamp has an entry only if it is larger than all before.
    _, log = await log_with(LogConfig(index_interval_bytes=0, segment_index_bytes=36))
    append(log, *[5] * 7)
    assert bases(log) == [0, 5]
    _, log = await log_with(LogConfig(index_interval_bytes=0, segment_index_bytes=36))
    append(log, *range(5, 12))
    assert bases(log) == [0, 3, 6]


@pytest.mark.rule("R10.8", "R10.7")
@pytest.mark.parametrize("gap", [(1 << 31) + 5, (1 << 32) + 5])
async def test_offsets_too_far_from_the_base_begin_a_segment(gap: int) -> None:
    node, log = await log_with(LogConfig(index_interval_bytes=0))
    for base in (0, 1, gap, gap + 1, gap + 2):
        log.append_as_follower(fetched(base), LeaderEpoch(0))
    found = [(base, base, 0) for base in (0, 1, gap, gap + 1, gap + 2)]
    assert (extents(log), log.log_end_offset) == (found, gap + 3)
    assert all(segment.next_offset - 1 - segment.base_offset <= 0x7FFF_FFFF for segment in log.segments)
    check_invariants(log)
    again = (await node.restart()).get(log.topic_partition)
    assert again is not None
    assert (extents(again), again.log_end_offset) == (found, gap + 3)
    assert again.read(Offset(2), 1, Offset(gap + 3), at_least_one=True) == fetched(gap)


@pytest.mark.rule("R10.8", "R10.7")
async def test_an_empty_segment_too_far_below_is_left_empty() -> None:
    _, log = await log_with(LogConfig())
    log.append_as_follower(fetched(1 << 32), LeaderEpoch(0))
    append(log, 5)
    assert extents(log) == [(1 << 32, 1 << 32, 0), ((1 << 32) + 1, (1 << 32) + 1, 0)]
    assert bases(log) == [0, 1 << 32]


@pytest.mark.rule("R10.9")
async def test_the_recovery_point_follows_a_roll_in_the_background() -> None:
    node, log = await log_with(LogConfig(segment_bytes=2 * SIZE))
    append(log, 5, 5)
    await node.logs.flush_due()  # Writes the first epoch.
    append(log, 5)
    assert (bases(log), log.recovery_point) == ([0, 2], 2)
    append(log, 5, 5)
    assert bases(log) == [0, 2, 4]
    await node.logs.flush_due()
    assert log.recovery_point >= 4
