"""What creating many logs costs, in flushes and files, and what a power failure may leave of them. Times are not
looked at.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from broker_agent.log.checkpoints import PARTITION_METADATA, is_cut_partition_metadata
from broker_agent.log.epoch_journal import EPOCH_JOURNAL, FEW
from cluster.model.broker import LeaderEpoch, Offset, TopicId
from cluster.model.partition import TopicPartition
from simulator.disk import SimulatedDisk, SimulatedFile
from tests.brokers.agents import virtually
from tests.contract.log_worlds import InMemoryWorld, Node, TestClock, batch

COUNT = 60
TOPIC_ID = TopicId("bbbbbbbbbbbbbbbbbbbbbA")


class CountingDisk(SimulatedDisk):
    """Counts flushes of files and of directories, by the last part of the name."""

    def __init__(self, seed: int) -> None:
        super().__init__(TestClock(), Random(seed), latency_s=(0.01, 0.02))
        self.flushed: Counter[str] = Counter()
        self.opened: Counter[str] = Counter()
        self.listed: Counter[str] = Counter()

    def open_file(self, path: str) -> SimulatedFile:
        file = super().open_file(path)
        make, name = file.flusher, path.rpartition("/")[2]
        self.opened[name] += 1

        def flusher() -> Callable[[], None]:
            flush = make()

            def counted() -> None:
                self.flushed[name] += 1
                flush()

            return counted

        file.flusher = flusher  # type: ignore[method-assign]
        return file

    def list_directory(self, path: str) -> list[str]:
        self.listed[path] += 1
        return super().list_directory(path)

    def sync_directory(self, path: str) -> None:
        self.flushed["log directory" if path == "/data" else "directory of a partition"] += 1
        super().sync_directory(path)


async def node_on(disk: SimulatedDisk) -> Node:
    world = InMemoryWorld()
    world.disk = disk
    node = Node(world, "/data")
    await node.start()
    return node


async def create_all(node: Node, count: int = COUNT) -> None:
    tps = [TopicPartition("t", partition) for partition in range(count)]
    create = (node.logs.get_or_create(tp, topic_id=TOPIC_ID, is_new=True, config=node.config) for tp in tps)
    await asyncio.gather(*create)


@pytest.mark.rule("R9.3", "R11.6")
@virtually
async def test_logs_created_together_share_the_flush_of_their_names_and_need_no_other() -> None:
    disk = CountingDisk(1)
    node = await node_on(disk)
    disk.flushed.clear()
    await create_all(node)
    assert disk.flushed.keys() == {"log directory"}
    assert disk.flushed["log directory"] <= 3
    assert disk.list_directory("/data/t-0") == ["00000000000000000000.log", PARTITION_METADATA]


@pytest.mark.rule("R3.7a", "R9.3")
@virtually
async def test_a_few_leaders_flush_topic_id_and_epoch_with_one_flush_of_their_names() -> None:
    disk = CountingDisk(2)
    node = await node_on(disk)
    await create_all(node, FEW)
    disk.flushed.clear()
    for log in node.logs.all_logs().values():
        await log.begin_leader_epoch(LeaderEpoch(0), Offset(0))
    each = {"leader-epoch-checkpoint.tmp", PARTITION_METADATA, "directory of a partition"}
    assert disk.flushed == dict.fromkeys(each, FEW)


@pytest.mark.rule("R3.7a", "R9.3")
@virtually
async def test_many_leaders_share_the_flush_of_their_epochs_and_topic_ids() -> None:
    disk = CountingDisk(2)
    node = await node_on(disk)
    await create_all(node)
    disk.flushed.clear()
    logs = node.logs.all_logs().values()
    for epoch in range(3):
        await asyncio.gather(*(log.begin_leader_epoch(LeaderEpoch(epoch), Offset(0)) for log in logs))
    # The first one that comes is alone; the others wait for it.
    assert disk.flushed[EPOCH_JOURNAL] == 3
    assert disk.flushed.total() <= 3 + 3 * 3 + 1
    disk.flushed.clear()
    await node.logs.flush_due()
    assert not disk.flushed
    await node.stop()
    assert disk.flushed["leader-epoch-checkpoint.tmp"] == disk.flushed[PARTITION_METADATA] == 0


@pytest.mark.rule("R9.3", "R10.4")
@virtually
async def test_logs_that_stay_empty_are_not_flushed_by_time_nor_at_the_end() -> None:
    disk = CountingDisk(3)
    node = await node_on(disk)
    await create_all(node)
    disk.flushed.clear()
    await node.logs.flush_due()
    assert not disk.flushed
    await node.stop()
    assert PARTITION_METADATA not in disk.flushed
    assert disk.flushed["directory of a partition"] == 0
    await node.start()
    assert {log.topic_id for log in node.logs.all_logs().values()} == {TOPIC_ID}


@pytest.mark.rule("R9.21", "R10.4")
@virtually
async def test_logs_without_news_are_closed_without_a_file_and_loaded_with_one_look_at_their_directory() -> None:
    disk = CountingDisk(7)
    node = await node_on(disk)
    await create_all(node)
    logs = node.logs.all_logs().values()
    await asyncio.gather(*(log.begin_leader_epoch(LeaderEpoch(0), Offset(0)) for log in logs))
    for log in logs:
        await log.prepare_for_records()
        log.append_as_leader(batch(), LeaderEpoch(0), 1)
    await node.restart()
    assert disk.opened["00000000000000000001.snapshot"] == COUNT
    disk.opened.clear()
    disk.listed.clear()
    await node.restart()
    # Each file of theirs once, to load it, and what the directory has for all.
    assert {disk.opened.pop(f"00000000000000000000.{kind}") for kind in ("log", "index", "timeindex")} == {COUNT}
    assert disk.opened.total() < COUNT / 4
    assert disk.listed == {"/data": 1, **{f"/data/t-{partition}": 1 for partition in range(COUNT)}}


@pytest.mark.rule("R10.15")
@virtually
async def test_the_check_for_due_flushes_looks_at_the_used_logs_only() -> None:
    node = await node_on(CountingDisk(4))
    await create_all(node)
    directory = node.logs.directories["/data"]
    await node.logs.flush_due()
    assert not directory.used
    used = node.logs.all_logs()[TopicPartition("t", 7)]
    used.append_as_leader(batch(), LeaderEpoch(0), 1)
    assert [*directory.used] == [used]


@pytest.mark.rule("R9.3", "R9.19", "R10.4")
@pytest.mark.parametrize("seed", range(20))
def test_a_power_failure_takes_no_topic_id_from_a_log_with_an_epoch_or_records(seed: int) -> None:
    @virtually
    async def check() -> None:
        disk = CountingDisk(seed)
        node = await node_on(disk)
        await create_all(node, 3)
        empty, led, written = (node.logs.all_logs()[TopicPartition("t", partition)] for partition in range(3))
        await led.begin_leader_epoch(LeaderEpoch(2), Offset(0))
        await written.prepare_for_records()
        written.append_as_follower(batch(leader_epoch=1), LeaderEpoch(1))
        await node.crash_and_restart()
        assert not node.logs.unloadable
        loaded = [node.logs.all_logs()[log.topic_partition].topic_id for log in (empty, led, written)]
        assert loaded in ([TOPIC_ID] * 3, [None, TOPIC_ID, TOPIC_ID])

    check()


@pytest.mark.rule("R11.6")
@virtually
async def test_logs_whose_directory_failed_while_they_were_created_do_not_keep_the_broker_from_starting() -> None:
    disk = CountingDisk(6)
    world = InMemoryWorld()
    world.disk = disk
    node = Node(world, "/a", "/b")
    await node.start()
    creating = asyncio.gather(create_all(node))
    await asyncio.sleep(0.025)
    disk.break_directory("/a")
    await creating
    disk.mend_directory("/a")
    tps, used = [TopicPartition("t", partition) for partition in range(COUNT)], TopicPartition("t", 0)
    both = [tp for tp in tps if all(f"{tp}" in disk.list_directory(directory) for directory in ("/a", "/b"))]
    assert used in both
    node.logs.all_logs()[used].append_as_leader(batch(), LeaderEpoch(0), 1)
    await node.stop()
    await node.start()
    assert sorted(node.logs.all_logs()) == tps
    assert {log.topic_id for log in node.logs.all_logs().values()} == {TOPIC_ID}
    assert node.logs.all_logs()[used].log_end_offset == 1
    assert not [tp for tp in tps if all(f"{tp}" in disk.list_directory(directory) for directory in ("/a", "/b"))]


@pytest.mark.rule("R9.3", "R11.6")
@virtually
async def test_what_an_attempt_has_left_is_no_part_of_the_topic_id_of_the_next_one() -> None:
    disk = CountingDisk(5)
    node = await node_on(disk)
    disk.make_directory("/data/t-0")
    disk.open_file(f"/data/t-0/{PARTITION_METADATA}.tmp").append([b"version: 0"])
    await create_all(node, 1)
    await node.stop()
    await node.start()
    assert [log.topic_id for log in node.logs.all_logs().values()] == [TOPIC_ID]


@pytest.mark.parametrize(
    ("content", "is_cut"),
    [
        (b"", True),
        (b"vers", True),
        (b"version: 0\ntopic_id: ", True),
        (f"version: 0\ntopic_id: {TOPIC_ID[:-1]}".encode(), True),
        (bytes(43), True),
        (b"version: 0\n" + bytes(32), True),
        (f"version: 0\ntopic_id: {TOPIC_ID}".encode(), False),
        (b"garbage", False),
        (b"version: 1\ntopic_id: ", False),
        (bytes(512), False),
    ],
)
def test_garbage_is_not_taken_for_partition_metadata_that_a_power_failure_has_cut(content: bytes, is_cut: bool) -> None:
    assert is_cut_partition_metadata(content) is is_cut
