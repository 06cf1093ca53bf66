"""The promises of PartitionLog and LogDirectories, on files and on the simulated disk alike."""

import asyncio
from pathlib import Path

import pytest

from broker_agent.log.checkpoints import MetaProperties
from broker_agent.log.config import LogConfig
from broker_agent.log.record_batch import find_damage, walk
from cluster.model.broker import BrokerId, LeaderEpoch, Offset, TopicId
from cluster.model.errors import ErrorCode, LogAppendError, StartupError, StorageError
from cluster.model.partition import TopicPartition
from tests.contract.log_worlds import (
    OWNER,
    TP,
    FileWorld,
    InMemoryWorld,
    Node,
    batch,
    check_invariants,
    extents,
    fetched,
    fill,
)

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200)


@pytest.fixture(params=["files", "memory"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    world = FileWorld() if request.param == "files" else InMemoryWorld()
    root = str(tmp_path) if request.param == "files" else "/disk"
    return Node(world, f"{root}/a", f"{root}/b")


async def test_a_leader_stamps_offsets_and_its_epoch_and_nothing_else(node: Node) -> None:
    await node.start()
    log = await node.log()
    first = log.append_as_leader(batch(3), LeaderEpoch(4), 1)
    second = log.append_as_leader(batch(2), LeaderEpoch(4), 1)

    assert (first.first_offset, first.last_offset, second.first_offset, second.last_offset) == (0, 2, 3, 4)
    records = log.read(Offset(0), 10_000, log.log_end_offset, at_least_one=True)
    headers = [header for _, header in walk(records)]
    assert [(h.base_offset, h.leader_epoch, h.record_count) for h in headers] == [(0, 4, 3), (3, 4, 2)]
    for position, header in walk(records):
        assert find_damage(header, records[position : position + header.size]) is None
    assert records[16:161] == batch(3)[16:]
    check_invariants(log)


async def test_a_read_returns_whole_batches_from_the_containing_one_up_to_the_bound(node: Node) -> None:
    await node.start()
    log = await node.log(SMALL)
    fill(log, 0, 0, 0, 0)
    size = len(batch(10))

    def bases(start: int, max_bytes: int, bound: int, *, at_least_one: bool = False) -> list[int]:
        records = log.read(Offset(start), max_bytes, Offset(bound), at_least_one=at_least_one)
        return [header.base_offset for _, header in walk(records)]

    assert bases(0, 10_000, 40) == [0, 10, 20, 30]
    assert bases(15, 10_000, 40) == [10, 20, 30]
    assert bases(15, 10_000, 29) == [10]
    assert bases(15, 10_000, 15) == []
    assert bases(15, 2 * size + size // 2, 40) == [10, 20]
    assert bases(15, 5, 40) == []
    assert bases(15, 5, 40, at_least_one=True) == [10]
    assert bases(15, 5, 18, at_least_one=True) == []
    assert bases(40, 10_000, 99) == []
    for outside in (-1, 41):
        with pytest.raises(LogAppendError) as caught:
            log.read(Offset(outside), 1, Offset(40), at_least_one=True)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_reads_go_on_over_segments_one_segment_at_a_time(node: Node) -> None:
    await node.start()
    log = await node.log(SMALL)
    fill(log, *[0] * 30)
    seen, at = [], 0
    while at < log.log_end_offset:
        records = log.read(Offset(at), 10_000, log.log_end_offset, at_least_one=True)
        seen += [header.base_offset for _, header in walk(records)]
        at = seen[-1] + 10
    assert seen == list(range(0, 300, 10))
    assert log.bytes_between(Offset(0), Offset(20)) == 2 * len(batch(10))
    assert log.bytes_between(Offset(0), Offset(300)) is None


async def test_a_follower_keeps_the_bytes_it_was_given(node: Node) -> None:
    await node.start()
    log = await node.log()
    records = fetched(0, 5, epoch=2) + fetched(5, 5, epoch=3)
    appended = log.append_as_follower(records + fetched(10, 5, epoch=3)[:-1], LeaderEpoch(3))
    assert (appended.first_offset, appended.last_offset, appended.last_leader_epoch) == (0, 9, 3)
    assert appended.valid_bytes == len(records)
    assert log.read(Offset(0), 10_000, Offset(10), at_least_one=True) == records
    assert [(e.epoch, e.start_offset) for e in log.epoch_entries] == [(2, 0), (3, 5)]


async def test_a_follower_does_not_append_above_its_own_epoch(node: Node) -> None:
    await node.start()
    log = await node.log()
    appended = log.append_as_follower(fetched(0, epoch=2) + fetched(1, epoch=5), LeaderEpoch(4))
    assert (appended.last_offset, log.log_end_offset, log.latest_epoch) == (0, 1, 2)
    assert log.append_as_follower(fetched(1, epoch=5), LeaderEpoch(4)).valid_bytes == 0


async def test_truncation_removes_whole_batches_and_the_epochs_behind_it(node: Node) -> None:
    await node.start()
    log = await node.log(SMALL)
    fill(log, *[1] * 10, *[2] * 10, *[4] * 10)
    log.set_high_watermark(Offset(250))
    assert log.truncate_to(Offset(150))
    assert (log.log_end_offset, log.high_watermark, log.latest_epoch) == (150, 150, 2)
    assert extents(log)[-1] == (140, 149, 2)
    log.append_as_follower(fetched(150, 10, epoch=5), LeaderEpoch(5))
    check_invariants(log)
    assert not log.truncate_to(Offset(170))
    log.truncate_fully_and_start_at(Offset(1000))
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (1000, 1000, 1000)
    assert log.epoch_entries == ()
    fill(log, 6)
    check_invariants(log)


async def test_a_clean_restart_keeps_everything(node: Node) -> None:
    await node.start()
    log = await node.logs.get_or_create(TP, topic_id=TopicId("i" * 22), is_new=True, config=SMALL)
    fill(log, *[1] * 10, *[3] * 5)
    log.append_as_leader(batch(2, producer_id=9, producer_epoch=0, base_sequence=0), LeaderEpoch(3), 1)
    log.set_high_watermark(Offset(150))
    log.raise_log_start_offset(Offset(35))
    before = extents(log)
    found = (await node.restart()).get(TP)
    assert found is not None
    assert extents(found) == before
    assert (found.log_start_offset, found.log_end_offset, found.recovery_point) == (35, 152, 152)
    assert found.high_watermark == 35
    assert (found.topic_id, found.latest_epoch) == ("i" * 22, 3)
    again = batch(2, producer_id=9, producer_epoch=0, base_sequence=0)
    assert found.append_as_leader(again, LeaderEpoch(3), 1).duplicate
    check_invariants(found)


async def test_what_was_flushed_survives_a_crash(node: Node) -> None:
    await node.start()
    log = await node.log(SMALL)
    fill(log, *[1] * 10, *[3] * 5)
    await log.flush()
    assert log.recovery_point == 150
    await node.logs.write_recovery_points()
    fill(log, 3, 4)
    found = (await node.crash_and_restart()).get(TP)
    assert found is not None
    assert 150 <= found.log_end_offset <= 170
    assert extents(found)[:15] == [(i * 10, i * 10 + 9, 1 if i < 10 else 3) for i in range(15)]
    check_invariants(found)


async def test_a_begun_leader_epoch_is_on_disk_when_begin_returns(node: Node) -> None:
    await node.start()
    log = await node.log()
    await log.begin_leader_epoch(LeaderEpoch(7), Offset(0))
    content = node.world.new_disk().read_file(f"{log.path}/leader-epoch-checkpoint")
    assert content == b"0\n1\n7 0\n"


async def test_high_watermarks_are_read_back_as_they_were_written(node: Node) -> None:
    await node.start()
    offsets = {TopicPartition("b", 1): Offset(4), TopicPartition("a-b", 10): Offset(0)}
    await node.logs.write_high_watermarks(node.paths[0], lambda: offsets)
    assert await node.logs.read_high_watermarks(node.paths[0]) == offsets
    assert await node.logs.read_high_watermarks(node.paths[1]) == {}


@pytest.mark.rule("R9.9", "R10.16")
async def test_a_log_created_anew_does_not_inherit_the_high_watermark_of_the_deleted_one(node: Node) -> None:
    await node.start()
    log = await node.log()
    other = TopicPartition("u", 0)
    await node.logs.write_high_watermarks(log.directory, lambda: {TP: Offset(800), other: Offset(3)})
    await node.logs.delete([TP])
    assert await node.logs.read_high_watermarks(log.directory) == {other: 3}


@pytest.mark.rule("R9.1")
async def test_each_offset_checkpoint_is_written_for_itself(node: Node) -> None:
    await node.start()
    log = await node.log()
    fill(log, 0, 0)
    log.set_high_watermark(Offset(20))
    log.raise_log_start_offset(Offset(7))
    disk, line = node.world.new_disk(), f"{TP.topic} {TP.partition}"
    await node.logs.write_log_start_offsets()
    assert disk.read_file(f"{log.directory}/log-start-offset-checkpoint") == f"0\n1\n{line} 7\n".encode()
    assert disk.read_file(f"{log.directory}/recovery-point-offset-checkpoint") is None
    await log.flush()
    await node.logs.write_recovery_points()
    assert disk.read_file(f"{log.directory}/recovery-point-offset-checkpoint") == f"0\n1\n{line} 20\n".encode()


@pytest.mark.rule("R9.10", "R9.11")
async def test_epochs_that_a_follower_learns_are_on_disk_at_the_next_flush(node: Node) -> None:
    await node.start()
    log = await node.log()
    for at, epoch in ((0, 2), (10, 2), (20, 5)):
        log.append_as_follower(fetched(at, 10, epoch=epoch), LeaderEpoch(5))
    await node.logs.flush_due()
    content = node.world.new_disk().read_file(f"{log.path}/leader-epoch-checkpoint")
    assert content == b"0\n2\n2 0\n5 20\n"
    log.truncate_to(Offset(15))
    await node.logs.flush_due()
    content = node.world.new_disk().read_file(f"{log.path}/leader-epoch-checkpoint")
    assert content == b"0\n1\n2 0\n"


async def test_new_logs_go_to_the_emptiest_directory(node: Node) -> None:
    await node.start()
    logs = [await node.log(tp=TopicPartition("t", number)) for number in range(6)]
    assert sorted(log.directory for log in logs) == [node.paths[0]] * 3 + [node.paths[1]] * 3


async def test_a_deleted_log_is_gone_at_once_and_can_be_created_anew(node: Node) -> None:
    await node.start()
    log = await node.log()
    fill(log, 0)
    assert await node.logs.delete([TP, TopicPartition("unknown", 0)]) == {}
    assert node.logs.get(TP) is None
    with pytest.raises(StorageError):
        log.read(Offset(0), 1, Offset(1), at_least_one=True)
    assert (await node.log()).log_end_offset == 0
    assert not node.failures


async def test_deleting_while_epochs_are_written_is_no_failure_of_the_directory(node: Node) -> None:
    await node.start()
    logs = [await node.log(tp=TopicPartition("t", number)) for number in range(5)]
    writes = [log.begin_leader_epoch(LeaderEpoch(epoch), Offset(0)) for log in logs for epoch in (1, 2, 3)]
    deletions = [node.logs.delete([log.topic_partition]) for log in logs for _ in range(2)]
    await asyncio.gather(*writes, *deletions, return_exceptions=True)
    assert not node.failures
    assert not node.logs.all_logs()


async def test_a_log_of_another_topic_id_is_refused(node: Node) -> None:
    await node.start()
    log = await node.log()
    log.set_topic_id(TopicId("a" * 22))
    fill(log, 0)
    await node.restart()
    with pytest.raises(LogAppendError) as caught:
        await node.logs.get_or_create(TP, topic_id=TopicId("b" * 22), is_new=False, config=SMALL)
    assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


@pytest.mark.parametrize(
    ("owner", "named"),
    [
        (MetaProperties(BrokerId(2), OWNER.cluster_id), ["broker.id=1", "expected 2"]),
        (MetaProperties(OWNER.broker_id, "other"), [f"cluster.id={OWNER.cluster_id}", "expected other"]),
    ],
)
async def test_a_directory_of_somebody_else_is_refused(node: Node, owner: MetaProperties, named: list[str]) -> None:
    await node.start()
    await node.stop()
    with pytest.raises(StartupError) as caught:
        await node.start(owner)
    assert all(part in str(caught.value) for part in [node.paths[0], *named])


async def test_a_directory_in_use_is_refused(node: Node) -> None:
    await node.start()
    with pytest.raises(StartupError, match="used by another process"):
        await Node(node.world, *node.paths).start()


async def test_one_partition_in_two_directories_is_refused(node: Node) -> None:
    await node.start()
    log = await node.log()
    fill(log, 1)
    await node.stop()
    other = next(path for path in node.paths if path != log.directory)
    disk, batches = node.world.new_disk(), f"{TP}/{0:020d}.log"
    disk.make_directory(f"{other}/{TP}")
    disk.open_file(f"{other}/{batches}").append([disk.read_file(f"{log.directory}/{batches}") or b""])
    with pytest.raises(StartupError, match="in two places"):
        await node.start()


@pytest.mark.rule("R9.14", "BD-4")
async def test_a_directory_with_a_foreign_name_in_it_is_left_alone(node: Node) -> None:
    await node.start()
    await node.stop()
    disk = node.world.new_disk()
    disk.make_directory(f"{node.paths[1]}/photos")
    await node.start()
    assert node.logs.unacceptable_names == {node.paths[1]: ("photos",)}
    assert disk.is_directory(f"{node.paths[1]}/photos")
    await node.stop()


@pytest.mark.rule("R10.18")
async def test_retention_deletes_old_segments_and_the_files_go_later(node: Node) -> None:
    await node.start()
    config = LogConfig(segment_bytes=1000, retention_ms=1000, file_delete_delay_ms=0)
    log = await node.log(config)
    for number in range(20):
        log.append_as_leader(batch(10, timestamp=number * 100), LeaderEpoch(0), 1)
    log.set_high_watermark(Offset(200))
    await node.logs.enforce_retention(1950)
    assert 0 < log.log_start_offset <= 100
    assert extents(log)[0][0] == log.log_start_offset
    check_invariants(log)
    await node.logs.remove_deleted()
    assert not [n for n in node.world.new_disk().list_directory(log.path) if n.endswith(".deleted")]
    await node.logs.enforce_retention(1_000_000)
    assert log.log_start_offset == log.log_end_offset == 200
    fill(log, 0)
    check_invariants(log)
