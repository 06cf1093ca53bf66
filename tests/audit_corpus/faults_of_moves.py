"""Assignments, reassignments and state machines that a controller recorded wrongly: others have seen these lines."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.faults_of_histories import State, then
from tests.audit_corpus.faults_of_records import first, of_agent, of_controller
from tests.audit_corpus.logs import CONTROLLER, Logs, Record, later_cause

OTHER: Final = 97
"""A broker that there is not."""
_OF_PARTITION: Final = ("v", "node", "incarnation", "controller_epoch", "topic", "topic_id", "partition")
Steps = Callable[[Record], Sequence[dict[str, Any]]]
"""Fields of records about a partition, by its last state."""


def unmoved(records: Sequence[Record]) -> Record:
    """The newest state of a partition that is in no reassignment, and has two replicas in sync."""
    states = {
        (r["topic_id"], r["partition"]): r for r in records if r["kind"] in {"partition", "isr"} and "leader" in r
    }
    moved = {(r["topic_id"], r["partition"]) for r in records if r["kind"] == "assignment"}
    return max((r for key, r in states.items() if key not in moved and len(r["isr"]) > 1), key=lambda r: r["seq"])


def add(steps: Steps, choose: Callable[[Sequence[Record]], Record] = unmoved) -> Callable[[Logs], object]:
    """Let the controller record these about a partition at the end of its log. `choose`: its last state."""

    def change(records: list[Record]) -> None:
        state = choose(records)
        base = {name: state[name] for name in _OF_PARTITION}
        base["cause"] = {"event": "ApiPartitionReassignment", "id": 9_000}
        base |= {"principal": "ANONYMOUS", "at_ms": max(record["at_ms"] for record in records)}
        records.extend({**base, **fields} for fields in steps(state))

    return lambda logs: logs.write_wrongly(CONTROLLER, change)


def assigned(
    to_state: str, replicas: Sequence[int], adding: Sequence[int] = (), removing: Sequence[int] = ()
) -> dict[str, Any]:
    parts = {"adding_replicas": list(adding), "removing_replicas": list(removing)}
    return {"kind": "assignment", "to_state": to_state, "replicas": list(replicas), **parts}


def moved(broker: int, *states: str) -> list[dict[str, Any]]:
    """A replica goes through these states."""
    return [
        {"kind": "replica", "broker": broker, "from_state": before, "to_state": after}
        for before, after in pairwise(states)
    ]


def other(state: Record) -> int:
    return next(broker for broker in state["replicas"] if broker != state["leader"])


def gone(broker: int) -> list[dict[str, Any]]:
    """A replica is stopped and deleted."""
    deleted = ("ReplicaDeletionStarted", "ReplicaDeletionSuccessful", "NonExistentReplica")
    return moved(broker, "OnlineReplica", "OfflineReplica", *deleted)


def add_other(state: Record) -> dict[str, Any]:
    """A reassignment starts that adds a broker."""
    return assigned("started", [*state["replicas"], OTHER], adding=[OTHER])


def remove(state: Record, broker: int) -> list[dict[str, Any]]:
    """A reassignment starts that removes a broker."""
    return [assigned("started", state["replicas"], removing=[broker])]


def without(state: Record, broker: int) -> list[int]:
    return [replica for replica in state["replicas"] if replica != broker]


def shrunk(state: Record, replicas: Sequence[int]) -> dict[str, Any]:
    """The ISR loses those that are not among these."""
    isr = [broker for broker in state["isr"] if broker in replicas]
    fields = {name: state[name] for name in ("leader", "leader_epoch", "replicas")}
    return {"kind": "isr", "isr": isr, "partition_epoch": state["partition_epoch"] + 1, "reason": "drawn", **fields}


def created(**fields: object) -> Callable[[Logs], object]:
    """A partition more, whose first state has these fields."""

    def change(records: list[Record]) -> None:
        topic = [r for r in records if r.get("to_state") == "NewPartition"][-1]
        number = max(r["partition"] for r in records if r.get("topic") == topic["topic"] and "partition" in r) + 1
        base = {k: v for k, v in topic.items() if k != "seq"} | {"partition": number, "at_ms": records[-1]["at_ms"]}
        base["cause"] = later_cause(records, base)
        broker = topic["replicas"][0]
        state = {"leader": broker, "leader_epoch": 0, "partition_epoch": 0, "isr": [broker], "reason": "initialised"}
        online = {"from_state": "NewPartition", "to_state": "OnlinePartition"}
        records.extend([base, {**base, **online, **state, **fields}])

    return of_controller(change)


def offline_with_leader(records: list[Record]) -> None:
    record = last(records, "partition", to_state="OfflinePartition", from_state="OnlinePartition", topic="t4")
    seq = record["seq"]
    same = [r for r in records if all(r.get(n) == record[n] for n in ("topic_id", "partition")) and r["seq"] < seq]
    state = [r for r in same if r.get("leader", -1) >= 0][-1]
    record.update({name: state[name] for name in ("leader", "leader_epoch", "partition_epoch", "isr")})


def last(records: list[Record], kind: str, **fields: object) -> Record:
    return first(records[::-1], kind, **fields)


def drop(kind: str, **fields: object) -> Callable[[list[Record]], object]:
    """The last such record is not written."""
    return lambda records: records.remove(last(records, kind, **fields))


def repeat(records: list[Record]) -> None:
    record = first(records, "replica", from_state="OfflineReplica", to_state="OnlineReplica")
    again = {k: v for k, v in record.items() if k != "seq"}
    records.insert(records.index(record) + 1, again)


def start(records: list[Record]) -> Record:
    return first(records, "assignment", to_state="started")


def unasked(kind: str, event: str) -> Callable[[Logs], object]:
    def change(records: list[Record]) -> None:
        record = next(r for r in records if r["kind"] == kind and r["cause"]["event"] == event)
        del record["principal"]

    return of_controller(change)


def last_isr(change: Callable[[Record], object]) -> Callable[[Logs], object]:
    """The last state of a partition is written with something else, and brokers were never stated."""
    return lambda logs: (
        then(lambda b: [State(b.leader, 0, [b.leader])])(logs),
        of_controller(lambda records: change(records[-1]))(logs),
    )


FAULTS_OF_MOVES: Final[dict[str, Fault]] = {
    "a move completed without its new replica in the ISR": Fault(
        add(lambda s: [add_other(s), assigned("completed", [*s["replicas"], OTHER])]), {"move-completed-in-sync": 1}
    ),
    "a move completed without the new replica that was planned": Fault(
        add(lambda s: [add_other(s), assigned("completed", s["replicas"])]), {"move-ends-as-planned": 1}
    ),
    "a move completed that was cancelled": Fault(
        add(
            lambda state: [
                add_other(state),
                assigned("cancelled", state["replicas"]),
                assigned("completed", [*state["replicas"], OTHER]),
            ]
        ),
        {"move-ends-as-planned": 1},
    ),
    "a move cancelled that keeps its new replica": Fault(
        add(lambda s: [add_other(s), assigned("cancelled", [*s["replicas"], OTHER])]), {"move-ends-as-planned": 1}
    ),
    "a move completed again with another replica": Fault(
        add(
            lambda s: [
                *(assigned("started", s["replicas"]), assigned("completed", s["replicas"])),
                assigned("completed", [*s["replicas"], OTHER]),
            ]
        ),
        {"move-ends-as-planned": 1},
    ),
    "a move that starts from other replicas": Fault(
        add(lambda s: [assigned("started", [*s["replicas"], OTHER])]), {"move-ends-as-planned": 1}
    ),
    "a second move that forgets the first replicas": Fault(
        add(lambda s: [add_other(s), assigned("started", [OTHER, s["leader"]], adding=[OTHER])]),
        {"move-ends-as-planned": 1},
    ),
    "a move completed while a removed replica leads": Fault(
        add(
            lambda s: [
                *remove(s, s["leader"]),
                *gone(s["leader"]),
                assigned("completed", without(s, s["leader"])),
            ]
        ),
        {"leader-moved-along": 1, "offline-replica-does-not-lead": 1},
    ),
    "a move that leaves its removed replica running": Fault(
        add(
            lambda s: [
                *remove(s, other(s)),
                shrunk(s, without(s, other(s))),
                assigned("completed", without(s, other(s))),
            ]
        ),
        {"removed-replica-deleted": 1},
    ),
    "a move that stops its removed replica, and does not delete it": Fault(
        add(
            lambda s: [
                *remove(s, other(s)),
                shrunk(s, without(s, other(s))),
                *moved(other(s), "OnlineReplica", "OfflineReplica"),
                assigned("completed", without(s, other(s))),
            ]
        ),
        {"removed-replica-deleted": 1},
    ),
    "a move whose removed replica never answered": Fault(
        add(
            lambda s: [
                *remove(s, other(s)),
                shrunk(s, without(s, other(s))),
                *moved(other(s), "OnlineReplica", "OfflineReplica", "ReplicaDeletionStarted"),
                assigned("completed", without(s, other(s))),
            ]
        ),
        {"removed-replica-deleted": 1},
    ),
    "a new replica that is not among the replicas": Fault(
        add(lambda s: [assigned("started", s["replicas"], adding=[OTHER])]), {"move-within-replicas": 1}
    ),
    "a removed replica that is not among the replicas": Fault(
        add(lambda s: [assigned("started", s["replicas"], removing=[OTHER])]), {"move-within-replicas": 1}
    ),
    "a replica that is added and removed at once": Fault(
        add(lambda s: [assigned("started", [*s["replicas"], OTHER], adding=[OTHER], removing=[OTHER])]),
        {"move-within-replicas": 1},
    ),
    "a move completed that still adds a replica": Fault(
        add(lambda s: [assigned("started", s["replicas"]), assigned("completed", s["replicas"], adding=s["replicas"])]),
        {"move-within-replicas": 1},
    ),
    "a replica twice in a move": Fault(
        add(lambda s: [assigned("started", [*s["replicas"], s["leader"]])]), {"replicas-without-repetition": 1}
    ),
    "a replica twice in a new partition": Fault(
        of_controller(lambda records: first(records, "partition", to_state="NewPartition").update(replicas=[1, 1])),
        {"replicas-without-repetition": 1},
    ),
    "a replica twice in a broker's role": Fault(
        of_agent(lambda record: record.update(replicas=[*record["replicas"], record["broker"]])),
        {"replicas-without-repetition": 1},
    ),
    "a replica twice in what a controller loads": Fault(
        of_controller(lambda records: first(records, "loaded")["partitions"][0][5].append(1)),
        {"replicas-without-repetition": 1},
    ),
    "replicas that change silently": Fault(
        last_isr(lambda record: record.update(replicas=[*record["replicas"], OTHER])), {"replicas-by-reassignment": 1}
    ),
    "another preferred replica, by no reassignment": Fault(
        last_isr(lambda record: record.update(replicas=record["replicas"][::-1])), {"replicas-by-reassignment": 1}
    ),
    "a replica lost, by no reassignment": Fault(
        last_isr(lambda record: record.update(replicas=[record["leader"]])), {"replicas-by-reassignment": 1}
    ),
    "a version of a state that nobody wrote": Fault(
        last_isr(lambda record: record.update(partition_epoch=record["partition_epoch"] + 1)),
        {"partition-epoch-nobody-wrote": 1},
    ),
    "many versions of a state that nobody wrote": Fault(
        last_isr(lambda record: record.update(partition_epoch=record["partition_epoch"] + 40)),
        {"partition-epoch-nobody-wrote": 1},
    ),
    "a partition whose transition leaves another state": Fault(
        of_controller(
            lambda records: last(
                records, "partition", from_state="OfflinePartition", to_state="OnlinePartition", topic="t4"
            ).update(from_state="OnlinePartition")
        ),
        {"partition-transition-continues": 1},
    ),
    "a replica whose transition leaves another state": Fault(
        of_controller(
            lambda records: first(records, "replica", from_state="OfflineReplica", to_state="OnlineReplica").update(
                from_state="NewReplica"
            )
        ),
        {"replica-transition-continues": 1},
    ),
    "a transition of a partition that was not recorded": Fault(
        of_controller(drop("partition", from_state="OnlinePartition", to_state="OfflinePartition", topic="t4")),
        {"partition-transition-continues": 1},
    ),
    "a transition of a replica that was not recorded": Fault(
        of_controller(drop("replica", from_state="OfflineReplica", to_state="ReplicaDeletionStarted")),
        {"replica-transition-continues": 1},
    ),
    "a transition of a replica that was made twice": Fault(of_controller(repeat), {"replica-transition-continues": 1}),
    "an offline partition with a leader": Fault(of_controller(offline_with_leader), {"leader-fits-state": 1}),
    "an online partition without a leader": Fault(created(leader=-1), {"election-names-leader": 1}),
    "a new partition with a leader": Fault(
        of_controller(
            lambda records: first(records, "partition", to_state="NewPartition").update(
                {
                    name: value
                    for name, value in first(records, "partition", from_state="NewPartition").items()
                    if name in {"leader", "leader_epoch", "partition_epoch", "isr"}
                }
            )
        ),
        {"leader-fits-state": 1},
    ),
    "a new partition with an old leader epoch": Fault(created(leader_epoch=3), {"partition-begins-at-zero": 1}),
    "a new partition with an old version": Fault(created(partition_epoch=2), {"partition-begins-at-zero": 1}),
    "a move that nobody asked for": Fault(unasked("assignment", "ApiPartitionReassignment"), {"plan-by-request": 1}),
    "a move that a broker's death started": Fault(
        of_controller(lambda records: start(records).update(cause={"event": "BrokerChange", "id": 34}, principal=None)),
        {"plan-by-request": 1, "event-of-one-name": 1},
    ),
    "an ISR change that nobody asked for": Fault(unasked("isr", "AlterPartitionReceived"), {"plan-by-request": 1}),
    "a controlled shutdown that nobody asked for": Fault(
        unasked("replica", "ControlledShutdownReceived"), {"plan-by-request": 1}
    ),
}
"""Name -> fault."""
