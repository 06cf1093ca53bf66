"""Names that shells are offered."""

from admin.cli import completions


def test_only_names_are_offered_that_a_shell_takes_as_they_are() -> None:
    offered = ["orders-0", "a_b.c", "$(touch x)", "`x`", "*", "a b", "a;b", "", "\x1b[2J", "é"]
    assert completions._quietly(lambda: offered) == ["orders-0", "a_b.c"]
