"""A cleaner leaves what the definition of compaction leaves, in whatever order a log is filled, cleaned, restarted."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker_agent.log.config import LogConfig
from broker_agent.log.partition_log import PartitionLog
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.compression import CompressionCodec
from tests.brokers.compacted_logs import (
    Stored,
    append,
    clean,
    keyed_batch,
    roll,
    sizes_are_sound,
    stored_headers,
    stored_records,
    surviving,
)
from tests.contract.log_worlds import TP, InMemoryWorld, Node, check_invariants
from tests.examples import number_of_examples

RETENTION = 1000
CONFIG = LogConfig(
    cleanup_policy="compact",
    segment_bytes=1500,
    index_interval_bytes=150,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION,
    file_delete_delay_ms=0,
)
KEYS = st.sampled_from(["a", "b", "c", "d", "a key that is longer than its digest", None])
RECORDS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.text("xyz", max_size=40))), min_size=1, max_size=6)


class CompactionAgainstModel(RuleBasedStateMachine):
    """`appended`: every record ever appended and not truncated. `first_cleaned_ms`: offset of a tombstone -> when it
    was cleaned for the first time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.appended: list[Stored] = []
        self.first_cleaned_ms: dict[int, int] = {}
        self.sequences = {1: 0, 2: 0}

    def run(self, awaitable: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(awaitable)

    @property
    def log(self) -> PartitionLog:
        found = self.node.logs.get(TP)
        assert found is not None
        return found

    @property
    def now_ms(self) -> int:
        return self.node.clock.at_ms

    @initialize(seed=st.integers(0, 1000))
    def begin(self, seed: int) -> None:
        self.node = Node(InMemoryWorld(seed), "/disk/a", config=CONFIG)
        self.run(self.node.start())
        self.run(self.node.log())
        self.run(self.log.begin_leader_epoch(LeaderEpoch(0), Offset(0)))

    @rule(records=RECORDS, codec=st.sampled_from(CompressionCodec), producer=st.sampled_from([None, 1, 2]))
    def append(
        self, records: list[tuple[str | None, str | None]], codec: CompressionCodec, producer: int | None
    ) -> None:
        at, epoch = self.log.log_end_offset, self.log.latest_epoch or 0
        fields = {}
        if producer is not None:
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": self.sequences[producer]}
            self.sequences[producer] += len(records)
        append(self.log, keyed_batch(records, codec=codec, timestamp=self.now_ms, **fields), epoch=epoch)
        for number, (key, value) in enumerate(records):
            encoded = key and key.encode(), None if value is None else value.encode()
            self.appended.append(Stored(at + number, self.now_ms + number, *encoded))

    @rule()
    def roll(self) -> None:
        if self.log.segments.active.size:
            roll(self.log)

    @rule()
    def begin_leader_epoch(self) -> None:
        self.run(self.log.begin_leader_epoch(LeaderEpoch((self.log.latest_epoch or 0) + 1), self.log.log_end_offset))

    @rule(ms=st.integers(1, RETENTION))
    def wait(self, ms: int) -> None:
        self.node.clock.at_ms += ms

    @rule()
    def clean(self) -> None:
        before, entries = stored_records(self.log), self.log.epoch_entries
        if not self.run(clean(self.node)):
            assert stored_records(self.log) == before
            return
        end = self.log.first_dirty_offset
        after = stored_records(self.log)
        for record in before:
            if record.value is None and record.offset < end:
                self.first_cleaned_ms.setdefault(record.offset, self.now_ms)
        kept = surviving(before, end)
        gone = [record for record in kept if record not in after]
        assert [record for record in after if record not in gone] == [r for r in kept if r not in gone]
        assert all(self.may_go(record) for record in gone)
        assert self.log.epoch_entries == entries
        # A second cleaning finds nothing: what is clean is not cleaned alone.
        assert not self.run(clean(self.node))
        # Everything once more, which the first one must have left as the second one leaves it.
        self.log.first_dirty_offset = Offset(0)
        assert self.run(clean(self.node))
        assert stored_records(self.log) == after

    def may_go(self, record: Stored) -> bool:
        first_cleaned_ms = self.first_cleaned_ms.get(record.offset, self.now_ms)
        return record.value is None and self.now_ms - first_cleaned_ms >= RETENTION

    @rule()
    def restart(self) -> None:
        self.run(self.node.restart())
        self.commit_all()

    @rule()
    def crash(self) -> None:
        self.run(self.log.flush())
        self.run(self.node.crash_and_restart())
        self.commit_all()

    def commit_all(self) -> None:
        assert [replica for replica in self.node.logs.damaged_replicas if not replica.is_in_doubt] == []
        self.log.set_high_watermark(self.log.log_end_offset)

    @rule(share=st.floats(0.9, 1))
    def truncate(self, share: float) -> None:
        offset = Offset(int(self.log.log_end_offset * share))
        headers = [header for header in stored_headers(self.log) if header.last_offset < offset]
        # To the end of a batch, as followers are cut.
        end = Offset(headers[-1].last_offset + 1) if headers else Offset(0)
        if end < self.log.first_dirty_offset:
            return

        async def cut() -> None:
            self.log.truncate_to(end)

        self.run(cut())
        self.appended = [record for record in self.appended if record.offset < end]
        self.sequences = {
            producer: max((h.last_sequence + 1 for h in headers if h.producer_id == producer), default=0)
            for producer in self.sequences
        }

    @invariant()
    def the_last_value_of_each_key_is_there(self) -> None:
        if not hasattr(self, "node"):
            return
        found = stored_records(self.log)
        assert [record for record in found if record not in self.appended] == []
        for record in surviving(self.appended, self.log.log_end_offset):
            assert record in found or self.may_go(record)
        check_invariants(self.log)
        sizes_are_sound(self.log)

    def teardown(self) -> None:
        self.runner.close()


CompactionAgainstModel.TestCase.settings = settings(
    max_examples=number_of_examples(24, deep=60), stateful_step_count=40, deadline=None
)
TestCompaction = pytest.mark.rule("R10.21", "R10.25", "R10.26", "R10.32")(CompactionAgainstModel.TestCase)
