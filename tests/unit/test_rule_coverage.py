"""The rule books are parsed as written, and rules without a passing test are found."""

import pytest

from tests.rule_coverage import Coverage, read_book

BOOK = """
| id | rule | source | note |
|---|---|---|---|
| PS-8 | begins at epoch 0 | a class | |
| IS-9a | unknown id | a class | D-6 |
| FO-16 | tokens | a class | untested: there are none |
| D-6 | says so | a class | deviates: elsewhere not |
"""


def test_every_row_is_a_rule() -> None:
    rules = read_book(BOOK)
    assert [rule.id for rule in rules] == ["PS-8", "IS-9a", "FO-16", "D-6"]
    assert [rule.exempt for rule in rules] == [False, False, True, False]
    assert [rule.edge for rule in rules] == [False, False, False, True]


@pytest.mark.parametrize(
    ("row", "message"),
    [("| PS-9 | short | a class |", "four cells"), ("| PS-8 | again | a class | |", "two rows")],
)
def test_a_row_that_would_be_lost_is_an_error(row: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_book(BOOK + row)


def test_a_rule_without_a_passing_test_is_missing_unless_excused() -> None:
    nothing = Coverage(read_book(BOOK), {})
    assert [rule.id for rule in nothing.missing()] == ["PS-8", "IS-9a"]
    assert nothing.summary() == "3, tested 0, deviating 1, untested 3"
    held = Coverage(read_book(BOOK), {"PS-8": ["a test"], "IS-9a": ["another"]})
    assert held.missing() == []
    assert held.summary() == "3, tested 2, deviating 1, untested 1"
    assert "| PS-8 | begins at epoch 0 | a test |  |" in held.table()
