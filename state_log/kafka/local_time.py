"""Local times of log lines as milliseconds since 1970.

log4j writes local times without a zone. An hour that a clock goes through twice is told apart by the order of the
lines; a time that the clock of the zone skips does not exist, so the zone, or the line, is wrong.
"""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

_KEPT = 10_000


class Moment(Struct, frozen=True):
    """A second of local time: since 1970, in milliseconds, as it comes first and, if it comes twice, as it comes again.

    `exists`: False if the clock of the zone skips it.
    """

    first_ms: int
    second_ms: int
    exists: bool

    @property
    def is_ambiguous(self) -> bool:
        return self.first_ms != self.second_ms


class LocalTimes:
    """Of one time zone. `zone`: a name of the time zone database. Raises ZoneInfoNotFoundError."""

    def __init__(self, zone: str) -> None:
        self._zone = ZoneInfo(zone)
        self._known: dict[str, Moment] = {}

    def moment(self, text: str) -> Moment:
        """Parse a text like `2026-11-21 00:49:07`. Raises ValueError if there is no such date."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[text] = self._moment(text)
        return found

    def _moment(self, text: str) -> Moment:
        local = datetime.fromisoformat(text).replace(tzinfo=self._zone)
        first, second = (local.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
        exists = first.astimezone(self._zone).replace(tzinfo=None) == local.replace(tzinfo=None)
        first_ms, second_ms = (int(moment.timestamp()) * 1000 for moment in (first, second))
        return Moment(first_ms, second_ms if exists else first_ms, exists)
