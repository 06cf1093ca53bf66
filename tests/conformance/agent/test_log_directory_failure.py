"""An I/O error takes one log directory offline for good, without affecting the others."""

import pytest

from broker_agent.log.config import LogConfig
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import LogAppendError, StartupError, StorageError
from cluster.model.partition import TopicPartition
from tests.contract.log_worlds import InMemoryWorld, Node, batch, fill

A, B = "/disk/a", "/disk/b"


@pytest.fixture
def world() -> InMemoryWorld:
    return InMemoryWorld()


@pytest.mark.rule("R11.1", "R11.5", "R10.5")
async def test_a_failed_append_fails_the_directory_and_no_other(world: InMemoryWorld) -> None:
    node = Node(world, A, B)
    await node.start()
    logs = [await node.log(tp=TopicPartition("t", number)) for number in range(4)]
    in_a, in_b = ([log for log in logs if log.directory == path] for path in (A, B))
    world.disk.break_directory(A)
    with pytest.raises(StorageError):
        fill(in_a[0], 0)
    assert [path for path, _ in node.failures] == [A]
    world.disk.mend_directory(A)
    for operation in (
        lambda: fill(in_a[0], 0),
        lambda: in_a[1].append_as_leader(batch(), LeaderEpoch(0), 1),
        lambda: in_a[1].read(Offset(0), 1, Offset(0), at_least_one=True),
        lambda: in_a[1].truncate_to(Offset(0)),
    ):
        with pytest.raises(StorageError):
            operation()
    for awaitable in (in_a[1].flush(), in_a[1].begin_leader_epoch(LeaderEpoch(1), Offset(0))):
        with pytest.raises(StorageError):
            await awaitable
    with pytest.raises(StorageError):
        await node.logs.write_high_watermarks(A, lambda: {})
    assert [path for path, _ in node.failures] == [A]
    assert node.logs.live_directories == (B,)
    assert set(node.logs.all_logs()) == {log.topic_partition for log in in_b}
    fill(in_b[0], 0)
    await in_b[0].flush()
    await node.logs.write_recovery_points()


@pytest.mark.rule("R11.6", "R3.14")
async def test_only_a_new_replica_may_be_created_while_a_directory_is_failed(world: InMemoryWorld) -> None:
    node = Node(world, A, B)
    await node.start()
    world.disk.break_directory(A)
    created = await node.log(tp=TopicPartition("t", 0))
    assert (created.directory, [path for path, _ in node.failures]) == (B, [A])
    with pytest.raises(StorageError):
        await node.logs.get_or_create(TopicPartition("t", 1), topic_id=None, is_new=False, config=LogConfig())
    assert (await node.log(tp=TopicPartition("t", 2))).directory == B


@pytest.mark.rule("R9.21", "R11.1")
async def test_a_failed_directory_gets_no_clean_marker(world: InMemoryWorld) -> None:
    node = Node(world, A, B)
    await node.start()
    for number in range(2):
        fill(await node.log(tp=TopicPartition("t", number)), 0)
    world.disk.break_directory(A)
    await node.stop()
    world.disk.mend_directory(A)
    assert world.disk.read_file(f"{A}/.kafka_cleanshutdown") is None
    assert world.disk.read_file(f"{B}/.kafka_cleanshutdown") is not None
    assert [path for path, _ in node.failures] == [A]


@pytest.mark.rule("R11.2", "R1.3")
async def test_a_directory_that_cannot_be_used_at_the_start_is_left_out(world: InMemoryWorld) -> None:
    node = Node(world, A, B)
    world.disk.break_directory(A)
    await node.start()
    assert node.logs.live_directories == (B,)
    world.disk.break_directory(B)
    with pytest.raises(StartupError, match="no log directory can be used"):
        await Node(world, A, B).start()
    with pytest.raises(StartupError, match="twice"):
        await Node(world, A, f"{A}/").start()


@pytest.mark.rule("R10.20")
async def test_the_log_start_rises_only_and_not_above_the_high_watermark(world: InMemoryWorld) -> None:
    node = Node(world, A)
    await node.start()
    log = await node.log()
    fill(log, 0, 1)
    log.set_high_watermark(Offset(15))
    assert log.raise_log_start_offset(Offset(12))
    assert not log.raise_log_start_offset(Offset(11))
    with pytest.raises(LogAppendError):
        log.raise_log_start_offset(Offset(16))
    assert (log.log_start_offset, log.epoch_entries) == (12, ((1, 12),))
