"""The rules as a table: each reads what it says it reads, and explains ids of its own."""

from collections import Counter

import pytest

from audit.batches.bucket import AWAITED, KEPT, check_rules
from audit.records.sorted_runs import Runs
from audit.rules.limits import Limits
from audit.rules.recreations import RECREATIONS
from audit.rules.recreations import RULE as RECREATED
from audit.rules.rule import BucketBatch, Rule
from audit.rules.subjects import NAMED
from audit.rules.table import RULES
from tests.audits.columnar_audits import table_of
from tests.unit.audit.test_durations import LIMITS, timed
from tests.unit.audit.test_rules import everything, histories


def batch(columns: tuple[str, ...] = (), *, seed: int = 2, limits: Limits | None = None) -> BucketBatch:
    """A batch in which most rules find something; only these columns of its records."""
    streams, _ = histories(seed) if limits is None else timed(seed)
    rows = table_of(everything(streams))
    runs = {table.name: Runs([]) for table in KEPT}
    awaited = {table.name: table.schema.empty_table() for table in AWAITED}
    chosen = [name for name in rows.column_names if not columns or name in columns]
    return BucketBatch(rows.select(chosen), runs, awaited, limits or Limits())


@pytest.mark.parametrize("limits", [None, LIMITS])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: min(rule.explains, default="recreations"))
def test_a_rule_reads_the_columns_that_it_names(rule: Rule, limits: Limits | None) -> None:
    part, whole = batch((*rule.reads, *RECREATED.reads, *NAMED.names), limits=limits), batch(limits=limits)
    assert list(rule.check(part)) == list(rule.check(whole))
    for table in rule.keeps:
        assert part.added(table) == whole.added(table)
    for waiting in rule.awaits:
        assert waiting.rows(part) == waiting.rows(whole)


def test_ids_and_tables_belong_to_one_rule_each() -> None:
    ids = Counter(name for rule in RULES for name in rule.explains)
    tables = Counter(table.name for rule in RULES for table in (*rule.keeps, *rule.awaits))
    assert {*ids.values(), *tables.values()} == {1}


def test_a_value_is_computed_once_for_each_batch() -> None:
    first, second = batch(), batch()
    assert first.added(RECREATIONS) is first.added(RECREATIONS)
    assert first.added(RECREATIONS) is not second.added(RECREATIONS)


@pytest.mark.parametrize("limits", [None, LIMITS])
def test_findings_have_the_ids_that_rules_explain(limits: Limits | None) -> None:
    explained = {name for rule in RULES for name in rule.explains}
    found = {finding.rule for seed in range(3) for finding in check_rules(batch(seed=seed, limits=limits))}
    assert found
    assert found <= explained
