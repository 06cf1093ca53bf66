"""Which call led to a record: controllers' records name the call, agents' records name the controller's event.

A controller epoch belongs to one run of one controller, which numbers its events; so epoch and number together name an
event among all nodes.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from msgspec import Struct

from state_log.record import Kind, LoggedStateChange

BY_AGENTS: Final = frozenset({Kind.ROLE, Kind.TRUNCATION, Kind.DIRECTORY_MOVE, Kind.REGISTRATION})
"""All other kinds are written by controllers."""


class ControllerEvent(NamedTuple):
    """Holds what names an event of an active controller."""

    controller_epoch: int
    id: int


ISR_GRANTED: Final = "AlterPartition"
"""The cause of a leader's record of an ISR that a controller granted, with the number of the event: without
it in earlier logs, and where that event wrote no ISR, as it was in effect before.
"""


def is_granted_isr(record: LoggedStateChange) -> bool:
    """Whether a leader recorded an ISR that a controller had granted, and not that it took its role."""
    return record.kind is Kind.ROLE and record.cause is not None and record.cause.event == ISR_GRANTED


ISR_WRITTEN: Final = "IsrWritten"
"""The cause of a leader's record of an ISR that it wrote to the state znode itself, as before protocol version 2.7."""
READ_FROM_LEADER: Final = "written by the leader"
"""The reason in a controller's record of a state that it did not write, but read when a leader announced it."""


def is_written_isr(record: LoggedStateChange) -> bool:
    """Whether a leader recorded an ISR that it wrote itself, which no controller needs to have recorded."""
    return record.kind is Kind.ROLE and record.cause is not None and record.cause.event == ISR_WRITTEN


EventOnTopic = tuple[ControllerEvent, str | None]
"""One event may create or delete topics that several callers asked for. The topic is None for records without one."""


class ControllerCall(Struct, frozen=True):
    """A call that a controller handled as `event`: as its first record about it names the call, and when that was."""

    event: str
    request_id: str | None
    principal: str | None
    peer: str | None
    at_ms: int


def controller_event(record: LoggedStateChange) -> ControllerEvent | None:
    """The controller's event that led to the record; None where it was an event of the agent, or is not known."""
    cause = record.cause
    if cause is None:
        return None
    epoch = cause.controller_epoch if record.kind in BY_AGENTS else record.controller_epoch
    return None if epoch is None else ControllerEvent(epoch, cause.id)


def calls_by_event(records: Iterable[LoggedStateChange]) -> dict[EventOnTopic, ControllerCall]:
    """The calls that these records name, by event and topic. Records of version 1 name none."""
    calls: dict[EventOnTopic, ControllerCall] = {}
    for record in records:
        event = controller_event(record)
        if event is None or record.cause is None or record.principal is None:
            continue
        call = ControllerCall(record.cause.event, record.request_id, record.principal, record.peer, record.at_ms)
        known = calls.get((event, record.topic))
        if known is None or call.at_ms < known.at_ms:
            calls[event, record.topic] = call
    return calls


def call_of(record: LoggedStateChange, calls: Mapping[EventOnTopic, ControllerCall]) -> ControllerCall | None:
    """The call that the record goes back to, None where it does not go back to one."""
    event = controller_event(record)
    return None if event is None else calls.get((event, record.topic), calls.get((event, None)))


def origin_text(record: LoggedStateChange, call: ControllerCall | None) -> str | None:
    """Say what led to the record: the call with all that is known of it, or else the event."""
    event = event_text(record, call)
    return event if event is None or call is None else f"{event}, {request_text(call)}"


def request_text(call: ControllerCall) -> str:
    """Say all that is known of a call except its event."""
    parts = (
        call.request_id and f"request id {call.request_id}",
        call.principal != _ANONYMOUS and f"by {call.principal}",
        call.peer and f"from {call.peer}",
        f"at {utc_text(call.at_ms)}",
    )
    return ", ".join(part for part in parts if part)


def event_text(record: LoggedStateChange, call: ControllerCall | None) -> str | None:
    """The controller's event or request that led to the record; None where none is known."""
    cause = record.cause
    if call is not None:
        return call.event.removesuffix("Received")
    if cause is None or cause.controller is None:
        return None if cause is None else cause.event
    return f"{cause.event} of controller {cause.controller}"


def utc_text(at_ms: int) -> str:
    """A time in ms since 1970, to the millisecond."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        # No date that a calendar has: a record may say anything.
        return f"{at_ms} ms"


_ANONYMOUS: Final = "ANONYMOUS"
