"""A few drawn histories of each sort: what is found depends on the records alone, not on batches or order.

The property tests beside this folder try many more.
"""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from audit.records.findings import HOLDS
from audit.rules.limits import Limits
from tests.audits.columnar_audits import ColumnarAudit, audit_batches
from tests.audits.state_change_histories import shuffled, stamped
from tests.unit.audit.test_clocks_in_batches import with_clocks
from tests.unit.audit.test_durations import LIMITS, timed
from tests.unit.audit.test_offsets_in_batches import with_offsets
from tests.unit.audit.test_recreations import contradicted, with_deletions
from tests.unit.audit.test_rules import SHARED, Streams, by_checker, by_columns, everything, histories, in_batches


def created_again(seed: int) -> tuple[Streams, Random]:
    random = Random(seed)
    return [[contradicted(r, random) for r in stream] for stream in stamped(with_deletions(seed).logs)], random


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("drawn", "limits"),
    [
        (histories, Limits()),
        (partial(histories, leaders_write=True), Limits()),
        (created_again, Limits()),
        (created_again, LIMITS),
        (timed, LIMITS),
        (with_offsets, Limits()),
        (lambda seed: with_clocks(seed, "broker-1", -3_600_000), Limits()),
        (lambda seed: with_clocks(seed, "broker-1", 3_600_000), Limits()),
    ],
)
def test_batches_change_nothing(drawn: Callable[[int], tuple[Streams, Random]], limits: Limits, seed: int) -> None:
    streams, random = drawn(seed)
    whole, parts = ColumnarAudit(limits), ColumnarAudit(limits)
    whole.check(everything(streams))
    for batch in in_batches(shuffled(streams, random), random):
        parts.check(batch)
    assert (parts.findings, holding(parts), parts.clocks) == (whole.findings, holding(whole), whole.clocks)


def holding(audit: ColumnarAudit) -> list[dict[str, object]]:
    """The rows of timelines that were not withdrawn."""
    return sorted((row for row in audit.timelines.values() if row["status"] == HOLDS), key=str)


@pytest.mark.parametrize(
    ("leaders_write", "seeds"),
    [(False, (17, 61, 110)), (True, (9, 17, 95, 216))],
    ids=["by controllers", "by leaders"],
)
def test_columns_find_what_the_reference_model_finds_by_each_rule_that_they_share(
    leaders_write: bool, seeds: tuple[int, ...]
) -> None:
    found: set[str] = set()
    for seed in seeds:
        streams, _ = histories(seed, leaders_write=leaders_write)
        by_rows = by_checker(streams)
        assert by_columns(audit_batches([everything(streams)]).values()) == by_rows
        found |= {rule for rule, _, _ in by_rows}
    assert found >= SHARED
