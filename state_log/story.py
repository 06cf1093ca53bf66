"""The history of one partition as text: leaders over time, why they changed, and which request led to it.

It is in causal order (`state_log.causal_order`). A topic that was deleted and created again has a history for each id.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from cluster.model.broker import NO_LEADER
from state_log.causal_order import in_causal_order
from state_log.causes import (
    BY_AGENTS,
    ControllerCall,
    call_of,
    calls_by_event,
    event_text,
    is_granted_isr,
    is_written_isr,
    origin_text,
    request_text,
)
from state_log.record import Kind, LoggedStateChange

_ENDS: Final = ("deleted", "removed")
"""Of a topic: by the controller, or by somebody else in ZooKeeper."""

_NO_CAUSE: Final = "no cause was recorded"
_LEADING_OR_FOLLOWING: Final = ("leader", "follower")
_MOVES: Final = {"started": "begins to move", "completed": "has moved", "abandoned": "no longer moves"}


class StoryLine(Struct, frozen=True):
    """One event of the partition, with the time of the node that recorded it.

    `change`: what happened; `cause`: the event that led to it, and why, empty if unknown; `call`: the request to a
    controller that led to it, None if there was none, or if its record is missing.
    """

    at_ms: int
    node: str
    change: str
    cause: str
    record: LoggedStateChange
    call: ControllerCall | None

    @property
    def message(self) -> str:
        """The whole entry in one line."""
        reasons = _reasons(self.record, self.call)
        if self.record.kind not in BY_AGENTS:
            return f"{self.change}: {reasons or _NO_CAUSE}"
        return f"{self.change}: {reasons}" if reasons else self.change


class LeadershipSpan(Struct, frozen=True):
    """A period with one leader (-1: none); `until_ms` is None for the current one, `leader_epoch` its first.

    `cause`: the event that led to it, and why; `call`: of which request. `topic_id`: of which topic of that name; None
    before topics had ids. `deleted`: the end of that topic, not a leadership; its leader and epoch are -1.
    """

    leader: int
    leader_epoch: int
    since_ms: int
    until_ms: int | None
    cause: str
    topic_id: str | None = None
    deleted: bool = False
    call: ControllerCall | None = None

    @property
    def why(self) -> str:
        """The cause, and all that is known of the request."""
        return self.cause if self.call is None else f"{self.cause}, {request_text(self.call)}"


def story(records: Iterable[LoggedStateChange]) -> list[StoryLine]:
    """The events in causal order. The records must be those of one partition (`read_state_changes`)."""
    ordered = in_causal_order(records)
    calls = calls_by_event(ordered)
    lines = []
    for record in ordered:
        call = call_of(record, calls)
        lines.append(StoryLine(record.at_ms, record.node, _change(record), _cause(record, call), record, call))
    return lines


def leadership_history(records: Iterable[LoggedStateChange]) -> list[LeadershipSpan]:
    """Leaders over time and the causes of their elections, from the records of controllers; oldest first."""
    spans: list[LeadershipSpan] = []
    ordered = in_causal_order(records)
    calls = calls_by_event(ordered)
    for record in ordered:
        span = _span(record, call_of(record, calls))
        if span is None or (spans and _is_known(span, spans[-1])):
            continue
        if spans and spans[-1].until_ms is None:
            spans[-1] = replace(spans[-1], until_ms=record.at_ms)
        spans.append(span)
    return spans


def _span(record: LoggedStateChange, call: ControllerCall | None) -> LeadershipSpan | None:
    """The leadership that a controller's record tells of, or the end of the topic; None where it is neither."""
    cause = _cause(record, call) or _NO_CAUSE
    if record.kind is Kind.TOPIC and record.to_state in _ENDS:
        return LeadershipSpan(-1, -1, record.at_ms, record.at_ms, cause, record.topic_id, deleted=True, call=call)
    if record.kind in BY_AGENTS or record.leader is None or record.leader_epoch is None:
        return None
    leader, epoch = record.leader, record.leader_epoch
    return LeadershipSpan(leader, epoch, record.at_ms, None, cause, record.topic_id, call=call)


def _is_known(span: LeadershipSpan, last: LeadershipSpan) -> bool:
    """Whether the last span says the same: a later record of the same leader epoch, or of the same end, or still no
    leader, in a later epoch.
    """
    if span.topic_id != last.topic_id or (last.deleted and not span.deleted):
        return False
    if span.deleted:
        return last.deleted
    return span.leader_epoch <= last.leader_epoch or span.leader == last.leader == NO_LEADER


def _change(record: LoggedStateChange) -> str:
    match record.kind:
        case Kind.LOADED:
            return f"a new controller (epoch {record.controller_epoch}) found {_leadership(record)}"
        case Kind.PARTITION | Kind.ISR if record.leader is not None:
            return _leadership(record)
        case Kind.ASSIGNMENT | Kind.REPLICA:
            return _replicas(record)
        case Kind.ROLE:
            whose = "the replica of " if record.to_state not in _LEADING_OR_FOLLOWING else ""
            return f"{whose}broker {record.broker} {_role(record)}"
        case _:
            return _other_change(record)


def _other_change(record: LoggedStateChange) -> str:
    match record.kind:
        case Kind.TRUNCATION:
            return f"broker {record.broker} cut its log"
        case Kind.DIRECTORY_MOVE:
            moves = _MOVES.get(record.to_state or "", "moves")
            return f"broker {record.broker} {moves} its replica to another log directory"
        case Kind.ACCESS_RULE:
            return f"access rule {record.to_state}"
        case Kind.CONFIG:
            return f"min.insync.replicas is {record.min_insync_replicas}"
        case _:
            return f"{record.kind.value} {_move(record)}"


def _leadership(record: LoggedStateChange) -> str:
    if record.leader is None or record.isr is None:
        return "no leader yet"
    leader = "no leader" if record.leader < 0 else f"leader {record.leader}"
    return f"{leader} in epoch {record.leader_epoch}, in sync {list(record.isr)}"


def _replicas(record: LoggedStateChange) -> str:
    if record.replicas is not None:
        return f"replicas {list(record.replicas)}"
    return f"the replica of broker {record.broker}: {_move(record)}"


def _role(record: LoggedStateChange) -> str:
    match record.to_state:
        case "leader" if is_granted_isr(record) or is_written_isr(record):
            return f"leads on in epoch {record.leader_epoch}, in sync {list(record.isr or ())}"
        case "leader":
            return f"leads in epoch {record.leader_epoch}"
        case "follower":
            leader = "nobody" if record.leader is None or record.leader < 0 else f"broker {record.leader}"
            return f"follows {leader} in epoch {record.leader_epoch}"
        case _:
            return f"is {record.to_state}"


def _move(record: LoggedStateChange) -> str:
    return " to ".join(state for state in (record.from_state, record.to_state) if state is not None)


def _cause(record: LoggedStateChange, call: ControllerCall | None) -> str:
    # Some elections are for the reason that the event has its name from.
    texts = dict.fromkeys((event_text(record, call), record.reason))
    return ", ".join(text for text in texts if text is not None)


def _reasons(record: LoggedStateChange, call: ControllerCall | None) -> str:
    return ", ".join(text for text in (origin_text(record, call), record.reason) if text is not None)
