"""The history of one partition in words: who led when, and why it changed.

Clocks of different nodes are not compared. What controllers wrote is told in the order of partition epochs, and
what an agent did follows the state that it had been told.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from state_log.record import Kind, LoggedStateChange

_BY_CONTROLLERS: Final = frozenset({Kind.LOADED, Kind.TOPIC, Kind.ASSIGNMENT, Kind.PARTITION, Kind.REPLICA, Kind.ISR})


class StoryLine(Struct, frozen=True):
    """One thing that happened to the partition, by the clock of the node that recorded it."""

    at_ms: int
    node: str
    message: str
    record: LoggedStateChange


class LeadershipSpan(Struct, frozen=True):
    """A time with one leader (-1: none) in one leader epoch; `until_ms` is None for the one that lasts."""

    leader: int
    leader_epoch: int
    since_ms: int
    until_ms: int | None
    why: str


def story(records: Iterable[LoggedStateChange]) -> list[StoryLine]:
    """What happened, cause before effect. The records are those of one partition (`read_state_changes`)."""
    return [StoryLine(record.at_ms, record.node, _message(record), record) for record in _in_order(records)]


def leadership_history(records: Iterable[LoggedStateChange]) -> list[LeadershipSpan]:
    """Who led when, and what made it so, as the controllers wrote it; oldest first."""
    spans: list[LeadershipSpan] = []
    for record in _in_order(records):
        if record.kind not in _BY_CONTROLLERS or record.leader is None or record.leader_epoch is None:
            continue
        if spans and record.leader_epoch <= spans[-1].leader_epoch:
            continue
        if spans:
            last = spans.pop()
            spans.append(LeadershipSpan(last.leader, last.leader_epoch, last.since_ms, record.at_ms, last.why))
        spans.append(LeadershipSpan(record.leader, record.leader_epoch, record.at_ms, None, _why(record)))
    return spans


def _in_order(records: Iterable[LoggedStateChange]) -> list[LoggedStateChange]:
    """Sort by partition epoch, then controller epoch, controllers before agents.

    A record without an epoch sorts with its predecessor on the same node.
    """
    by_node = sorted(records, key=lambda r: (r.node, r.incarnation, r.seq))
    newest: dict[tuple[str, str], tuple[int, int]] = {}
    placed = []
    for record in by_node:
        run = (record.node, record.incarnation)
        partition_epoch, controller_epoch = newest.get(run, (-1, -1))
        if record.partition_epoch is not None:
            partition_epoch = max(partition_epoch, record.partition_epoch)
        if record.controller_epoch is not None:
            controller_epoch = max(controller_epoch, record.controller_epoch)
        newest[run] = (partition_epoch, controller_epoch)
        follows = record.kind not in _BY_CONTROLLERS
        placed.append(((partition_epoch, controller_epoch, follows, *run, record.seq), record))
    return [record for _, record in sorted(placed, key=lambda item: item[0])]


def _message(record: LoggedStateChange) -> str:
    match record.kind:
        case Kind.LOADED:
            return f"a new controller (epoch {record.controller_epoch}) found {_leadership(record)}"
        case Kind.PARTITION | Kind.ISR if record.leader is not None:
            return f"{_leadership(record)}: {_why(record)}"
        case Kind.ASSIGNMENT | Kind.REPLICA:
            return f"{_replicas(record)}: {_why(record)}"
        case Kind.ROLE:
            return f"broker {record.broker} {_role(record)}"
        case Kind.TRUNCATION:
            return f"broker {record.broker} cut its log: {record.reason}"
        case _:
            return f"{record.kind.value} {_move(record)}: {_why(record)}"


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
            return f"is {record.to_state}" + ("" if record.reason is None else f": {record.reason}")


def _move(record: LoggedStateChange) -> str:
    return " to ".join(state for state in (record.from_state, record.to_state) if state is not None)


def _why(record: LoggedStateChange) -> str:
    event = None if record.cause is None else record.cause.event
    return ", ".join(text for text in (event, record.reason) if text is not None) or "no cause was recorded"
