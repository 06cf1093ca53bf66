"""Clocks that differ: of which nodes, whatever the batches."""

from random import Random

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from audit.rules.clock_differences import clock_findings
from cluster.model.broker import ControllerId
from state_log.record import Cause, Kind, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit
from tests.audits.state_change_histories import draw, shuffled, stamped
from tests.examples import examples
from tests.unit.audit.test_rules import Streams, everything, in_batches


def with_clocks(seed: int, wrong: str, ms: int) -> tuple[Streams, Random]:
    """A history in which each partition epoch takes a second, and one node has a clock of its own."""
    random = Random(seed)
    cluster = draw(seed, steps=random.randrange(30, 100), partitions=2)

    def at(record: LoggedStateChange) -> LoggedStateChange:
        at_ms = 1_700_000_000_000 + 1000 * (record.partition_epoch or 0)
        if record.kind is Kind.ROLE:
            cause = Cause("BrokerChange", 1, ControllerId(1), record.controller_epoch)
            record = replace(record, cause=cause)
            at_ms += 100
        return replace(record, at_ms=at_ms + (ms if record.node.startswith(wrong) else 0))

    return [[at(record) for record in stream] for stream in stamped(cluster.logs) if stream], random


@examples(20, deep=50)
@example(seed=514720162, wrong="broker-1")
@given(seed=st.integers(0, 2**32), wrong=st.sampled_from(["broker-1", "broker-3"]))
def test_a_clock_that_is_behind_is_found_in_any_batches(seed: int, wrong: str) -> None:
    streams, random = with_clocks(seed, wrong, -3_600_000)
    whole, parts = ColumnarAudit(), ColumnarAudit()
    whole.check(everything(streams))
    for batch in in_batches(shuffled(streams, random), random):
        parts.check(batch)
    assert parts.clocks == whole.clocks
    assert {finding.subject for finding in clock_findings(whole.clocks, set())} <= {f"node {wrong}"}


def test_clocks_that_are_right_are_not_found() -> None:
    audit = ColumnarAudit()
    audit.check(everything(with_clocks(3, "none", 0)[0]))
    assert audit.clocks == []
