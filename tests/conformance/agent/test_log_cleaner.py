"""The log cleaner among several logs: whom it cleans first, what it says of those it cannot clean, and its limits."""

import asyncio
import sys
from collections.abc import Callable
from types import FrameType

import pytest
from msgspec.structs import replace

from broker_agent.decisions.compaction import measure_dirt
from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.segment import PlacedBatch
from cluster.metrics.registry import Metrics
from cluster.model.broker import Offset
from cluster.model.partition import TopicPartition
from simulator.virtual_time_loop import VirtualTimeLoop
from tests.brokers.compacted_logs import append, cleaner_of, keyed_batch, roll, values
from tests.conformance.agent.test_metrics import scrape
from tests.contract.log_worlds import InMemoryWorld, Node, TestClock

CONFIG = LogConfig(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=0)
FIRST, SECOND = TopicPartition("first", 0), TopicPartition("second", 0)
UNCLEANABLE = 'kafka_log_logcleanermanager_uncleanable_partitions_count{logDirectory="/disk/a"}'


async def log_of(node: Node, tp: TopicPartition, *dirty: str, clean: int = 0) -> PartitionLog:
    """A log with `clean` records that were cleaned, then segments with these values of one key."""
    log = await node.log(CONFIG, tp)
    if clean:
        append(log, keyed_batch([(f"key {number}", "v" * 10) for number in range(clean)]))
        roll(log)
        log.first_dirty_offset = log.log_end_offset
    for value in dirty:
        append(log, keyed_batch([("a", value)]))
        roll(log)
    return log


def flip(node: Node, log: PartitionLog) -> None:
    """Damage the first sealed segment."""
    assert isinstance(node.world, InMemoryWorld)
    node.world.disk.flip_byte(log.segments.first.path, 0.9)


@pytest.fixture
def node() -> Node:
    return Node(InMemoryWorld(), "/disk/a", "/disk/b", config=CONFIG)


@pytest.mark.rule("R10.22")
async def test_the_dirtiest_log_is_cleaned_first(node: Node) -> None:
    await node.start()
    little = await log_of(node, FIRST, "1", "2", clean=50)
    much = await log_of(node, SECOND, "1", "2", clean=5)
    metrics = Metrics()
    cleaner = cleaner_of(node, metrics)
    assert await cleaner.clean_dirtiest()
    assert (little.first_dirty_offset, much.first_dirty_offset) == (50, 7)
    assert 40 < scrape(metrics)["kafka_log_logcleanermanager_max_dirty_percent"] < 60
    assert await cleaner.clean_dirtiest()
    assert little.first_dirty_offset == 52
    assert not await cleaner.clean_dirtiest()
    found = scrape(metrics)
    assert 0 < found["kafka_log_logcleaner_cleaner_recopy_percent"] < 100
    assert found["kafka_log_logcleanermanager_max_dirty_percent"] == 0


@pytest.mark.rule("R10.31")
async def test_a_log_that_cannot_be_cleaned_is_named_and_left_out_and_the_others_are_cleaned(node: Node) -> None:
    await node.start()
    damaged = await log_of(node, FIRST, "1", "2", "3")
    sound = await log_of(node, SECOND, "1", "2", clean=5)
    flip(node, damaged)
    metrics = Metrics()
    cleaner = cleaner_of(node, metrics)
    assert not await cleaner.clean_dirtiest()
    [finding] = cleaner.findings()
    assert (finding.kind, finding.topic, finding.partition, finding.broker) == ("uncleanable_partition", "first", 0, 1)
    assert f"{damaged.segments.first.path} at byte 0: checksum is" in finding.detail
    assert scrape(metrics)[UNCLEANABLE] == 1
    assert scrape(metrics)[UNCLEANABLE.replace("partitions_count", "bytes")] > 0
    assert damaged.first_dirty_offset == 0
    assert len(damaged.segments) == 4
    assert await cleaner.clean_dirtiest()
    assert sound.first_dirty_offset == 7
    assert not await cleaner.clean_dirtiest()
    names = node.logs.disk.list_directory(damaged.path)
    assert [name for name in names if name.endswith((".cleaned", ".swap"))] == []
    # It ends with the log.
    await node.logs.delete([FIRST])
    assert not await cleaner.clean_dirtiest()
    assert list(cleaner.findings()) == []
    assert scrape(metrics)[UNCLEANABLE] == 0


def truncate(log: PartitionLog) -> None:
    """Remove what is damaged, as a follower does that is behind its leader, and write other records."""
    log.truncate_to(Offset(0))
    for value in ("1", "2"):
        append(log, keyed_batch([("a", value)]))
        roll(log)


def delete_records(log: PartitionLog) -> None:
    """Remove what is damaged, as retention does."""
    log.raise_log_start_offset(Offset(1))
    assert log.enforce_retention(1) == 1


def change_the_config(log: PartitionLog) -> None:
    log.config = replace(CONFIG, retention_ms=5)


@pytest.mark.rule("R10.31")
@pytest.mark.parametrize("change", [truncate, delete_records])
async def test_a_log_that_was_changed_is_cleaned_although_it_could_not_be_before(
    node: Node, change: Callable[[PartitionLog], None]
) -> None:
    await node.start()
    node.config = replace(CONFIG, cleanup_policy="compact,delete")
    log = await log_of(node, FIRST, "1", "2", "3")
    flip(node, log)
    metrics = Metrics()
    cleaner = cleaner_of(node, metrics)
    for _ in range(2):
        assert not await cleaner.clean_dirtiest()
        assert len(list(cleaner.findings())) == 1
    change(log)
    assert await cleaner.clean_dirtiest()
    assert list(cleaner.findings()) == []
    assert scrape(metrics)[UNCLEANABLE] == 0
    assert len(values(log)) == 1


@pytest.mark.rule("R10.31")
async def test_a_change_of_its_settings_lets_a_log_be_tried_again_once(node: Node) -> None:
    await node.start()
    log = await log_of(node, FIRST, "1", "2", "3")
    whole = log.segments.first.batch_at(next(log.segments.first.batches()))
    flip(node, log)
    cleaner = cleaner_of(node)
    assert not await cleaner.clean_dirtiest()
    [first] = cleaner.findings()
    assert "until it is changed" in first.detail
    change_the_config(log)
    assert not await cleaner.clean_dirtiest()
    assert list(cleaner.findings()) == [first]
    # The damage is repaired by hand, and the setting is set again.
    assert log.segments.first.batch_at(next(log.segments.first.batches())) != whole
    flip(node, log)
    assert not await cleaner.clean_dirtiest()
    log.config = replace(CONFIG)
    assert await cleaner.clean_dirtiest()
    assert list(cleaner.findings()) == []


@pytest.mark.rule("R10.31")
async def test_damage_that_only_the_rewriting_meets_puts_nothing_to_use(node: Node) -> None:
    """Batches that are clean already are not read for their keys."""
    await node.start()
    log = await log_of(node, FIRST, "1", "2", clean=5)
    flip(node, log)
    cleaner = cleaner_of(node)
    assert not await cleaner.clean_dirtiest()
    assert [finding.kind for finding in cleaner.findings()] == ["uncleanable_partition"]
    assert len(log.segments) == 4
    names = node.logs.disk.list_directory(log.path)
    assert [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))] == []
    assert log.segments.first.find(Offset(0)) == PlacedBatch(0, next(log.batches()))


class BrokenClock(TestClock):
    """A clock that cannot be read."""

    __test__ = False

    def now_ms(self) -> int:
        raise RuntimeError("no time is left")


@pytest.mark.rule("R10.31")
async def test_a_cleaner_that_ends_by_an_error_is_counted_and_named(node: Node) -> None:
    await node.start()
    await log_of(node, FIRST, "1", "2")
    node.clock = BrokenClock()
    metrics = Metrics()
    cleaner = cleaner_of(node, metrics, log_cleaner_threads=2)
    await cleaner.run()
    assert [finding.kind for finding in cleaner.findings()] == ["dead_log_cleaner"] * 2
    assert all("no time is left" in finding.detail for finding in cleaner.findings())
    assert scrape(metrics)["kafka_log_logcleaner_deadthreadcount"] == 2


@pytest.mark.rule("R10.31")
async def test_a_disabled_cleaner_cleans_nothing(node: Node) -> None:
    await node.start()
    log = await log_of(node, FIRST, "1", "2")
    await cleaner_of(node, log_cleaner_enable=False).run()
    assert len(values(log)) == 2


@pytest.mark.rule("R10.31")
def test_several_cleaners_clean_several_logs_and_look_again_after_the_backoff() -> None:
    async def check() -> None:
        node = Node(InMemoryWorld(), "/disk/a", config=CONFIG)
        await node.start()
        logs = [await log_of(node, TopicPartition("t", number), "1", "2") for number in range(5)]
        cleaner = cleaner_of(node, log_cleaner_threads=2, log_cleaner_backoff_ms=1000)
        running = asyncio.get_running_loop().create_task(cleaner.run())
        await asyncio.sleep(0.9)
        assert [len(values(log)) for log in logs] == [1] * 5
        append(logs[0], keyed_batch([("a", "3")]))
        roll(logs[0])
        await asyncio.sleep(1.1)
        assert len(values(logs[0])) == 1
        running.cancel()

    VirtualTimeLoop(max_steps=100_000).run_until_complete(check())


@pytest.mark.rule("R10.31")
def test_a_cleaning_takes_as_long_as_its_bytes_need() -> None:
    async def check() -> None:
        node = Node(InMemoryWorld(), "/disk/a", config=CONFIG)
        await node.start()
        log = await log_of(node, FIRST, *("v" * 1000 for _ in range(20)))
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        assert await cleaner_of(node, log_cleaner_io_max_bytes_per_second=1000.0).clean_dirtiest()
        # All headers, all records for their keys, and all once more; what stays is one of twenty.
        assert 40 <= loop.time() - began_s <= 70
        assert len(values(log)) == 1

    VirtualTimeLoop(max_steps=100_000).run_until_complete(check())


@pytest.mark.rule("R10.22", "R15.2")
async def test_a_change_of_the_policy_is_taken_over_by_open_logs(node: Node) -> None:
    await node.start()
    log = await node.log(replace(CONFIG, cleanup_policy="delete"))
    for value in ("1", "2"):
        append(log, keyed_batch([("a", value)]))
        roll(log)
    cleaner = cleaner_of(node)
    assert not await cleaner.clean_dirtiest()
    log.config = CONFIG
    assert await cleaner.clean_dirtiest()


@pytest.mark.rule("R10.22")
async def test_a_search_for_the_dirtiest_log_does_not_measure_those_that_have_nothing_to_clean(node: Node) -> None:
    await node.start()
    for partition in range(50):
        append(await node.log(CONFIG, TopicPartition("idle", partition)), keyed_batch([("a", "1")]))
    dirty = await log_of(node, FIRST, "1", "2")
    cleaner, measured = cleaner_of(node, Metrics()), 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal measured
        measured += event == "call" and frame.f_code is measure_dirt.__code__

    sys.setprofile(count)
    try:
        assert await cleaner.clean_dirtiest()
    finally:
        sys.setprofile(None)
    assert dirty.first_dirty_offset == 2
    assert measured <= 2
