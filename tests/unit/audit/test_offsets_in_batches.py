"""Unclean elections and truncations that they explain: the findings depend on the records alone.

A few histories are tried in every run, in rules/test_committed_records.py and rules/test_seeded_histories.py.
"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster.model.broker import Offset
from state_log.record import Kind, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit
from tests.audits.state_change_histories import draw, shuffled, stamped
from tests.unit.audit.test_rules import Streams, everything, in_batches


def with_offsets(seed: int) -> tuple[Streams, Random]:
    """A history whose roles have offsets."""
    random = Random(seed)
    cluster = draw(seed, steps=random.randrange(5, 80), partitions=random.randrange(1, 4))
    return offsets([stream for stream in stamped(cluster.logs) if stream], random), random


def offsets(streams: list[list[LoggedStateChange]], random: Random) -> list[list[LoggedStateChange]]:
    """The roles with offsets, and some of them as truncations."""

    def change(record: LoggedStateChange) -> LoggedStateChange:
        if record.kind is not Kind.ROLE or random.random() < 0.2:
            return record
        high_watermark, end = random.randrange(20), Offset(random.randrange(20))
        found = replace(record, high_watermark=Offset(high_watermark), log_end_offset=end)
        if random.random() < 0.7:
            return found
        cut = {"to_offset": end, "to_state": None, "isr": None, "partition_epoch": None, "controller_epoch": None}
        return replace(found, kind=Kind.TRUNCATION, **cut)

    return [[change(record) for record in stream] for stream in streams]


@pytest.mark.deep
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_findings_depend_on_the_records_and_not_on_batches_or_their_order(seed: int) -> None:
    streams, random = with_offsets(seed)
    whole, parts = ColumnarAudit(), ColumnarAudit()
    whole.check(everything(streams))
    for batch in in_batches(shuffled(streams, random), random):
        parts.check(batch)
    assert parts.findings == whole.findings
