"""State machines and reassignments: findings are those of a naive reading, and depend on the records alone."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.rules.machine_steps import RULE as MACHINES
from audit.rules.moves import MOVE_NEVER_BEGAN
from audit.rules.moves import RULE as MOVES
from state_log.record import LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit
from tests.audits.step_histories import Found, drawn_steps, wrong_steps
from tests.examples import examples
from tests.unit.audit.test_rules import in_batches

RULES = {*MACHINES.explains, *MOVES.explains}


def audited(*batches: list[LoggedStateChange]) -> set[Found]:
    audit = ColumnarAudit()
    for batch in batches:
        audit.check(batch)
    return {(finding.rule, finding.records) for finding in audit.findings.values() if finding.rule in RULES}


def check_seed(seed: int) -> set[Found]:
    """Check a history at once, and again in batches and in another order; returns what is found."""
    records, random = drawn_steps(seed), Random(seed)
    found = audited(records)
    assert found == set(wrong_steps(records))
    random.shuffle(records)
    assert audited(*(list(batch) for batch in in_batches(records, random))) == found
    return found


@examples(24, deep=60)
@given(st.integers(0, 2**32))
def test_findings_are_those_of_a_naive_reading_in_whatever_order_records_arrive(seed: int) -> None:
    check_seed(seed)


def test_some_histories_violate_each_rule() -> None:
    found = {rule for seed in range(15) for rule, _ in check_seed(seed)}
    # A reassignment is seldom cancelled at once after another was completed: its own test has that.
    assert found | {MOVE_NEVER_BEGAN} == RULES


@pytest.mark.parametrize("topic_id", [None])
def test_what_moves_do_to_a_topic_without_an_id_is_not_checked(topic_id: None) -> None:
    from msgspec.structs import replace

    records = [replace(record, topic_id=topic_id) for seed in range(3) for record in drawn_steps(seed)]
    assert {rule for rule, _ in audited(records)} <= {*MACHINES.explains}
