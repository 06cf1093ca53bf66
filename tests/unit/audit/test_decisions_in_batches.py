"""What brokers may be elected, and which records leaders have: many drawn histories, by columns and by rows.

A few of them are tried in every run, in rules/test_elected_brokers.py and rules/test_committed_records.py.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.audit.rules.test_committed_records import compared_findings as compared_offsets
from tests.unit.audit.rules.test_elected_brokers import compared_findings as compared_brokers

pytestmark = pytest.mark.deep


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_elections_are_held_against_what_controllers_had_recorded_of_brokers(seed: int) -> None:
    by_columns, by_rows = compared_brokers(seed)
    assert by_columns == by_rows


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_leaders_have_what_was_committed(seed: int) -> None:
    by_columns, by_rows = compared_offsets(seed)
    assert by_columns == by_rows
