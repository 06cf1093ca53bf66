"""The kinds of values that settings have, each made here anew, with what it says to those that are none."""

import pytest

from cluster.config.values import one_of, whole_number

WHOLE, LEAST, WIDE = "must be a whole number", "must be between 2 and 5", f"must be between 0 and {2**63 - 1}"


@pytest.mark.parametrize(
    ("value", "why"),
    [("2", None), ("5", None), ("1", LEAST), ("6", LEAST), ("-2", LEAST), ("2.0", WHOLE), ("", WHOLE), ("0_3", WHOLE)],
)
def test_a_whole_number_may_be_either_bound_and_nothing_beyond(value: str, why: str | None) -> None:
    assert whole_number(2, 5)(value) == why


@pytest.mark.parametrize(("value", "why"), [(str(2**63 - 1), None), (str(2**63), WIDE), ("0", None), ("-1", WIDE)])
def test_a_whole_number_without_an_upper_bound_fits_in_64_bits(value: str, why: str | None) -> None:
    assert whole_number(0)(value) == why


@pytest.mark.parametrize("value", ["Red", "blue"])
def test_a_word_may_be_any_of_those_allowed(value: str) -> None:
    assert one_of("Red", "blue")(value) is None


@pytest.mark.parametrize("value", ["red", "", "Red,blue", "green"])
def test_a_refused_value_names_what_is_allowed(value: str) -> None:
    assert one_of("Red", "blue")(value) == "must be one of Red, blue"
