"""The promises of the log cleaner, on files and on the simulated disk alike."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from broker_agent.log.checkpoints import CLEANER_OFFSETS, decode_offsets
from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import parse_header
from broker_agent.log.time_search import first_batch_at, newest_batches
from cluster.metrics.registry import Metrics
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.compression import CompressionCodec
from cluster.model.partition import TopicPartition
from tests.brokers.compacted_logs import (
    append,
    clean,
    cleaner_of,
    copy_to,
    keyed_batch,
    marker_batch,
    roll,
    sizes_are_sound,
    stored_headers,
    values,
)
from tests.contract.log_worlds import TP, FileWorld, InMemoryWorld, Node, check_invariants

CONFIG = LogConfig(
    cleanup_policy="compact",
    segment_bytes=2000,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
    file_delete_delay_ms=0,
)


@pytest.fixture(params=["files", "memory"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    world = FileWorld() if request.param == "files" else InMemoryWorld()
    root = str(tmp_path) if request.param == "files" else "/disk"
    return Node(world, f"{root}/a", config=CONFIG)


async def log_of(node: Node, *segments: Sequence[tuple[str, str | None]], config: LogConfig = CONFIG) -> PartitionLog:
    """A log with one segment of one batch for each sequence of records, and an empty active one."""
    await node.start()
    log = await node.log(config)
    for records in segments:
        append(log, keyed_batch(records))
        roll(log)
    return log


def files_of(node: Node, log: PartitionLog) -> set[str]:
    return set(node.logs.disk.list_directory(log.path))


@pytest.mark.rule("R10.21", "R10.24", "R10.28")
async def test_the_last_value_of_each_key_stays_and_segments_become_one(node: Node) -> None:
    log = await log_of(node, [("a", "1"), ("b", "1")], [("a", "2"), ("c", "1")], [("b", "2")])
    assert await clean(node)
    assert values(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2")]
    assert [segment.base_offset for segment in log.segments] == [0, 5]
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 5, 5)
    check_invariants(log)
    sizes_are_sound(log)
    assert not await clean(node), "nothing is dirty any more"
    await node.logs.remove_deleted()
    assert not [name for name in files_of(node, log) if name.endswith((".deleted", ".cleaned", ".swap"))]
    assert {name for name in files_of(node, log) if name.endswith(".log")} == {f"{base:020}.log" for base in (0, 5)}


@pytest.mark.rule("R10.32")
async def test_a_fetch_from_an_offset_in_a_gap_gets_the_next_batch(node: Node) -> None:
    log = await log_of(node, [("a", "1")], [("b", "1")], [("a", "2")])
    await clean(node)
    for start, expected in ((0, 1), (1, 1), (2, 2)):
        data = log.read(Offset(start), 10_000, log.log_end_offset, at_least_one=True)
        assert int.from_bytes(data[:8], "big") == expected
    assert log.bytes_between(Offset(0), Offset(3)) is not None


@pytest.mark.rule("R10.22", "R10.29")
async def test_what_was_appended_since_is_cleaned_with_what_was_clean(node: Node) -> None:
    log = await log_of(node, [("a", "1"), ("b", "1")])
    await clean(node)
    assert log.first_dirty_offset == 2
    append(log, keyed_batch([("a", "2")]))
    assert not await clean(node), "the active segment is not cleaned"
    roll(log)
    assert await clean(node)
    assert values(log) == [(1, "b", "1"), (2, "a", "2")]
    assert log.first_dirty_offset == 3


@pytest.mark.rule("R10.29")
async def test_a_restart_goes_on_where_the_last_cleaning_ended(node: Node) -> None:
    log = await log_of(node, [("a", "1"), ("b", "1")], [("a", "2")])
    await clean(node)
    content = node.logs.disk.read_file(f"{log.directory}/{CLEANER_OFFSETS}")
    assert content == b"0\n1\norders-eu 3 3\n"
    assert decode_offsets(content) == {TP: 3}
    before = values(log)
    await node.restart()
    found = node.logs.get(TP)
    assert found is not None
    assert found.first_dirty_offset == 3
    assert values(found) == before
    assert node.logs.damaged_replicas == ()
    found.set_high_watermark(found.log_end_offset)
    assert not await clean(node)
    await node.crash_and_restart()
    found = node.logs.get(TP)
    assert found is not None
    assert values(found) == before
    assert [replica for replica in node.logs.damaged_replicas if not replica.is_in_doubt] == []


@pytest.mark.rule("R10.29")
async def test_a_malformed_checkpoint_lets_all_be_cleaned_again(node: Node) -> None:
    log = await log_of(node, [("a", "1"), ("b", "1")], [("a", "2")])
    await clean(node)
    await node.stop()
    file = node.logs.disk.open_file(f"{log.directory}/{CLEANER_OFFSETS}")
    file.append([b"and more\n"])
    file.close()
    await node.start()
    found = node.logs.get(TP)
    assert found is not None
    assert found.first_dirty_offset == 0
    found.set_high_watermark(found.log_end_offset)
    assert await clean(node)
    assert values(found) == [(1, "b", "1"), (2, "a", "2")]


@pytest.mark.rule("R10.29")
async def test_a_deleted_log_leaves_no_offset_to_its_successor(node: Node) -> None:
    log = await log_of(node, [("a", "1")], [("a", "2")])
    await clean(node)
    await node.logs.delete([TP])
    assert node.logs.disk.read_file(f"{log.directory}/{CLEANER_OFFSETS}") == b"0\n0\n"
    assert (await node.log()).first_dirty_offset == 0


@pytest.mark.rule("R10.25")
async def test_a_tombstone_is_kept_for_its_time_after_the_first_cleaning(node: Node) -> None:
    log = await log_of(node, [("a", "1"), ("b", "1")], [("a", None)])
    await clean(node)
    assert values(log) == [(1, "b", "1"), (2, "a", None)]
    node.clock.at_ms += 999
    append(log, keyed_batch([("c", "1")]))
    roll(log)
    assert await clean(node)
    assert values(log) == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    node.clock.at_ms += 1
    append(log, keyed_batch([("d", "1")]))
    roll(log)
    assert await clean(node)
    assert values(log) == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1")]


@pytest.mark.rule("R10.22")
async def test_nothing_at_or_above_the_high_watermark_is_cleaned(node: Node) -> None:
    log = await log_of(node, [("a", "1")], [("a", "2")], [("a", "3")])
    log.set_high_watermark(Offset(2))
    assert await clean(node)
    assert values(log) == [(1, "a", "2"), (2, "a", "3")]
    log.set_high_watermark(Offset(3))
    assert await clean(node)
    assert values(log) == [(2, "a", "3")]


@pytest.mark.rule("R10.22")
async def test_a_log_that_is_not_dirty_enough_or_not_compacted_is_left_alone(node: Node) -> None:
    log = await log_of(node, [("a", "1")], [("a", "2")])
    for config in (replace(CONFIG, min_cleanable_dirty_ratio=1.0), replace(CONFIG, cleanup_policy="delete")):
        log.config = config
        assert not await clean(node)
    # The policy may change while the log is open.
    log.config = replace(CONFIG, cleanup_policy="compact,delete")
    assert await clean(node)
    assert values(log) == [(1, "a", "2")]


@pytest.mark.rule("R10.22")
async def test_a_compacted_log_rolls_in_time_for_its_maximal_lag(node: Node) -> None:
    config = replace(CONFIG, max_compaction_lag_ms=100, min_cleanable_dirty_ratio=1.0)
    await node.start()
    log = await node.log(config)
    append(log, keyed_batch([("a", "1")], timestamp=1000), keyed_batch([("a", "2")], timestamp=1100))
    assert len(log.segments) == 1
    append(log, keyed_batch([("a", "3")], timestamp=1101))
    assert len(log.segments) == 2
    assert await clean(node), "its records are overdue, whatever their share"
    assert values(log) == [(1, "a", "2"), (2, "a", "3")]


@pytest.mark.rule("R10.23")
async def test_what_does_not_fit_into_the_memory_for_keys_is_left_for_the_next_round(node: Node) -> None:
    keys = [f"a-key-longer-than-its-digest-{number}" for number in range(8000)]
    config = replace(CONFIG, segment_bytes=1 << 20)
    await node.start()
    log = await node.log(config)
    for value in ("1", "2"):
        for start in range(0, len(keys), 1000):
            append(log, keyed_batch([(key, value) for key in keys[start : start + 1000]]))
    roll(log)
    metrics = Metrics()
    cleaner = cleaner_of(node, metrics, log_cleaner_dedupe_buffer_size=1 << 20)
    assert await cleaner.clean_dirtiest()
    capacity = int((1 << 20) * 0.9 / 200)
    assert log.first_dirty_offset == capacity
    assert len(values(log)) == 16000, "nothing can go yet: the newer values are beyond the map"
    rounds = 1
    while await cleaner.clean_dirtiest():
        rounds += 1
    assert rounds == 4
    found = values(log)
    assert [(key, value) for _, key, value in found] == [(key, "2") for key in keys]
    check_invariants(log)


@pytest.mark.rule("R10.26", "R10.32")
async def test_producers_go_on_with_their_sequences(node: Node) -> None:
    await node.start()
    log = await node.log()
    for producer in (7, 8):
        for sequence in range(3):
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            append(log, keyed_batch([("a", str(sequence))], **fields))
    append(log, keyed_batch([("a", "last")]))
    roll(log)
    append(log, keyed_batch([("b", "1")]))
    await clean(node)
    assert values(log) == [(6, "a", "last"), (7, "b", "1")]
    emptied = [(h.producer_id, h.base_sequence, h.last_offset) for h in stored_headers(log) if h.record_count == 0]
    assert emptied == [(7, 2, 2), (8, 2, 5)]
    await node.crash_and_restart()
    found = node.logs.get(TP)
    assert found is not None
    for path in node.logs.disk.list_directory(found.path):
        assert not path.endswith(".swap")
    for producer in (7, 8):
        fields = {"producer_id": producer, "producer_epoch": 0}
        again = found.append_as_leader(keyed_batch([("a", "2")], base_sequence=2, **fields), LeaderEpoch(0), 1)
        assert again.duplicate
        assert not found.append_as_leader(
            keyed_batch([("a", "3")], base_sequence=3, **fields), LeaderEpoch(0), 1
        ).duplicate


@pytest.mark.rule("R10.32")
async def test_leader_epochs_begin_where_they_began_although_their_first_records_are_gone(node: Node) -> None:
    await node.start()
    log = await node.log()
    for epoch, key in ((1, "a"), (1, "b"), (2, "a"), (2, "b"), (4, "c"), (5, "b")):
        if log.latest_epoch != epoch:
            await log.begin_leader_epoch(LeaderEpoch(epoch), log.log_end_offset)
        append(log, keyed_batch([(key, "v")]), epoch=epoch)
        roll(log)
    append(log, keyed_batch([("z", "v")]), epoch=5)
    entries = log.epoch_entries
    assert entries == ((1, 0), (2, 2), (4, 4), (5, 5))
    await clean(node)
    # Nothing is left of epoch 1.
    assert [h.leader_epoch for h in stored_headers(log)] == [2, 4, 5, 5]
    assert log.epoch_entries == entries
    assert log.end_offset_for_epoch(LeaderEpoch(1)).end_offset == 2
    for start in (node.restart, node.crash_and_restart):
        await start()
        found = node.logs.get(TP)
        assert found is not None
        assert found.epoch_entries == entries
        check_invariants(found)


@pytest.mark.rule("R10.32", "R10.19")
async def test_a_new_follower_copies_a_compacted_log_over_its_gaps_and_cleans_on_its_own(node: Node) -> None:
    await node.start()
    leader = await node.log()
    for number in range(12):
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 2 * number}
        append(leader, keyed_batch([(f"k{number % 3}", str(number)), ("x", str(number))], **fields), epoch=number // 4)
        if number % 4 == 3:
            roll(leader)
    append(leader, keyed_batch([("k0", "newest")]), epoch=3)
    await clean(node)
    roll(leader)
    follower = await node.logs.get_or_create(
        TopicPartition("copied", 0), topic_id=None, is_new=True, config=replace(CONFIG, cleanup_policy="delete")
    )
    while follower.log_end_offset < leader.log_end_offset:
        data = leader.read(follower.log_end_offset, 200, leader.log_end_offset, at_least_one=True)
        follower.append_as_follower(data, LeaderEpoch(3))
    follower.set_high_watermark(leader.high_watermark)
    assert values(follower) == values(leader)
    assert stored_headers(follower) == stored_headers(leader)
    check_invariants(follower)
    again = follower.append_as_leader(
        keyed_batch([("k2", "11"), ("x", "11")], producer_id=7, producer_epoch=0, base_sequence=22), LeaderEpoch(3), 1
    )
    assert again.duplicate
    roll(follower)
    follower.config = CONFIG
    leader.config = replace(CONFIG, cleanup_policy="delete")
    assert await clean(node)
    assert [key for _, key, _ in values(follower)] == ["k1", "k2", "x", "k0"]
    assert len(values(leader)) == 5


@pytest.mark.rule("R10.27")
async def test_aborted_records_go_and_markers_stay_until_their_transactions_are_gone(node: Node) -> None:
    await node.start()
    log = await node.log()

    def of(producer: int, sequence: int) -> dict[str, int]:
        return {"attributes": 0x10, "producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}

    copy_to(
        log,
        keyed_batch([("a", "committed")], **of(7, 0)),
        keyed_batch([("a", "aborted"), ("b", "aborted")], **of(8, 0)),
        marker_batch(7, commits=True),
        marker_batch(8, commits=False),
        keyed_batch([("c", "1")], **of(7, 1)),
    )
    roll(log)
    # The marker of what is cleaned comes later.
    copy_to(log, marker_batch(7, commits=False), keyed_batch([("d", "1")]))
    log.expire_producers(10**9, 0)
    await clean(node)
    assert values(log) == [(0, "a", "committed"), (7, "d", "1")]
    kept = [(h.base_offset, h.is_control, h.record_count) for h in stored_headers(log)]
    assert kept == [(0, False, 1), (3, True, 1), (4, True, 1), (5, False, 0), (6, True, 1), (7, False, 1)]
    roll(log)
    append(log, keyed_batch([("a", "new")]))
    roll(log)
    await clean(node)
    markers = []
    for key in ("e", "f"):
        node.clock.at_ms += 1000
        append(log, keyed_batch([(key, "1")]))
        roll(log)
        await clean(node)
        markers.append([h.base_offset for h in stored_headers(log) if h.is_control])
    # That of 8 had outlived its transaction one cleaning before those of 7.
    assert markers == [[3, 6], []]
    assert values(log) == [(7, "d", "1"), (8, "a", "new"), (9, "e", "1"), (10, "f", "1")]


@pytest.mark.rule("R10.24")
async def test_no_cleaned_segment_exceeds_the_size_of_a_segment_even_if_batches_grow(node: Node) -> None:
    # Tombstones get a horizon, to which their timestamps are relative then: each takes several bytes more.
    records = [(f"{number:04}", None) for number in range(60)]
    log = await log_of(node, records[:20], records[20:40], records[40:], config=replace(CONFIG, segment_bytes=900))
    sizes = [segment.size for segment in log.segments]
    await clean(node)
    assert values(log) == [(number, key, None) for number, (key, _) in enumerate(records)]
    assert log.segments.size > sum(sizes)
    assert all(segment.size <= 900 for segment in log.segments)
    assert len(log.segments) > 2
    check_invariants(log)
    await node.restart()
    found = node.logs.get(TP)
    assert found is not None
    assert len(values(found)) == 60
    assert node.logs.damaged_replicas == ()


@pytest.mark.rule("R10.21")
@pytest.mark.parametrize("codec", list(CompressionCodec))
async def test_batches_of_every_codec_are_cleaned_and_stay_compressed(node: Node, codec: CompressionCodec) -> None:
    await node.start()
    log = await node.log()
    append(log, keyed_batch([(f"k{n % 10}", f"value {n}" * 3) for n in range(40)], codec=codec))
    roll(log)
    await clean(node)
    assert values(log) == [(n, f"k{n % 10}", f"value {n}" * 3) for n in range(30, 40)]
    assert [h.attributes for h in stored_headers(log)] == [codec]
    sizes_are_sound(log)


@pytest.mark.rule("R10.32")
async def test_a_search_by_time_does_not_stop_at_a_batch_without_records(node: Node) -> None:
    await node.start()
    log = await node.log()
    append(log, keyed_batch([("a", "1")], timestamp=5000, producer_id=7, producer_epoch=0, base_sequence=0))
    append(log, keyed_batch([("a", "2")], timestamp=6000))
    roll(log)
    await clean(node)
    batch = await first_batch_at(log, 4000, Offset(0))
    assert batch is not None
    assert parse_header(batch).base_offset == 1


@pytest.mark.rule("R10.32")
async def test_the_newest_record_is_none_that_is_gone(node: Node) -> None:
    await node.start()
    log = await node.log()
    append(log, keyed_batch([("a", "1")], timestamp=9000, producer_id=7, producer_epoch=0, base_sequence=0))
    append(log, keyed_batch([("b", "1")], timestamp=5000), keyed_batch([("a", "2")], timestamp=6000))
    roll(log)
    await clean(node)
    assert [parse_header(batch).base_offset for batch in await newest_batches(log)] == [2]


@pytest.mark.rule("R10.17", "R10.22")
async def test_a_log_with_both_policies_also_loses_old_segments(node: Node) -> None:
    config = replace(CONFIG, cleanup_policy="compact,delete", retention_ms=100)
    log = await log_of(node, [("a", "1"), ("b", "1")], [("a", "2")], config=config)
    await clean(node)
    assert values(log) == [(1, "b", "1"), (2, "a", "2")]
    node.clock.at_ms = 1_000_000
    assert log.enforce_retention(1_000_000) == 1
    assert values(log) == []
    append(log, keyed_batch([("a", "3")]))
    roll(log)
    append(log, keyed_batch([("a", "4")]))
    roll(log)
    assert await clean(node)
    assert values(log) == [(4, "a", "4")]


@pytest.mark.rule("R10.24")
async def test_a_cleaned_segment_is_as_old_as_the_ones_it_replaces(node: Node) -> None:
    log = await log_of(node, [("a", "1")], [("a", "2")])
    for segment in log.segments:
        segment.set_modified(123_456)
    await clean(node)
    assert log.segments.first.modified_ms == 123_456


def test_a_file_keeps_the_time_it_is_given(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    disk = FileWorld().new_disk()
    disk.open_file(path).close()
    disk.set_modified(path, 1_234_567)
    assert disk.modified_ms(path) == 1_234_567
    assert os.stat(path).st_mtime_ns == 1_234_567_000_000
