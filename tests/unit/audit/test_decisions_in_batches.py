"""What brokers may be elected, and which records leaders have: many drawn histories, by columns and by rows."""

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.unit.audit.rules.test_committed_records import compared_findings as compared_offsets
from tests.unit.audit.rules.test_elected_brokers import compared_findings as compared_brokers


@examples(24, deep=60)
@given(seed=st.integers(0, 2**32))
def test_elections_are_held_against_what_controllers_had_recorded_of_brokers(seed: int) -> None:
    by_columns, by_rows = compared_brokers(seed)
    assert by_columns == by_rows


@examples(24, deep=60)
@given(seed=st.integers(0, 2**32))
def test_leaders_have_what_was_committed(seed: int) -> None:
    by_columns, by_rows = compared_offsets(seed)
    assert by_columns == by_rows
