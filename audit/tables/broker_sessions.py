"""The registrations of a broker: when each began and ended, by what controllers saw and by the broker's own log."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from audit.tables.subject_events import Event, by_controllers
from state_log.record import Kind

DIED, SHUT_DOWN, BOUNCED, REPLACED, EXPIRED = "died", "shut down", "bounced", "replaced", "expired"


class _Session(Struct):
    broker: int
    broker_epoch: int | None
    number: int = 0
    registered: Event | None = None
    seen: Event | None = None
    shutting_down: Event | None = None
    expired: Event | None = None
    last: Event | None = None
    ended: str | None = None

    def end(self, event: Event, ended: str) -> None:
        self.last, self.ended = event, ended

    @property
    def first(self) -> Event | None:
        return self.registered or self.seen or self.expired

    def row(self) -> dict[str, Any]:
        first, last, ended = self.first, self.last, self.ended
        if last is None and self.expired is not None:
            last, ended = self.expired, EXPIRED
        return {
            "broker": self.broker,
            "broker_epoch": self.broker_epoch,
            "number": self.number,
            "from_ms": _at(first),
            "until_ms": _at(last),
            "ended": ended,
            "registered_ms": _at(self.registered),
            "seen_ms": _at(self.seen),
            "shutting_down_ms": _at(self.shutting_down),
            "expired_ms": _at(self.expired),
            "first_record": None if first is None else first["record"],
            "last_record": None if last is None else last["record"],
        }


def sessions_of(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """The sessions of one broker, as rows of the table. `number` tells those without a broker epoch apart."""
    sessions = _Sessions()
    own = [event for event in events if event["kind"] == Kind.REGISTRATION]
    for event in sorted(own, key=lambda event: (event["at_ms"], event["record"])):
        sessions.broker_recorded(event)
    for event in by_controllers(events):
        if event["kind"] == Kind.BROKER:
            sessions.controller_saw(event)
    return (session.row() for session in sessions.finished())


class _Sessions:
    def __init__(self) -> None:
        self.all: list[_Session] = []
        self._current: _Session | None = None

    def controller_saw(self, event: Event) -> None:
        match event["to_state"]:
            case "live" | "changed" | "bounced" | "shutting_down":
                session = self._session(event)
                if event["to_state"] == "shutting_down":
                    session.shutting_down = session.shutting_down or event
            case "dead":
                session = self._current or self._unseen(event) or self._begin(event)
                session.end(event, DIED if session.shutting_down is None else SHUT_DOWN)
                self._current = None

    def broker_recorded(self, event: Event) -> None:
        session = self._find(event["broker_epoch"])
        if session is None:
            # Its own records do not tell sessions without an epoch apart.
            if event["broker_epoch"] is None:
                return
            session = self._begin(event)
        if event["to_state"] == "registered":
            session.registered = session.registered or event
        else:
            session.expired = session.expired or event

    def finished(self) -> list[_Session]:
        """Return all sessions; those that no record ends ended when a later one began."""
        with_epochs = sorted((s for s in self.all if s.broker_epoch is not None), key=lambda s: s.broker_epoch or 0)
        for session, later in pairwise(with_epochs):
            if session.last is None and session.expired is None and later.first is not None:
                session.end(later.first, REPLACED)
        return self.all

    def _unseen(self, event: Event) -> _Session | None:
        """The newest session that the broker recorded before: a controller that loads does not record who is live."""
        known = [s for s in self.all if s.last is None and s.registered and s.registered["at_ms"] <= event["at_ms"]]
        return max(known, key=lambda session: session.broker_epoch or 0, default=None)

    def _session(self, event: Event) -> _Session:
        """The session that the event of a controller is about."""
        current, epoch = self._current, event["broker_epoch"]
        bounced = event["to_state"] == "bounced"
        if current is not None and not bounced and epoch in {None, current.broker_epoch}:
            return current
        found = None if epoch is None else self._find(epoch)
        if found is None:
            found = self._begin(event)
        if current is not None and current is not found:
            current.end(event, BOUNCED if bounced else REPLACED)
        # Another controller may have thought it dead.
        found.last = found.ended = None
        found.seen = found.seen or event
        self._current = found
        return found

    def _find(self, broker_epoch: int | None) -> _Session | None:
        known = (session for session in self.all if session.broker_epoch == broker_epoch)
        return None if broker_epoch is None else next(known, None)

    def _begin(self, event: Event) -> _Session:
        number = sum(session.broker_epoch == event["broker_epoch"] for session in self.all)
        self.all.append(_Session(event["broker"], event["broker_epoch"], number))
        return self.all[-1]


def _at(event: Event | None) -> int | None:
    return None if event is None else event["at_ms"]
