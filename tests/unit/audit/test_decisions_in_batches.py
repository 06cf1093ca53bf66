"""What brokers may be elected, and which records leaders have: many drawn histories, by columns and by rows."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.audit.rules.test_committed_records import judge as judge_offsets
from tests.unit.audit.rules.test_elected_brokers import judge as judge_brokers


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_elections_are_judged_by_what_controllers_had_recorded_of_brokers(seed: int) -> None:
    by_columns, by_rows = judge_brokers(seed)
    assert by_columns == by_rows


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_leaders_have_what_was_committed(seed: int) -> None:
    by_columns, by_rows = judge_offsets(seed)
    assert by_columns == by_rows
