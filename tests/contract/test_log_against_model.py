"""A log does what a naive list of batches does, whatever the order of operations, restarts and crashes."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from broker_agent.log.record_batch import walk
from cluster.model.broker import LeaderEpoch, Offset
from tests.contract.log_worlds import TP, FileWorld, InMemoryWorld, Node, batch, check_invariants, extents, fetched
from tests.examples import number_of_examples

CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, file_delete_delay_ms=0)

Batches = list[tuple[int, int, int]]


class LogAgainstModel(RuleBasedStateMachine):
    """`batches`: what the log should hold. `durable`: the offset up to which a crash must not take anything.

    `histories`: earlier contents to which a power failure may lead back, because a cut was not flushed yet.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.batches: Batches = []
        self.histories: list[Batches] = []
        self.start = self.end = self.durable = 0

    def make_node(self, seed: int) -> Node:
        return Node(InMemoryWorld(seed), "/disk/a", config=CONFIG)

    def run(self, awaitable: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(awaitable)

    @property
    def log(self) -> PartitionLog:
        found = self.node.logs.get(TP)
        assert found is not None
        return found

    @property
    def latest_epoch(self) -> int:
        """Also of batches below the log start, which the log itself may not remember: they are still in its files."""
        epochs = [self.log.latest_epoch, *(epoch for _, _, epoch in self.batches)]
        return max((epoch for epoch in epochs if epoch is not None), default=0)

    @initialize(seed=st.integers(0, 1000))
    def begin(self, seed: int) -> None:
        self.node = self.make_node(seed)
        self.run(self.node.start())
        self.run(self.node.log())

    @rule(count=st.integers(1, 4), size=st.integers(0, 300), later=st.integers(0, 2))
    def append_as_leader(self, count: int, size: int, later: int) -> None:
        epoch = self.latest_epoch + later
        appended = self.log.append_as_leader(batch(count, size=size), LeaderEpoch(epoch), 1)
        assert appended.first_offset == self.end
        self.batches.append((self.end, self.end + count - 1, epoch))
        self.end += count

    @rule(
        sizes=st.lists(
            st.tuples(st.integers(1, 4), st.integers(0, 300), st.integers(0, 1), st.integers(0, 3)), max_size=5
        ),
        producer=st.integers(1, 4),
    )
    def append_as_follower(self, sizes: list[tuple[int, int, int, int]], producer: int) -> None:
        identity = {"producer_id": producer, "producer_epoch": 0}
        records, at, epoch = b"", self.end, self.latest_epoch
        for count, size, later, gap in sizes:
            at, epoch = at + gap, epoch + later
            records += fetched(at, count, epoch=epoch, size=size, base_sequence=at, **identity)
            self.batches.append((at, at + count - 1, epoch))
            at += count
        self.log.append_as_follower(records + b"\0" * 7, LeaderEpoch(epoch))
        self.end = at

    @rule(epoch_step=st.integers(1, 2))
    def begin_leader_epoch(self, epoch_step: int) -> None:
        self.run(self.log.begin_leader_epoch(LeaderEpoch(self.latest_epoch + epoch_step), self.log.log_end_offset))

    @rule(share=st.floats(0, 1.1))
    def truncate(self, share: float) -> None:
        offset = self.start + int((self.end - self.start) * share)
        self.histories.append(list(self.batches))
        self.run(self.truncate_log(offset))
        if offset < self.end:
            self.batches = [extent for extent in self.batches if extent[1] < offset]
            self.end = offset
            self.durable = min(self.durable, offset)

    async def truncate_log(self, offset: int) -> None:
        self.log.truncate_to(Offset(offset))

    @rule()
    def forget_producers(self) -> None:
        self.log.expire_producers(self.node.clock.now_ms(), 0)

    @rule()
    def flush_due(self) -> None:
        self.run(self.node.logs.flush_due())

    @rule(distance=st.integers(0, 50))
    def truncate_fully(self, distance: int) -> None:
        offset = Offset(self.end + distance)

        async def restart() -> None:
            self.log.truncate_fully_and_start_at(offset)

        self.run(restart())
        self.batches, self.histories = [], []
        self.start = self.end = self.durable = offset

    @rule(share=st.floats(0, 1))
    def raise_log_start(self, share: float) -> None:
        self.log.set_high_watermark(Offset(self.start + int((self.end - self.start) * share)))
        self.log.raise_log_start_offset(self.log.high_watermark)
        self.start = max(self.start, self.log.high_watermark)

    @rule()
    def flush(self) -> None:
        self.run(self.log.flush())
        self.durable, self.histories = self.end, []

    @rule()
    def write_recovery_points(self) -> None:
        self.run(self.node.logs.write_recovery_points())

    @rule()
    def remove_deleted(self) -> None:
        self.run(self.node.logs.remove_deleted())

    @rule()
    def restart(self) -> None:
        self.run(self.node.restart())
        assert extents(self.log) == self.visible(self.batches, self.start)
        assert self.log.log_start_offset == min(self.start, self.log.log_end_offset)
        assert self.log.recovery_point == self.log.log_end_offset
        self.adopt(self.batches)
        self.durable = self.end

    @rule()
    def crash(self) -> None:
        self.run(self.node.crash_and_restart())
        assert self.log.log_start_offset <= self.start
        assert self.log.log_end_offset >= self.last_end([e for e in self.batches if e[1] < self.durable])
        found = extents(self.log)
        candidates = [
            history
            for history in (self.batches, *reversed(self.histories))
            if self.visible(history, self.log.log_start_offset)[: len(found)] == found
        ]
        assert candidates, (found, self.batches, self.histories)
        self.adopt([extent for extent in candidates[0] if extent[1] < self.log.log_end_offset])

    def adopt(self, batches: Batches) -> None:
        self.batches, self.histories = batches, []
        self.start, self.end = self.log.log_start_offset, self.log.log_end_offset
        self.durable = min(self.durable, self.end)

    @staticmethod
    def visible(batches: Batches, start: int) -> Batches:
        return [extent for extent in batches if extent[1] >= start]

    @staticmethod
    def last_end(batches: Batches) -> int:
        return batches[-1][1] + 1 if batches else 0

    @precondition(lambda self: self.end > self.start)
    @rule(share=st.floats(0, 0.999), max_bytes=st.integers(0, 2000), bound_share=st.floats(0, 1))
    def read(self, share: float, max_bytes: int, bound_share: float) -> None:
        start = self.start + int((self.end - self.start) * share)
        bound = self.start + int((self.end - self.start) * bound_share)
        records = self.log.read(Offset(start), max_bytes, Offset(bound), at_least_one=True)
        found = [(header.base_offset, header.last_offset, header.leader_epoch) for _, header in walk(records)]
        expected = [extent for extent in self.batches if extent[1] >= start and extent[1] < bound]
        assert found == expected[: len(found)]
        first = next((extent for extent in self.batches if extent[1] >= start), None)
        assert bool(found) == (start < bound and first is not None and first[1] < bound)
        assert len(records) <= max_bytes or len(found) == 1

    @invariant()
    def log_is_the_model(self) -> None:
        if not hasattr(self, "node"):
            return
        assert self.log.log_end_offset == self.end
        assert self.log.log_start_offset == self.start
        assert extents(self.log) == self.visible(self.batches, self.start)
        check_invariants(self.log)

    @invariant()
    def producers_are_counted(self) -> None:
        if hasattr(self, "node"):
            known = [len(log.producers) for log in self.node.logs.all_logs().values()]
            assert self.node.metrics.producer_ids.value == sum(known)

    def teardown(self) -> None:
        self.runner.close()


class LogOnFilesAgainstModel(LogAgainstModel):
    def make_node(self, seed: int) -> Node:
        self.root = tempfile.mkdtemp(prefix="log-model-")
        return Node(FileWorld(), f"{self.root}/a", config=CONFIG)

    def teardown(self) -> None:
        self.node.logs.get(TP).abandon()
        super().teardown()
        shutil.rmtree(self.root)


QUICK = settings(
    max_examples=number_of_examples(24, deep=60),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.rule("R10.4", "R10.7", "R10.10", "R10.11", "R10.12", "R9.15", "R9.16", "R9.19", "P1", "P2", "P3")
class TestInMemory(LogAgainstModel.TestCase):
    settings = QUICK


@pytest.mark.rule("R10.4", "R10.7", "R10.10", "R10.11", "R10.12", "R9.15", "R9.16", "P1", "P2", "P3")
class TestFiles(LogOnFilesAgainstModel.TestCase):
    settings = settings(QUICK, max_examples=15)


@pytest.mark.deep
class TestInMemoryLonger(LogAgainstModel.TestCase):
    settings = settings(QUICK, max_examples=number_of_examples(48, deep=120), stateful_step_count=60)
