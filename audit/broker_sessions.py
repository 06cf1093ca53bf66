"""The registrations of a broker: when each began and ended, by what controllers saw and by the broker's own log."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from audit.subject_events import Event, by_controllers
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

    def row(self) -> dict[str, Any]:
        first = self.registered or self.seen or self.expired
        assert first is not None, "a session begins with an event"
        last, ended = (self.expired, EXPIRED) if self.last is None and self.expired is not None else (None, None)
        last, ended = (self.last, self.ended) if last is None else (last, ended)
        return {
            "broker": self.broker,
            "broker_epoch": self.broker_epoch,
            "number": self.number,
            "from_ms": first["at_ms"],
            "until_ms": _at(last),
            "ended": ended,
            "registered_ms": _at(self.registered),
            "seen_ms": _at(self.seen),
            "shutting_down_ms": _at(self.shutting_down),
            "expired_ms": _at(self.expired),
            "first_record": first["record"],
            "last_record": None if last is None else last["record"],
        }


def sessions_of(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """The sessions of one broker, as rows of the table. `number` tells those without a broker epoch apart."""
    sessions = _Sessions()
    for event in by_controllers(events):
        if event["kind"] == Kind.BROKER:
            sessions.controller_saw(event)
    own = [event for event in events if event["kind"] == Kind.REGISTRATION]
    for event in sorted(own, key=lambda event: (event["at_ms"], event["record"])):
        sessions.broker_recorded(event)
    return (session.row() for session in sessions.all)


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
            case "dead" if self._current is not None:
                self._current.end(event, DIED if self._current.shutting_down is None else SHUT_DOWN)
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

    def _session(self, event: Event) -> _Session:
        """The session that the event of a controller is of."""
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
