"""Orders the records of several nodes as they happened: causes before effects, and otherwise by time.

Clocks of machines differ by milliseconds, and a role follows its decision within one: by time alone, effects would
often stand before their causes. What is known to have come before what, whatever the clocks say:
- the records of one node, by incarnation and number;
- the records of all controllers, by controller epoch: ZooKeeper refuses the writes of an earlier one;
- the controller's record that an agent carries out, before the agent's;
- an agent's role, before the change of the ISR or the end of a deletion that the controller records because of it.

Among records of which neither must come first, the one with the earlier time does; so the order is that of time
wherever the clocks agree with the causes.
"""

import heapq
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

from state_log.causes import BY_AGENTS, ISR_GRANTED, ControllerEvent, controller_event, is_granted_isr
from state_log.record import Kind, LoggedStateChange

_STATE_BEHIND: Final = {"stopped": "OfflineReplica", "deleted": "ReplicaDeletionStarted", "offline": "OfflineReplica"}
"""The replica state that the controller recorded before it had an agent take this role."""
_DELETED: Final = "ReplicaDeletionSuccessful"

_Key = tuple[int, bool, str, str, int]


def in_causal_order(records: Iterable[LoggedStateChange]) -> list[LoggedStateChange]:
    """Order the records, which must be those of one partition, in a way that depends on nothing but them.

    Readers that have the same records, in whatever order they arrived, so see the same story.
    """
    ordered = sorted(records, key=_key)
    followers: list[list[int]] = [[] for _ in ordered]
    for before, after in _known_pairs(ordered):
        followers[before].append(after)
    return [ordered[index] for index in _topological(followers)]


def _key(record: LoggedStateChange) -> _Key:
    return record.at_ms, record.kind in BY_AGENTS, record.node, record.incarnation, record.seq


def _topological(followers: Sequence[Sequence[int]]) -> list[int]:
    """Order the numbers from 0: each after those that it follows, and the lowest first where several may come.

    Records that contradict one another, as in a log that was tampered with, may follow each other in a circle. Then the
    lowest of them goes first.
    """
    missing = [0] * len(followers)
    for after in followers:
        for index in after:
            missing[index] += 1
    ready = [index for index, count in enumerate(missing) if not count]
    found: list[int] = []
    placed = [False] * len(followers)
    lowest = 0
    while len(found) < len(followers):
        if not ready:
            while placed[lowest]:
                lowest += 1
            ready.append(lowest)
        index = heapq.heappop(ready)
        if placed[index]:
            continue
        placed[index] = True
        found.append(index)
        for after_it in followers[index]:
            missing[after_it] -= 1
            if not missing[after_it] and not placed[after_it]:
                heapq.heappush(ready, after_it)
    return found


def _known_pairs(records: Sequence[LoggedStateChange]) -> list[tuple[int, int]]:
    """Find pairs of indexes whose first record came before the second."""
    runs: dict[str, list[int]] = defaultdict(list)
    for index, record in enumerate(records):
        runs[record.node].append(index)
    for run in runs.values():
        run.sort(key=lambda i: (records[i].incarnation, records[i].seq))
    pairs = [pair for run in runs.values() for pair in pairwise(run)]
    decided = _by_controllers(records, runs.values())
    pairs += pairwise(decided)
    place = {index: number for number, index in enumerate(decided)}
    find = _decisions(records, decided)
    effects = _effects(records, decided)
    for index, record in enumerate(records):
        if record.kind not in BY_AGENTS:
            continue
        decisions = find(record)
        pairs += [(decision, index) for decision in decisions]
        places = effects.get(_effect_of_role(record), ())
        later = bisect_right(places, max((place[decision] for decision in decisions), default=-1))
        pairs += [(index, decided[number]) for number in places[later : later + 1]]
    return pairs


def _by_controllers(records: Sequence[LoggedStateChange], runs: Iterable[Sequence[int]]) -> list[int]:
    """The records of all controllers, by controller epoch; one without it has that of the record before it."""
    epochs: dict[int, int] = {}
    for run in runs:
        newest = -1
        for index in run:
            epoch = records[index].controller_epoch
            newest = newest if epoch is None else max(newest, epoch)
            epochs[index] = newest
    by_node = [index for run in runs for index in run if records[index].kind not in BY_AGENTS]
    return sorted(by_node, key=lambda i: epochs[i])


def _decisions(
    records: Sequence[LoggedStateChange], decided: Sequence[int]
) -> Callable[[LoggedStateChange], list[int]]:
    """Make the function that finds the controllers' records that an agent's record cannot precede.

    These are the record that wrote the partition epoch, and that of the event that the agent names; if the event left
    no record about the partition, the last one before it.
    """
    of_event: dict[ControllerEvent, list[int]] = defaultdict(list)
    of_epoch: dict[tuple[str | None, int], int] = {}
    for index in decided:
        record = records[index]
        event = controller_event(record)
        if event is not None:
            # What a controller found at its start was there before all its events.
            of_event[event._replace(id=-1) if record.kind is Kind.LOADED else event].append(index)
        if record.partition_epoch is not None:
            of_epoch.setdefault((record.topic_id, record.partition_epoch), index)
    events = sorted(of_event)

    def find(record: LoggedStateChange) -> list[int]:
        found = []
        if record.partition_epoch is not None:
            found += [of_epoch.get((record.topic_id, record.partition_epoch))]
        event = controller_event(record)
        if event in of_event:
            found += [_carried_out(records, of_event[event], record)]
        elif event is not None and (earlier := bisect_left(events, event)):
            found += [of_event[events[earlier - 1]][-1]]
        return [index for index in found if index is not None]

    return find


def _carried_out(records: Sequence[LoggedStateChange], of_event: Sequence[int], record: LoggedStateChange) -> int:
    """Find the record of one event of the controller that an agent's record carries out, as far as that is known."""
    if record.partition_epoch is None:
        wanted = _STATE_BEHIND.get(record.to_state or "")
        fitting = [i for i in of_event if _moves(records[i], record.broker, wanted)]
    else:
        fitting = [i for i in of_event if records[i].partition_epoch == record.partition_epoch]
    return (fitting or of_event)[0]


_Effect = tuple[object, ...] | None
"""What a controller records because an agent did something, as both records name it."""


def _effects(records: Sequence[LoggedStateChange], decided: Sequence[int]) -> dict[_Effect, list[int]]:
    """Find the places in `decided` of the records that follow from what an agent did."""
    found: dict[_Effect, list[int]] = defaultdict(list)
    for number, record in enumerate(records[index] for index in decided):
        if _moves(record, record.broker, _DELETED):
            found["deleted", record.broker].append(number)
        elif record.cause is not None and record.cause.event.startswith(ISR_GRANTED):
            found["leader", record.topic_id, record.leader, record.leader_epoch].append(number)
    return found


def _effect_of_role(record: LoggedStateChange) -> _Effect:
    match record.kind, record.to_state:
        case Kind.ROLE, "deleted":
            return "deleted", record.broker
        # An ISR that was granted is recorded after what the controller recorded, which `_decisions` finds.
        case Kind.ROLE, "leader" if not is_granted_isr(record):
            return "leader", record.topic_id, record.broker, record.leader_epoch
        case _:
            return None


def _moves(record: LoggedStateChange, broker: int | None, state: str | None) -> bool:
    return record.kind is Kind.REPLICA and record.broker == broker and record.to_state == state
