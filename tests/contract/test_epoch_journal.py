"""The journal of leader epochs: what a power failure leaves of epochs and topic ids that became durable together.

The simulated disk loses, tears and reorders what was not flushed.
"""

import asyncio
from collections.abc import Sequence
from zlib import crc32

import pytest

from broker_agent.log.checkpoints import LEADER_EPOCHS
from broker_agent.log.epoch_history import EpochEntry
from broker_agent.log.epoch_journal import (
    EPOCH_JOURNAL,
    JournaledEpochs,
    decode_journal,
    encode_line,
)
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import LeaderEpoch, Offset, TopicId
from cluster.model.partition import TopicPartition
from tests.brokers.agents import virtually
from tests.contract.log_worlds import InMemoryWorld, Node, batch

COUNT = 20
FIRST_ID = TopicId("bbbbbbbbbbbbbbbbbbbbbA")
OTHER_ID = TopicId("cccccccccccccccccccccA")
TPS = [TopicPartition("t", partition) for partition in range(COUNT)]


def entry(epoch: int, start: int) -> EpochEntry:
    return EpochEntry(LeaderEpoch(epoch), Offset(start))


async def started(seed: int = 0) -> Node:
    node = Node(InMemoryWorld(seed), "/data")
    await node.start()
    return node


async def create(node: Node, topic_id: TopicId = FIRST_ID, tps: Sequence[TopicPartition] = TPS) -> None:
    logs = (node.logs.get_or_create(tp, topic_id=topic_id, is_new=True, config=node.config) for tp in tps)
    await asyncio.gather(*logs)


def logs_of(node: Node) -> list[PartitionLog]:
    return [node.logs.all_logs()[tp] for tp in TPS]


async def lead(node: Node, epoch: int) -> None:
    """Begin a leader epoch in all logs, at their ends."""
    await asyncio.gather(*(log.begin_leader_epoch(LeaderEpoch(epoch), log.log_end_offset) for log in logs_of(node)))


async def fill(node: Node, epoch: int) -> None:
    """Append a record of the epoch to every log."""
    for log in logs_of(node):
        await log.prepare_for_records()
        log.append_as_leader(batch(), LeaderEpoch(epoch), 1)


def write_records(node: Node) -> None:
    """Let the records be on disk, and nothing else of the logs."""
    for log in logs_of(node):
        log.segments.active.flusher()()


@pytest.mark.rule("R3.7a", "R9.11", "R9.23")
@pytest.mark.parametrize("seed", range(10))
def test_a_power_failure_takes_no_epoch_that_leaders_began_together(seed: int) -> None:
    @virtually
    async def check() -> None:
        node = await started(seed)
        await create(node)
        await lead(node, 3)
        await fill(node, 3)
        await lead(node, 7)
        await fill(node, 7)
        write_records(node)
        disk = node.world.new_disk()
        assert len([log for log in logs_of(node) if not disk.read_file(f"{log.path}/{LEADER_EPOCHS}")]) > COUNT / 2
        await node.crash_and_restart()
        assert {log.epoch_entries for log in logs_of(node)} == {(entry(3, 0), entry(7, 1))}
        # Not only by the headers of batches, which no checksum covers.
        assert {log.confirmed_epoch for log in logs_of(node)} == {7}

    check()


@pytest.mark.rule("R3.7a", "R9.3")
@pytest.mark.parametrize("seed", range(10))
def test_a_power_failure_takes_no_topic_id_of_logs_that_were_led(seed: int) -> None:
    @virtually
    async def check() -> None:
        node = await started(seed)
        await create(node)
        await lead(node, 0)
        for _ in range(2):
            await node.crash_and_restart()
            assert not node.logs.unloadable
            assert {log.topic_id for log in logs_of(node)} == {FIRST_ID}

    check()


@pytest.mark.rule("R4.3", "R9.9")
@pytest.mark.parametrize("seed", range(10))
def test_a_topic_created_again_gets_neither_epochs_nor_id_of_the_deleted_one(seed: int) -> None:
    @virtually
    async def check() -> None:
        node = await started(seed)
        await create(node)
        await lead(node, 9)
        await fill(node, 9)
        assert not await node.logs.delete(TPS)
        await create(node, OTHER_ID)
        await node.crash_and_restart()
        assert {log.topic_id for log in logs_of(node)} <= {OTHER_ID, None}
        assert {log.epoch_entries for log in logs_of(node)} == {()}

    check()


@pytest.mark.rule("R9.11")
@virtually
async def test_records_of_a_journaled_epoch_take_it_to_the_logs_own_checkpoint() -> None:
    node = await started()
    await create(node)
    await lead(node, 2)
    await fill(node, 2)
    await node.stop()
    disk = node.world.new_disk()
    assert disk.read_file(f"/data/t-7/{LEADER_EPOCHS}") == b"0\n1\n2 0\n"
    assert disk.read_file(f"/data/{EPOCH_JOURNAL}") == b""


@pytest.mark.rule("R5.18", "R9.11")
@virtually
async def test_an_epoch_that_was_truncated_does_not_return() -> None:
    node = await started()
    await create(node)
    await lead(node, 2)
    await fill(node, 2)
    await lead(node, 5)
    for log in logs_of(node):
        log.truncate_to(Offset(1))
        assert log.epoch_entries == (entry(2, 0),)
        log.append_as_follower(batch(base_offset=1, leader_epoch=6), LeaderEpoch(6))
        await log.flush()
    await node.crash_and_restart()
    assert {log.epoch_entries for log in logs_of(node)} == {(entry(2, 0), entry(6, 1))}


@virtually
async def test_the_journal_does_not_grow_with_the_number_of_elections() -> None:
    node = await started()
    await create(node)
    sizes = []
    for epoch in range(600):
        await lead(node, epoch)
        sizes.append(len(node.world.new_disk().read_file(f"/data/{EPOCH_JOURNAL}") or b""))
    assert max(sizes) < 100_000
    await node.restart()
    content = node.world.new_disk().read_file(f"/data/{EPOCH_JOURNAL}")
    assert {epochs.entries for epochs in decode_journal(content)[0].values()} == {(entry(599, 0),)}


def test_a_damaged_line_costs_no_other_one() -> None:
    lines = [encode_line(tp, JournaledEpochs(FIRST_ID, (entry(1, 0), entry(4, 10)))) for tp in TPS[:4]]
    torn = lines[0] + lines[1][:30] + b"\n" + lines[2].replace(b" t ", b" u ") + lines[3] + b"\0" * 40
    found, damaged = decode_journal(torn)
    assert damaged == 3
    assert found == {tp: JournaledEpochs(FIRST_ID, (entry(1, 0), entry(4, 10))) for tp in (TPS[0], TPS[3])}
    assert decode_journal(None) == ({}, 0)


@pytest.mark.parametrize(
    "fields", ["t 1", "t x - 1:0", "t 1 no-id 1:0", "t 1 - 1:0,2", "../t 1 - 1:0", "t 1 - -1:0", ""]
)
def test_what_is_no_line_of_the_journal_is_left_out_though_its_checksum_is_right(fields: str) -> None:
    line = f"0 {crc32(fields.encode()):08x} {fields}\n".encode()
    assert decode_journal(line) == ({}, 1)


@virtually
async def test_what_is_appended_after_a_torn_line_is_read() -> None:
    node = await started()
    await create(node)
    torn = encode_line(TPS[0], JournaledEpochs(None, (entry(1, 0),)))[:15]
    node.world.new_disk().open_file(f"/data/{EPOCH_JOURNAL}").append([torn])
    await lead(node, 2)
    found, damaged = decode_journal(node.world.new_disk().read_file(f"/data/{EPOCH_JOURNAL}"))
    assert damaged == 1
    assert {epochs.entries for epochs in found.values()} == {(entry(2, 0),)}
    assert len(found) > COUNT / 2


@pytest.mark.rule("R9.3", "R3.7a")
@pytest.mark.parametrize("seed", range(5))
def test_two_power_failures_in_a_row_leave_logs_that_can_be_loaded(seed: int) -> None:
    """The first cuts the topic ids of logs that were not used; the second comes when they have their first epoch."""

    @virtually
    async def check() -> None:
        node = await started(seed)
        await create(node)
        await node.crash_and_restart()
        await create(node)
        for log in logs_of(node):
            await log.begin_leader_epoch(LeaderEpoch(1), Offset(0))
        await node.crash_and_restart()
        assert node.logs.unloadable == {}
        # A later topic of that name has lower epochs.
        assert {log.topic_id for log in logs_of(node)} == {FIRST_ID}

    check()


@pytest.mark.rule("R9.3", "R9.21")
@pytest.mark.parametrize("seed", range(5))
def test_a_log_that_was_empty_when_its_process_was_killed_has_its_topic_id_before_its_epochs(seed: int) -> None:
    @virtually
    async def check() -> None:
        world = InMemoryWorld(seed)
        node = Node(world, "/data")
        await node.start()
        await create(node)
        world.disk.kill_process()
        await node.start()
        await lead(node, 1)
        await node.restart()
        await fill(node, 2)
        await node.restart()
        await node.crash_and_restart()
        assert node.logs.unloadable == {}
        assert {log.topic_id for log in logs_of(node)} == {FIRST_ID}

    check()
