"""Transactions of logs that Apache Kafka has written: what is undecided bounds the cleaning, also after a restart."""

from pathlib import Path

import pytest

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ErrorCode, LogAppendError
from tests.brokers.compacted_logs import append, clean, cleaner_of, copy_to, keyed_batch, marker_batch, roll, values
from tests.contract.log_worlds import TP, FileWorld, InMemoryWorld, Node

CONFIG = LogConfig(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, file_delete_delay_ms=0)


@pytest.fixture(params=["files", "memory"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Node:
    world = FileWorld() if request.param == "files" else InMemoryWorld()
    root = str(tmp_path) if request.param == "files" else "/disk"
    return Node(world, f"{root}/a", config=CONFIG)


def transactional(producer: int, sequence: int = 0) -> dict[str, int]:
    return {"attributes": 0x10, "producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}


async def log_with_an_open_transaction(node: Node) -> PartitionLog:
    """`a` at 0, `b` at 1, and again in a transaction of 7 that is open since 2; another one of 8 has ended."""
    await node.start()
    log = await node.log()
    for key in ("a", "b"):
        append(log, keyed_batch([(key, "old")]))
        roll(log)
    copy_to(log, keyed_batch([("a", "open")], **transactional(7)))
    roll(log)
    copy_to(log, keyed_batch([("c", "old")], **transactional(8)), marker_batch(8, commits=True))
    roll(log)
    append(log, keyed_batch([("b", "new")]), keyed_batch([("c", "new")]))
    roll(log)
    return log


@pytest.mark.rule("R10.22", "R10.27")
@pytest.mark.parametrize("commits", [False, True])
async def test_an_open_transaction_bounds_the_cleaning_until_its_marker_is_there(node: Node, commits: bool) -> None:
    log = await log_with_an_open_transaction(node)
    before = values(log)
    assert log.first_unstable_offset == log.last_stable_offset == 2
    assert await clean(node)
    assert log.first_dirty_offset == 2
    assert values(log) == before
    assert not await clean(node)
    copy_to(log, marker_batch(7, commits=commits))
    roll(log)
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, log.log_end_offset)
    assert await clean(node)
    assert [(key, value) for _, key, value in values(log) if key == "a"] == [("a", "open" if commits else "old")]
    assert [(key, value) for _, key, value in values(log) if key != "a"] == [("b", "new"), ("c", "new")]


@pytest.mark.rule("R10.27", "R9.20")
async def test_a_transaction_is_open_after_any_restart_and_gone_with_its_records(node: Node) -> None:
    log = await log_with_an_open_transaction(node)
    log.expire_producers(10**12, 1)
    assert log.first_unstable_offset == 2
    await log.flush()
    for start in (node.restart, node.crash_and_restart, node.restart):
        await start()
        found = node.logs.get(TP)
        assert found is not None
        assert found.first_unstable_offset == 2
    found.truncate_to(Offset(3))
    assert found.first_unstable_offset == 2
    found.truncate_to(Offset(2))
    assert found.first_unstable_offset is None
    copy_to(found, keyed_batch([("a", "1")], **transactional(9)), keyed_batch([("a", "2")], **transactional(9, 1)))
    assert found.first_unstable_offset == 2
    found.truncate_fully_and_start_at(Offset(50))
    assert found.first_unstable_offset is None


@pytest.mark.rule("R10.27", "R10.11")
@pytest.mark.parametrize("starts", [False, True])
async def test_a_transaction_is_open_again_when_its_marker_is_truncated(node: Node, starts: bool) -> None:
    log = await log_with_an_open_transaction(node)
    end = log.log_end_offset
    copy_to(log, marker_batch(7, commits=True))
    assert log.first_unstable_offset is None
    if starts:
        await node.restart()
        found = node.logs.get(TP)
        assert found is not None
        log = found
    log.truncate_to(end)
    assert log.first_unstable_offset == 2


@pytest.mark.rule("R10.27")
async def test_a_transaction_that_nothing_here_can_end_is_named(node: Node) -> None:
    log = await log_with_an_open_transaction(node)
    cleaner = cleaner_of(node)
    [finding] = cleaner.findings()
    assert (finding.kind, finding.topic, finding.partition, finding.broker) == ("open_transaction", *TP, 1)
    assert "producer 7" in finding.detail
    assert "since offset 2" in finding.detail
    copy_to(log, marker_batch(7, commits=True))
    assert list(cleaner.findings()) == []


@pytest.mark.rule("R7.16")
async def test_a_client_cannot_begin_a_transaction_that_nothing_would_end(node: Node) -> None:
    await node.start()
    log = await node.log()
    with pytest.raises(LogAppendError, match="transaction") as refused:
        log.append_as_leader(keyed_batch([("a", "1")], **transactional(7)), LeaderEpoch(0), 1)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 0
