"""What a controller wrote wrongly, or what went badly, at the end of the newest log, so that nothing contradicts it."""

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.logs import CONTROLLER, Logs, Record, next_event

DAY_MS: Final = 86_400_000


class State(NamedTuple):
    """The next state of a partition: leader, by how much the leader epoch rises, ISR."""

    leader: int
    step: int
    isr: list[int]


class Brokers(NamedTuple):
    """Of a partition that has one replica in sync: its leader, and another replica."""

    leader: int
    other: int


def chosen_partition(records: Sequence[Record]) -> Record:
    """The newest state of the partition that a controller's log is about last."""
    known = [r for r in records if r["kind"] in {"partition", "isr"} and r.get("leader", -1) >= 0]
    return max((r for r in known if len(r["replicas"]) > 1 and is_last(r, known)), key=lambda r: r["seq"])


def is_last(record: Record, known: Sequence[Record]) -> bool:
    of_same = [r for r in known if (r["topic"], r["partition"]) == (record["topic"], record["partition"])]
    return record is of_same[-1]


def brokers(record: Record) -> Brokers:
    return Brokers(record["leader"], next(broker for broker in record["replicas"] if broker != record["leader"]))


def move_back(records: Sequence[Record], state: Record, *more: int) -> list[Record]:
    """The reassignment that gives the partition the replicas again that it had in this state, and `more`; none if the
    controller has started it.
    """
    names = ("topic_id", "partition")
    of_partition = [r for r in records if r["kind"] == "assignment" and all(r[n] == state[n] for n in names)]
    last, replicas = of_partition[-1], [*state["replicas"], *more]
    if set(replicas) <= set(last["replicas"]):
        return []
    kept = set(last["replicas"]) - set(last["adding_replicas"] if last["to_state"] == "started" else ())
    base = {name: value for name, value in last.items() if name != "seq"}
    adding = [broker for broker in replicas if broker not in kept]
    cause = {"event": "ApiPartitionReassignment", "id": next_event(records)}
    moved = {"to_state": "started", "replicas": replicas, "adding_replicas": adding, "removing_replicas": []}
    at_ms = max(record["at_ms"] for record in records)
    return [{**base, **moved, "cause": cause, "principal": "ANONYMOUS", "at_ms": at_ms}]


def then(
    states: Callable[[Brokers], Sequence[State]], every_ms: int = 1_000, **fields: object
) -> Callable[[Logs], object]:
    """Let the controller write these states of a partition, each so long after the last; `fields`: of the last."""

    def add(records: list[Record]) -> None:
        last = chosen_partition(records)
        named = brokers(last)
        at_ms = max(record["at_ms"] for record in records)
        records.extend(move_back(records, last))
        for state in states(named):
            at_ms += every_ms
            last = {
                **last, "at_ms": at_ms, "kind": "isr", "leader": state.leader, "isr": state.isr,
                "leader_epoch": last["leader_epoch"] + state.step, "partition_epoch": last["partition_epoch"] + 1,
                "cause": {"event": "BrokerChange", "id": next_event(records)}, "reason": "drawn",
            }  # fmt: skip
            last.pop("seq", None)
            records.append(last)
        last.update(fields)

    return lambda logs: logs.write_wrongly(CONTROLLER, add)


def stall(kind: str, *also: str) -> Callable[[Logs], object]:
    """Let work begin, and end two days later."""

    def add(records: list[Record]) -> None:
        state = chosen_partition(records)
        names = ["v", "node", "incarnation", "controller_epoch", "topic", "topic_id", *also]
        at_ms = max(record["at_ms"] for record in records)
        for to_state, later in (("started", 1), ("completed", 2 * DAY_MS)):
            cause = {**state["cause"], "id": next_event(records)}
            base = {"cause": cause, "principal": "ANONYMOUS", **{name: state[name] for name in names}}
            records.append({**base, "kind": kind, "to_state": to_state, "at_ms": at_ms + later})

    return lambda logs: logs.write_wrongly(CONTROLLER, add)


def under_min_isr(logs: Logs) -> None:
    """A leader that takes min.insync.replicas for 2 has the ISR for itself for two hours."""
    then(lambda b: [State(b.leader, 1, [b.leader]), State(b.leader, 0, [b.leader, b.other])], 2 * 3_600_000)(logs)
    written = json.loads(logs.largest(CONTROLLER).read_bytes().splitlines()[-2])
    leader = written["leader"]
    names = ("v", "controller_epoch", "topic", "topic_id", "partition", "leader", "leader_epoch", "partition_epoch")
    cause = {**written["cause"], "controller": 1001, "controller_epoch": written["controller_epoch"]}
    taken = {name: written[name] for name in (*names, "isr", "replicas", "at_ms")}
    taken |= {"kind": "role", "broker": leader, "to_state": "leader", "cause": cause, "min_insync_replicas": 2}
    newest = logs.all(f"broker-{leader}-")[-1]

    def add(records: list[Record]) -> None:
        records.append({**taken, "node": records[0]["node"], "incarnation": records[0]["incarnation"]})

    logs.all_as_written({newest: add})


def back_and_forth(b: Brokers) -> list[State]:
    both = [b.leader, b.other]
    return [State(b.leader, 0, both)] + [State(leader, 1, both) for _ in range(20) for leader in (b.other, b.leader)]


def in_and_out(b: Brokers) -> list[State]:
    both = [b.leader, b.other]
    return [State(b.leader, 0, both)] + [State(b.leader, 0, isr) for _ in range(70) for isr in ([b.leader], both)]


def write_twice(logs: Logs) -> None:
    """One partition epoch with two contents, of one leader."""

    def add(records: list[Record]) -> None:
        state = chosen_partition(records)
        again = {**state, "isr": list(brokers(state)), "at_ms": max(r["at_ms"] for r in records) + 1}
        del again["seq"]
        again |= {"cause": {**state["cause"], "id": next_event(records)}, "broker": state["leader"]}
        again["reason"] = f"asked by broker {state['leader']}"
        records.append(again)

    logs.write_wrongly(CONTROLLER, add)


FAULTS_OF_HISTORIES: Final[dict[str, Fault]] = {
    "a leader outside of the ISR": Fault(then(lambda b: [State(b.leader, 0, [b.other])]), {"leader-in-isr": 1}),
    "an empty ISR": Fault(then(lambda b: [State(b.leader, 0, [])]), {"isr-not-empty": 1}),
    "an ISR that names a broker twice": Fault(
        then(lambda b: [State(b.leader, 0, [b.leader] * 2)]), {"isr-without-repetition": 1}
    ),
    "an ISR outside of the replicas": Fault(
        then(lambda b: [State(b.leader, 0, [b.leader, 98])]), {"isr-within-replicas": 1}
    ),
    "an ISR with the greatest broker id": Fault(
        then(lambda b: [State(b.leader, 0, [b.leader, (1 << 31) - 1])]), {"isr-within-replicas": 1}
    ),
    "a leader that was not in the ISR": Fault(
        then(lambda b: [State(b.other, 1, [b.other, b.leader])]), {"leader-from-isr": 1}
    ),
    "a leader epoch that fell": Fault(
        then(lambda b: [State(b.leader, step, [b.leader]) for step in (1, 1, -1)]), {"leader-epoch-never-back": 1}
    ),
    "a leader epoch raised by seven": Fault(
        then(lambda b: [State(b.leader, 7, [b.leader])]), {"leader-epoch-by-one": 1}
    ),
    "two states of one partition epoch": Fault(write_twice, {"one-state-per-partition-epoch": 1}),
    "a write of an earlier controller epoch": Fault(
        then(lambda b: [State(b.leader, 0, [b.leader])], controller_epoch=1),
        {"controller-epoch-never-back": 1, "written-outside-term": 1},
    ),
    "a leader missing for an hour": Fault(
        then(lambda b: [State(-1, 1, [b.leader]), State(b.leader, 1, [b.leader])], 3_600_000),
        {"leaderless-too-long": 1},
    ),
    "an unclean election": Fault(
        then(lambda b: [State(b.leader, 1, [b.leader]), State(b.other, 1, [b.other])]), {"unclean-election": 1}
    ),
    "a leader that changes back and forth": Fault(then(back_and_forth), {"leader-flapping": 1}),
    "an ISR that shrinks again and again": Fault(then(in_and_out), {"isr-flapping": 1}),
    "an ISR below min.insync.replicas for two hours": Fault(under_min_isr, {"under-min-isr-too-long": 1}),
    "a reassignment of two days": Fault(stall("assignment", "partition"), {"reassignment-without-progress": 1}),
    "a deletion of two days": Fault(stall("deletion"), {"deletion-without-progress": 1}),
}
"""Name -> fault. A fall is found twice by its rule: between the states, and in what the process has shown."""
