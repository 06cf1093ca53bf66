"""Elections and ISRs against what controllers had recorded of brokers: by columns as by rows, and in any batches."""

from functools import cache

import pytest

from tests.audits.broker_histories import BROKER_RULES, found_by_rows, unclean_pairs, with_brokers
from tests.audits.columnar_audits import ColumnarAudit
from tests.audits.state_change_histories import shuffled
from tests.unit.audit.test_rules import everything, in_batches

SEEDS = range(12)


@cache
def compared_findings(seed: int) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """(rule, record) as columns find them, and as rows do; batches in another order change nothing about it."""
    streams, random = with_brokers(seed)
    whole, parts = ColumnarAudit(), ColumnarAudit()
    whole.check(everything(streams))
    for batch in in_batches(shuffled(streams, random), random):
        parts.check(batch)
    assert parts.findings == whole.findings
    found = [(f.rule, f.records) for f in whole.findings.values()]
    by_columns = {(rule, records[-1]) for rule, records in found if rule in BROKER_RULES}
    return by_columns, found_by_rows(streams, unclean_pairs(found))


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_find_what_rows_do_in_whatever_batches(seed: int) -> None:
    by_columns, by_rows = compared_findings(seed)
    assert by_columns == by_rows


def test_each_rule_is_broken_in_some_history() -> None:
    assert {rule for seed in SEEDS for rule, _ in compared_findings(seed)[0]} == BROKER_RULES
