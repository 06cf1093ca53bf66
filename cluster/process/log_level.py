"""Holds the log level of a process, which can be changed while it runs (`log.level`).

Kafka changes the level of each logger of a broker in its memory (KIP-412). Here it is one level per process, and a
dynamic config like others: stored in ZooKeeper, so that it outlives a restart and reaches processes that do not answer.
"""

from collections.abc import Callable, Mapping
from typing import Final

import structlog

LOG_LEVEL: Final = "log.level"
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_log = structlog.stdlib.get_logger()


class LogLevel:
    """Holds the level in force: the override of this process, else the cluster-wide one, else that of the file."""

    def __init__(self, of_file: str = "info", apply: Callable[[str], None] = lambda _: None) -> None:
        """`apply` is called with every new level, not with the first one."""
        self.value = of_file
        self._of_file = of_file
        self._apply = apply

    def override(self, *, own: Mapping[str, str], of_all: Mapping[str, str]) -> None:
        """Replace the overrides; an invalid one is logged and ignored."""
        found = (_valid(overrides.get(LOG_LEVEL)) for overrides in (own, of_all))
        level = next((value for value in found if value is not None), self._of_file)
        if level == self.value:
            return
        before, self.value = self.value, level
        # Logged while the level that shows more is in force.
        if LOG_LEVELS.index(level) < LOG_LEVELS.index(before):
            self._apply(level)
        _log.warning("Log level changed", before=before, after=level)
        self._apply(level)


def _valid(text: str | None) -> str | None:
    if text is None or text.lower() in LOG_LEVELS:
        return None if text is None else text.lower()
    _log.warning("Ignored an invalid setting", key=LOG_LEVEL, value=text, allowed=", ".join(LOG_LEVELS))
    return None
