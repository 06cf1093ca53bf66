"""How many examples a property is tried with: the same few in every run, many new ones in the deep suite."""

from hypothesis import settings


def examples(few: int, *, deep: int) -> settings:
    """Decorate a test of hypothesis whose examples are slow."""
    return settings(max_examples=number_of_examples(few, deep=deep), deadline=None)


def number_of_examples(few: int, *, deep: int) -> int:
    """The number of examples for settings that say more than that."""
    # The profile of tests/conftest.py: without new examples the same would only be tried again.
    return few if settings.default.derandomize else deep
