"""The history of one partition as text: leaders over time, why they changed, and which request led to it.

Clocks of different nodes are not compared. Records of controllers are ordered by partition epoch; what an agent did
follows the record of the controller's event that caused it.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from state_log.causes import BY_AGENTS, Call, ControllerEvent, call_of, calls_by_event, controller_event, origin_text
from state_log.record import Kind, LoggedStateChange

_Place = tuple[int, int, bool, str, str, int]
"""Partition epoch, controller epoch, whether an agent wrote it, node, incarnation, number."""
_NONE: Final = -1


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
    """A period with one leader (-1: none) in one leader epoch; `until_ms` is None for the current one."""

    leader: int
    leader_epoch: int
    since_ms: int
    until_ms: int | None
    why: str


def story(records: Iterable[LoggedStateChange]) -> list[StoryLine]:
    """The events in causal order. The records must be those of one partition (`read_state_changes`)."""
    ordered = _in_order(records)
    calls = calls_by_event(ordered)
    lines = []
    for record in ordered:
        call = call_of(record, calls)
        lines.append(StoryLine(record.at_ms, record.node, _message(record, call), record, call))
    return lines


def leadership_history(records: Iterable[LoggedStateChange]) -> list[LeadershipSpan]:
    """Leaders over time and the causes of their elections, from the records of controllers; oldest first."""
    spans: list[LeadershipSpan] = []
    ordered = _in_order(records)
    calls = calls_by_event(ordered)
    for record in ordered:
        if record.kind in BY_AGENTS or record.leader is None or record.leader_epoch is None:
            continue
        if spans and record.leader_epoch <= spans[-1].leader_epoch:
            continue
        if spans:
            last = spans.pop()
            spans.append(LeadershipSpan(last.leader, last.leader_epoch, last.since_ms, record.at_ms, last.why))
        spans.append(
            LeadershipSpan(record.leader, record.leader_epoch, record.at_ms, None, _why(record, call_of(record, calls)))
        )
    return spans


def _in_order(records: Iterable[LoggedStateChange]) -> list[LoggedStateChange]:
    """Sort by partition epoch, then controller epoch, controllers before agents.

    A record without a partition epoch sorts with its predecessor on the same node. No record of an agent sorts before
    the controller's event that caused it, though a topic that was created anew begins with partition epoch 0 again.
    """
    by_node = sorted(records, key=lambda r: (r.kind in BY_AGENTS, r.node, r.incarnation, r.seq))
    newest: dict[tuple[str, str], tuple[int, int]] = {}
    events: dict[ControllerEvent, list[int]] = {}
    placed: list[tuple[_Place, LoggedStateChange]] = []
    for record in by_node:
        run, event, by_agent = (record.node, record.incarnation), controller_event(record), record.kind in BY_AGENTS
        partition_epoch, controller_epoch = newest.get(run, (_NONE, _NONE))
        partition_epoch = max(partition_epoch, _or_none(record.partition_epoch))
        controller_epoch = max(controller_epoch, _or_none(record.controller_epoch))
        if event is not None:
            of_event = events.setdefault(event, [])
            if not by_agent:
                of_event.append(partition_epoch)
            elif of_event:
                # What has no epoch of its own, such as the end of a replica, is the last that an event leads to.
                partition_epoch = max(partition_epoch, of_event[-1 if record.partition_epoch is None else 0])
            controller_epoch = max(controller_epoch, event.controller_epoch)
        newest[run] = (partition_epoch, controller_epoch)
        placed.append(((partition_epoch, controller_epoch, by_agent, *run, record.seq), record))
    return [record for _, record in sorted(placed, key=lambda item: item[0])]


def _or_none(epoch: int | None) -> int:
    return _NONE if epoch is None else epoch


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
