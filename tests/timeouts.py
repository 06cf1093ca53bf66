"""Timeouts of tests."""

from typing import Final

TIMEOUT_S: Final = 180
"""Enough on a machine many times slower than usual, or under load. Costs nothing: whoever polls goes on at once."""
