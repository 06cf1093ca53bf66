"""The history of one partition as text: leaders over time, why they changed, and which request led to it.

In causal order (`state_log.causal_order`). A topic that was deleted and created anew has a history for each of its ids.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from state_log.causal_order import in_causal_order
from state_log.causes import BY_AGENTS, Call, call_of, calls_by_event, origin_text
from state_log.record import Kind, LoggedStateChange

_ENDS: Final = ("deleted", "removed")
"""Of a topic: by the controller, or by somebody else in ZooKeeper."""


class StoryLine(Struct, frozen=True):
    """One event of the partition, with the time of the node that recorded it.

    `call`: the request to a controller that led to it; None if there was none, or if its record is missing.
    """

    at_ms: int
    node: str
    message: str
    record: LoggedStateChange
    call: Call | None


class LeadershipSpan(Struct, frozen=True):
    """A period with one leader (-1: none) in one leader epoch; `until_ms` is None for the current one.

    `topic_id`: of which topic of that name; None before topics had ids. `deleted`: the end of that topic, not a
    leadership; its leader and epoch are -1.
    """

    leader: int
    leader_epoch: int
    since_ms: int
    until_ms: int | None
    why: str
    topic_id: str | None = None
    deleted: bool = False


def story(records: Iterable[LoggedStateChange]) -> list[StoryLine]:
    """The events in causal order. The records must be those of one partition (`read_state_changes`)."""
    ordered = in_causal_order(records)
    calls = calls_by_event(ordered)
    lines = []
    for record in ordered:
        call = call_of(record, calls)
        lines.append(StoryLine(record.at_ms, record.node, _message(record, call), record, call))
    return lines


def leadership_history(records: Iterable[LoggedStateChange]) -> list[LeadershipSpan]:
    """Leaders over time and the causes of their elections, from the records of controllers; oldest first."""
    spans: list[LeadershipSpan] = []
    ordered = in_causal_order(records)
    calls = calls_by_event(ordered)
    for record in ordered:
        span = _span(record, _why(record, call_of(record, calls)))
        if span is None or (spans and _is_known(span, spans[-1])):
            continue
        if spans and spans[-1].until_ms is None:
            spans[-1] = replace(spans[-1], until_ms=record.at_ms)
        spans.append(span)
    return spans


def _span(record: LoggedStateChange, why: str) -> LeadershipSpan | None:
    """The leadership that a controller's record tells of, or the end of the topic; None where it is neither."""
    if record.kind is Kind.TOPIC and record.to_state in _ENDS:
        return LeadershipSpan(-1, -1, record.at_ms, record.at_ms, why, record.topic_id, deleted=True)
    if record.kind in BY_AGENTS or record.leader is None or record.leader_epoch is None:
        return None
    return LeadershipSpan(record.leader, record.leader_epoch, record.at_ms, None, why, record.topic_id)


def _is_known(span: LeadershipSpan, last: LeadershipSpan) -> bool:
    """Whether the last span says the same: a later record of the same leader epoch, or of the same end."""
    if span.topic_id != last.topic_id or (last.deleted and not span.deleted):
        return False
    return last.deleted if span.deleted else span.leader_epoch <= last.leader_epoch


def _message(record: LoggedStateChange, call: Call | None) -> str:
    if record.kind not in BY_AGENTS:
        return f"{_change(record)}: {_why(record, call)}"
    reasons = _reasons(record, call)
    return f"{_change(record)}: {reasons}" if reasons else _change(record)


def _change(record: LoggedStateChange) -> str:
    match record.kind:
        case Kind.LOADED:
            return f"a new controller (epoch {record.controller_epoch}) found {_leadership(record)}"
        case Kind.PARTITION | Kind.ISR if record.leader is not None:
            return _leadership(record)
        case Kind.ASSIGNMENT | Kind.REPLICA:
            return _replicas(record)
        case Kind.ROLE:
            return f"broker {record.broker} {_role(record)}"
        case Kind.TRUNCATION:
            return f"broker {record.broker} cut its log"
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
    return f"replica {record.broker} {_move(record)}"


def _role(record: LoggedStateChange) -> str:
    match record.to_state:
        case "leader" if record.cause is not None and record.cause.event == "AlterPartition":
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


def _why(record: LoggedStateChange, call: Call | None) -> str:
    return _reasons(record, call) or "no cause was recorded"


def _reasons(record: LoggedStateChange, call: Call | None) -> str:
    return ", ".join(text for text in (origin_text(record, call), record.reason) if text is not None)
