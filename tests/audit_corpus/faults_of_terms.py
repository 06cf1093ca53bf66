"""What a controller does with reassignments, topics and brokers that it finds, or forgets."""

from collections.abc import Callable, Sequence
from typing import Final

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.faults_of_brokers import add_status, in_turn
from tests.audit_corpus.faults_of_decisions import ASKED, both, write
from tests.audit_corpus.faults_of_histories import chosen_partition, move_back
from tests.audit_corpus.faults_of_moves import OTHER, add, add_other, assigned, gone, other, shrunk, without
from tests.audit_corpus.faults_of_records import first
from tests.audit_corpus.logs import CONTROLLER, EARLIER_CONTROLLER, Logs, Record, next_event

HOUR_MS: Final = 3_600_000


def with_inputs(records: list[Record]) -> None:
    """The controller names the live brokers when it becomes active, and with that all reassignments."""
    first(records, "controller", to_state="active").update(inputs={"live": live_at_start(records)})


def live_at_start(records: list[Record]) -> list[int]:
    """The brokers that do not become live in this term before anything else is said of them."""
    firsts: dict[int, str] = {}
    for record in records:
        if record["kind"] == "broker":
            firsts.setdefault(record["broker"], record["to_state"])
    return [broker for broker in (1, 2, 3, 4) if firsts.get(broker) != "live"]


def loaded_state(records: Sequence[Record]) -> Record:
    """The newest state of a partition that the controller has loaded and never moved, and has two replicas in sync."""
    loaded = {(r["topic_id"], p[0]) for r in records if r["kind"] == "loaded" for p in r["partitions"]}
    gone = {r["topic_id"] for r in records if r["kind"] in {"assignment", "topic"}}
    states = {
        (r["topic_id"], r["partition"]): r for r in records if r["kind"] in {"partition", "isr"} and "leader" in r
    }
    found = [r for key, r in states.items() if key in loaded and key[0] not in gone and len(r["isr"]) > 1]
    return max(found, key=lambda r: r["seq"])


def planned(steps: Callable[[Record], Sequence[dict[str, object]]]) -> Callable[[Logs], object]:
    """Let a controller that names its inputs record these about a partition at the end of its log."""
    return in_turn(lambda logs: logs.write_wrongly(CONTROLLER, with_inputs), add(steps))


def loaded_move(
    adding: Sequence[int], removing: Callable[[Record], Sequence[int]] = lambda _: ()
) -> Callable[[Logs], object]:
    """The controller has loaded a reassignment of a partition."""

    def change(records: list[Record]) -> None:
        with_inputs(records)
        state = loaded_state(records)
        loaded = first(records, "loaded", topic_id=state["topic_id"])
        of_partition = next(p for p in loaded["partitions"] if p[0] == state["partition"])
        of_partition[5] = [*of_partition[5], *adding]
        loaded["moves"] = [[state["partition"], list(adding), list(removing(state))]]

    return lambda logs: logs.write_wrongly(CONTROLLER, change)


def add_partition(records: list[Record]) -> None:
    """A controller sees one more partition of a topic before it is gone; the next one does not load that."""
    new = next(r for r in records if r.get("to_state") == "NewPartition" and r["topic"] == "t3")
    number = 1 + max(r["partition"] for r in records if r.get("topic") == "t3" and "partition" in r)
    base = {name: value for name, value in new.items() if name != "seq"}
    cause = {**new["cause"], "id": next_event(records)}
    records.append({**base, "partition": number, "at_ms": records[-1]["at_ms"], "cause": cause})


def stop_leading(after_s: int | None) -> Callable[[Logs], object]:
    """Let the leader of a partition shut down, and the controller elect another one so much later; None: it never does,
    and records something of another broker an hour later.
    """

    def change(records: list[Record]) -> None:
        last = chosen_partition(records)
        records.extend(move_back(records, last))
        add_status(records, "changed", of_leader=False)
        add_status(records, "shutting_down", of_leader=True)
        stops = records[-1]
        later = {"at_ms": stops["at_ms"] + (after_s or 3_600) * 1_000}
        later["cause"] = {"event": "BrokerChange", "id": next_event(records)}
        if after_s is None:
            records.append({**stops, **later, "broker": 97, "to_state": "live", "broker_epoch": 1 << 40})
            return
        newest = {(r["topic_id"], r["partition"]): r for r in records if "leader_epoch" in r and "isr" in r}
        led = [state for state in newest.values() if state["leader"] == stops["broker"] and state is not last]
        records.extend(without_leader(state, {**stops, "at_ms": stops["at_ms"] + 100_000}) for state in led)
        records.append(without_leader(last, {**stops, **later}))

    return lambda logs: logs.write_wrongly(CONTROLLER, change)


def without_leader(state: Record, when: Record) -> Record:
    """The next state of a partition: nobody leads."""
    epochs = {name: state[name] + 1 for name in ("leader_epoch", "partition_epoch")}
    kept = {name: value for name, value in state.items() if name not in {"seq", "from_state", "to_state"}}
    written = {"kind": "isr", "leader": -1, "at_ms": when["at_ms"], "cause": when["cause"], "reason": "drawn"}
    return {**kept, **written, **epochs}


def leave_leaderless(records: list[Record]) -> None:
    """The leader of a partition dies, and nobody leads though the other one in sync is live."""
    last = chosen_partition(records)
    records.extend(move_back(records, last))
    add_status(records, "changed", of_leader=False)
    add_status(records, "dead", of_leader=True)
    died = records[-1]
    state = without_leader(last, {**died, "cause": {"event": "BrokerChange", "id": died["cause"]["id"]}})
    isr = [broker for broker in last["isr"] if broker != last["leader"]]
    records.append({**state, "broker": last["leader"], "isr": isr, "reason": "replica offline"})


def live_twice(records: list[Record]) -> None:
    """A broker that was live when the controller became active becomes live."""
    with_inputs(records)
    active = first(records, "controller", to_state="active")
    base = {name: active[name] for name in ("v", "node", "incarnation", "controller_epoch", "cause", "at_ms")}
    place = next(n for n, r in enumerate(records) if r["kind"] not in {"controller", "loaded"})
    records.insert(place, {**base, "kind": "broker", "to_state": "live", "broker": 97, "broker_epoch": 1 << 40})
    active["inputs"]["live"].append(97)


def register_unnoticed(logs: Logs) -> None:
    """A broker is registered for an hour, and the controller sees only the registrations before and after."""
    epoch = 1 << 40

    def register(records: list[Record]) -> None:
        registered = first(records, "registration")
        base = {name: value for name, value in registered.items() if name not in {"seq", "mono_ms", "boot_id"}}
        at_ms = records[-1]["at_ms"] + 1_000
        epochs = ((0, epoch), (HOUR_MS, epoch + 1))
        records.extend({**base, "at_ms": at_ms + later, "broker_epoch": each} for later, each in epochs)

    def bounce(records: list[Record]) -> None:
        names = ("v", "node", "incarnation", "controller_epoch")
        base = {name: records[-1][name] for name in names} | {"kind": "broker", "broker": 4}
        at_ms = max(r["at_ms"] for r in records)
        before = [r for r in records if r["kind"] == "broker" and r["broker"] == 4]
        was_live = bool(before) and before[-1]["to_state"] != "dead"
        steps = [] if was_live else [("live", 116, 1)]
        steps.append(("bounced", epoch + 1, HOUR_MS + 20_000))
        for to_state, broker_epoch, later in steps:
            cause = {"event": "BrokerChange", "id": next_event(records)}
            records.append({**base, "to_state": to_state, "broker_epoch": broker_epoch, "at_ms": at_ms + later})
            records[-1]["cause"] = cause

    logs.write_wrongly(CONTROLLER, bounce)
    logs.write_wrongly("broker-4-", register)


def directory_moves(*states: str) -> Callable[[Logs], object]:
    """A broker records these about a move of one of its replicas between its log directories."""

    def change(records: list[Record]) -> None:
        role = [r for r in records if r["kind"] == "role" and "topic_id" in r][-1]
        names = ("v", "node", "incarnation", "topic", "topic_id", "partition", "broker")
        base = {name: role[name] for name in names} | {"kind": "directory_move", "at_ms": records[-1]["at_ms"]}
        base |= {"cause": {"event": "AlterReplicaLogDirs"}, "reason": "from /data/a to /data/b"}
        records.extend({**base, "to_state": state} for state in states)

    return lambda logs: logs.write_wrongly("broker-4-", change)


FAULTS_OF_TERMS: Final[dict[str, Fault]] = {
    "a move completed that never began": Fault(
        planned(lambda s: [assigned("completed", [*s["replicas"], OTHER])]), {"move-ends-that-began": 1}
    ),
    "a move cancelled that never began": Fault(
        planned(lambda s: [assigned("cancelled", s["replicas"])]), {"move-ends-that-began": 1}
    ),
    "a move cancelled that was completed": Fault(
        add(
            lambda s: [
                assigned("started", s["replicas"]),
                assigned("completed", s["replicas"]),
                assigned("cancelled", s["replicas"]),
            ]
        ),
        {"move-ends-that-began": 1},
    ),
    "a move to the replicas that there are, completed at once, twice": Fault(
        planned(lambda s: [assigned("completed", s["replicas"])] * 2)
    ),
    "a move completed by a controller that does not say what it has loaded": Fault(
        add(lambda s: [assigned("completed", [*s["replicas"], OTHER])])
    ),
    "a loaded move completed": Fault(
        in_turn(
            loaded_move((), lambda s: [other(s)]),
            add(
                lambda s: [
                    shrunk(s, without(s, other(s))),
                    *gone(other(s)),
                    assigned("completed", without(s, other(s))),
                ],
                loaded_state,
            ),
        )
    ),
    "a loaded move completed to other replicas": Fault(
        in_turn(loaded_move([OTHER]), add(lambda s: [assigned("completed", s["replicas"])], loaded_state)),
        {"move-ends-as-planned": 1},
    ),
    "a loaded move completed without its new replica in the ISR": Fault(
        in_turn(loaded_move([OTHER]), add(lambda s: [assigned("completed", [*s["replicas"], OTHER])], loaded_state)),
        {"move-completed-in-sync": 1},
    ),
    "a loaded move cancelled that keeps its new replica": Fault(
        in_turn(loaded_move([OTHER]), add(lambda s: [assigned("cancelled", [*s["replicas"], OTHER])], loaded_state)),
        {"move-ends-as-planned": 1},
    ),
    "a move started and completed in one term": Fault(
        planned(
            lambda s: [
                add_other(s),
                assigned("cancelled", s["replicas"]),
                assigned("completed", s["replicas"]),
            ]
        )
    ),
    "a partition that the next controller does not load, the last of its topic": Fault(
        lambda logs: logs.write_wrongly(EARLIER_CONTROLLER, add_partition), {"partitions-stay": 1}
    ),
    "a stopping broker that leads for longer than five minutes": Fault(
        in_turn(write(ASKED, both), stop_leading(310)), {"stopping-leader-too-long": 1}
    ),
    "a stopping broker that leads for four minutes": Fault(in_turn(write(ASKED, both), stop_leading(240))),
    "a stopping broker that leads on": Fault(
        in_turn(write(ASKED, both), stop_leading(None)),
        {"stopping-leader-too-long": 1},
        ("no log of this node",),
    ),
    "a stopping broker that leads on, as nobody else is in sync": Fault(
        stop_leading(None), {}, ("no log of this node",)
    ),
    "a partition left without a leader, though another one in sync is live": Fault(
        in_turn(write(ASKED, both), lambda logs: logs.write_wrongly(CONTROLLER, leave_leaderless)),
        {"leaderless-though-in-sync": 1},
    ),
    "a broker that becomes live, and was so at the start of the controller": Fault(
        lambda logs: logs.write_wrongly(CONTROLLER, live_twice), {"broker-states-in-order": 1}, ("no log of this node",)
    ),
    "a registration of an hour that the controller took no note of": Fault(
        register_unnoticed, {"registration-noted": 1}
    ),
    "a move to another directory that ends twice": Fault(
        directory_moves("started", "completed", "abandoned"), {"directory-move-ends-once": 1}
    ),
    "a move to another directory that a restart interrupted": Fault(
        directory_moves("completed", "started", "abandoned")
    ),
}
"""Name -> fault."""
