"""How many examples a property is tried with: the same few in every run, many new ones in the deep suite."""

from hypothesis import settings


def examples(few: int, *, deep: int) -> settings:
    """Decorate a test of hypothesis whose examples are slow."""
    # The profile of tests/conftest.py: without new examples the same would only be tried again.
    return settings(max_examples=few if settings.default.derandomize else deep, deadline=None)
