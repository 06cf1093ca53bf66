"""Segments that Apache Kafka has compacted: between them offsets are missing, and nothing is damaged.

Kafka's cleaner keeps the end of a cleaning, not of each segment; klamm's keeps that, too, by which a lost end is found.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from broker_agent.log import checkpoints
from broker_agent.log.config import LogConfig
from broker_agent.log.epoch_history import EpochEntry
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import encode_with_records, parse_header
from cluster.model.broker import BrokerEpoch, LeaderEpoch, Offset
from tests.brokers.compacted_logs import SIZE_OF_HEADER, clean, keyed_batch, values
from tests.contract.log_worlds import TP, FileWorld, InMemoryWorld, Node, check_invariants

CONFIG = LogConfig(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=0)
SEGMENTS: Mapping[int, Mapping[int, tuple[str, int]]] = {
    0: {3: ("a", 1), 7: ("b", 1)},
    10: {},
    20: {25: ("c", 2)},
    30: {30: ("d", 3)},
}
"""Base offset of each segment -> offset of each record that is left -> its key and leader epoch. The end is at 31."""
LEFT = [(3, "a", "v"), (7, "b", "v"), (25, "c", "v"), (30, "d", "v")]
CLEANED_UP_TO = {TP: Offset(30)}
EPOCHS = (
    EpochEntry(LeaderEpoch(1), Offset(0)),
    EpochEntry(LeaderEpoch(2), Offset(19)),
    EpochEntry(LeaderEpoch(3), Offset(30)),
)


@pytest.fixture(params=["files", "memory"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    world = FileWorld() if request.param == "files" else InMemoryWorld()
    root = str(tmp_path) if request.param == "files" else "/disk"
    return Node(world, f"{root}/a", config=CONFIG)


def write_log_of_kafka(node: Node) -> None:
    """Write the segments, without indexes, and where the leader epochs began."""
    disk, [root] = node.world.new_disk(), node.paths
    disk.make_directory(f"{root}/{TP}")
    for base, records in SEGMENTS.items():
        file = disk.open_file(f"{root}/{TP}/{base:020}.log")
        for offset, (key, epoch) in records.items():
            batch = keyed_batch([(key, "v")], base_offset=offset, leader_epoch=epoch)
            header = parse_header(batch)
            file.append([encode_with_records(header, batch[SIZE_OF_HEADER:])])
        file.flusher()()
        file.close()

    checkpoints.write_atomically(disk, f"{root}/{TP}", checkpoints.LEADER_EPOCHS, checkpoints.encode_epochs(EPOCHS))


def checkpoint(node: Node, name: str, content: bytes) -> None:
    checkpoints.write_atomically(node.world.new_disk(), node.paths[0], name, content)


def check(node: Node) -> PartitionLog:
    log = node.logs.get(TP)
    assert log is not None
    assert values(log) == LEFT
    assert log.log_end_offset == 31
    assert log.epoch_entries == EPOCHS
    assert [replica for replica in node.logs.damaged_replicas if not replica.is_in_doubt] == []
    check_invariants(log)
    return log


@pytest.mark.rule("R9.15", "R10.32")
@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("recovery_point", [0, 12, 31])
@pytest.mark.parametrize("has_cleaner_offset", [False, True])
async def test_a_compacted_log_of_kafka_is_taken_over_with_its_gaps(
    node: Node, is_clean: bool, recovery_point: int, has_cleaner_offset: bool
) -> None:
    write_log_of_kafka(node)
    checkpoint(node, checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets({TP: Offset(recovery_point)}))
    checkpoint(node, checkpoints.HIGH_WATERMARKS, checkpoints.encode_offsets({TP: Offset(31)}))
    if has_cleaner_offset:
        checkpoint(node, checkpoints.CLEANER_OFFSETS, checkpoints.encode_offsets(CLEANED_UP_TO))
    if is_clean:
        checkpoint(node, checkpoints.CLEAN_MARKER, checkpoints.encode_clean_marker(BrokerEpoch(1)))
    await node.start()
    log = check(node)
    assert log.first_dirty_offset == (30 if has_cleaner_offset else 0)
    await node.logs.flush_due()
    await node.logs.write_recovery_points()
    for start in (node.crash_and_restart, node.restart):
        await start()
        log = check(node)
    log.set_high_watermark(log.log_end_offset)
    log.append_as_leader(keyed_batch([("a", "new")]), LeaderEpoch(4), 1)
    log._roll(log.log_end_offset)
    log.set_high_watermark(log.log_end_offset)
    assert await clean(node)
    assert values(log) == [*LEFT[1:], (31, "a", "new")]
    check_invariants(log)


@pytest.mark.rule("R9.15", "R10.32")
async def test_a_log_that_is_no_longer_compacted_keeps_the_gaps_of_its_cleanings(node: Node) -> None:
    node.config = replace(CONFIG, cleanup_policy="delete")
    write_log_of_kafka(node)
    checkpoint(node, checkpoints.CLEANER_OFFSETS, checkpoints.encode_offsets(CLEANED_UP_TO))
    checkpoint(node, checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets({TP: Offset(0)}))
    await node.start()
    check(node)
    await node.crash_and_restart()
    check(node)


@pytest.mark.rule("R9.15", "P8")
@pytest.mark.parametrize("policy", ["delete", "compact"])
async def test_a_gap_that_no_cleaning_has_made_is_a_loss(node: Node, policy: str) -> None:
    """Of a directory that was klamm's before: in one of Kafka's, a compacted log may have gaps anywhere."""
    node.config = replace(CONFIG, cleanup_policy=policy)
    await node.start()
    await node.stop()
    node.world.new_disk().remove_file(f"{node.paths[0]}/{checkpoints.CLEAN_MARKER}")
    node.world.crash()
    node.world.boot_id = "after a power failure"
    write_log_of_kafka(node)
    checkpoint(node, checkpoints.RECOVERY_POINTS, checkpoints.encode_offsets({TP: Offset(0)}))
    checkpoint(node, checkpoints.HIGH_WATERMARKS, checkpoints.encode_offsets({TP: Offset(31)}))
    await node.start()
    log = node.logs.get(TP)
    assert log is not None
    assert log.log_end_offset == 8
    assert [replica.damage.to_offset for replica in node.logs.damaged_replicas] == [31]


@pytest.mark.rule("R9.16", "R10.32")
@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("stored", [None, ((1, 0), (2, 26)), ((1, 0), (5, 22))])
async def test_epochs_that_cannot_be_right_are_made_again_and_begin_as_early_as_they_can(
    node: Node, is_clean: bool, stored: tuple[tuple[int, int], ...] | None
) -> None:
    """Where an epoch is said to begin too late, a follower keeps what it has of the one before."""
    write_log_of_kafka(node)
    disk, [root] = node.world.new_disk(), node.paths
    disk.remove_file(f"{root}/{TP}/{checkpoints.LEADER_EPOCHS}")
    if stored is not None:
        content = checkpoints.encode_epochs([EpochEntry(LeaderEpoch(epoch), Offset(at)) for epoch, at in stored])
        checkpoints.write_atomically(disk, f"{root}/{TP}", checkpoints.LEADER_EPOCHS, content)
    checkpoint(node, checkpoints.HIGH_WATERMARKS, checkpoints.encode_offsets({TP: Offset(31)}))
    if is_clean:
        checkpoint(node, checkpoints.CLEAN_MARKER, checkpoints.encode_clean_marker(BrokerEpoch(1)))
    await node.start()
    log = node.logs.get(TP)
    assert log is not None
    assert log.epoch_entries == ((1, 0), (2, 8), (3, 26))
    assert log.end_offset_for_epoch(LeaderEpoch(1)).end_offset == 8
    check_invariants(log)
