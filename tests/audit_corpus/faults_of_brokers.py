"""Elections and ISRs with brokers that the controller had recorded as dead, shutting down or offline."""

from collections.abc import Callable
from typing import Final

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.faults_of_decisions import ASKED, both, write
from tests.audit_corpus.faults_of_histories import Brokers, chosen_partition, move_back
from tests.audit_corpus.logs import CONTROLLER, Logs, Record, next_event


def say(to_state: str, of_leader: bool = False) -> Callable[[Logs], object]:
    """Let the controller record that a broker of a partition is so: its leader, or another replica."""
    return lambda logs: logs.write_wrongly(CONTROLLER, lambda records: add_status(records, to_state, of_leader))


def add_status(records: list[Record], to_state: str, of_leader: bool) -> None:
    last = chosen_partition(records)
    other = next(broker for broker in last["replicas"] if broker != last["leader"])
    base = {name: last[name] for name in ("v", "node", "incarnation", "controller_epoch")}
    base |= {
        "at_ms": max(record["at_ms"] for record in records) + 1,
        "cause": {"event": "BrokerChange", "id": next_event(records)},
        "broker": last["leader"] if of_leader else other,
        "to_state": to_state,
    }
    if to_state in {"OnlineReplica", "OfflineReplica"}:
        names = ("topic", "topic_id", "partition")
        before = {"OnlineReplica": "OfflineReplica", "OfflineReplica": "OnlineReplica"}[to_state]
        records.append({**base, "kind": "replica", "from_state": before, **{name: last[name] for name in names}})
    else:
        records.append({**base, "kind": "broker"})


def assign(broker: int) -> Callable[[Logs], object]:
    """Let the controller start a reassignment of the partition that adds a broker."""
    return lambda logs: logs.write_wrongly(
        CONTROLLER, lambda records: records.extend(move_back(records, chosen_partition(records), broker))
    )


def without_leader(state: Record, died: Record, after_s: int) -> Record:
    """The next state of a partition whose leader has died, so much later: nobody leads."""
    epochs = {name: state[name] + 1 for name in ("leader_epoch", "partition_epoch")}
    written = {"kind": "isr", "leader": -1, "at_ms": died["at_ms"] + after_s * 1_000, "cause": died["cause"], **epochs}
    kept = {name: value for name, value in state.items() if name not in {"seq", "from_state", "to_state"}}
    return {**kept, **written, "reason": "drawn"}


def late_leader(after_s: int | None) -> Callable[[Logs], object]:
    """Let the leader of a partition die, and the controller elect another one so much later; None: it never does, and
    records something else of the broker's cluster an hour later.
    """

    def add(records: list[Record]) -> None:
        last = chosen_partition(records)
        records.extend(move_back(records, last))
        add_status(records, "dead", of_leader=True)
        died = records[-1]
        if after_s is None:
            records.append({**died, "at_ms": died["at_ms"] + 3_600_000, "broker": 97, "to_state": "live"})
            records[-1]["broker_epoch"] = 1 << 40
            records[-1]["cause"] = {"event": "BrokerChange", "id": died["cause"]["id"] + 1}
            return
        newest = {(r["topic_id"], r["partition"]): r for r in records if "leader_epoch" in r and "isr" in r}
        led = [state for state in newest.values() if state["leader"] == died["broker"] and state is not last]
        records.extend(without_leader(state, died, 100) for state in led)
        records.append(without_leader(last, died, after_s))

    return lambda logs: logs.write_wrongly(CONTROLLER, add)


def queue_for_deletion(logs: Logs) -> None:
    """Let the controller queue all topics that it has for deletion, which waits for a broker that is away."""

    def add(records: list[Record]) -> None:
        last = chosen_partition(records)
        gone = {
            record["topic"] for record in records if (record["kind"], record.get("to_state")) == ("topic", "deleted")
        }
        named = {
            (r["topic"], r["topic_id"]) for r in records if r.get("topic_id") is not None and r["topic"] not in gone
        }
        base = {name: last[name] for name in ("v", "node", "incarnation", "controller_epoch")}
        base |= {"at_ms": max(record["at_ms"] for record in records) + 1, "kind": "topic"}
        base |= {"to_state": "queued for deletion", "cause": {"event": "TopicDeletion", "id": next_event(records)}}
        records.extend({**base, "topic": topic, "topic_id": topic_id} for topic, topic_id in sorted(named))

    logs.write_wrongly(CONTROLLER, add)


def in_turn(*steps: Callable[[Logs], object]) -> Callable[[Logs], object]:
    return lambda logs: [step(logs) for step in steps]


def other_leads(state: Record, named: Brokers) -> None:
    state["leader"] = named.other


def other_alone(state: Record, named: Brokers) -> None:
    state.update(leader=named.other, isr=[named.other])


def outsider(state: Record, named: Brokers) -> None:
    """A third replica leads, which was not in sync."""
    state.update(leader=98, isr=[98], replicas=[*state["replicas"], 98])


FAULTS_OF_BROKERS: Final[dict[str, Fault]] = {
    "brokers that come and go, and sound elections": Fault(
        in_turn(
            say("dead"),
            say("live"),
            write(ASKED, both),
            say("shutting_down", of_leader=True),
            write("ControlledShutdown", other_alone),
        )
    ),
    "an election of a dead broker": Fault(
        in_turn(write(ASKED, both), say("dead"), write("Reassign", other_leads)), {"elected-leader-is-live": 1}
    ),
    "an election of a broker that shuts down": Fault(
        in_turn(write(ASKED, both), say("shutting_down"), write("Reassign", other_leads)),
        {"elected-leader-is-live": 1},
    ),
    "an election of a replica in a failed log directory": Fault(
        in_turn(write(ASKED, both), say("OfflineReplica"), write("Reassign", other_leads)),
        {"elected-leader-is-live": 1},
    ),
    "a replica that becomes offline and leads on": Fault(
        say("OfflineReplica", of_leader=True), {"offline-replica-does-not-lead": 1}
    ),
    "a dead broker that leads for longer than five minutes": Fault(late_leader(310), {"dead-leader-too-long": 1}),
    "a dead broker that leads for four minutes": Fault(late_leader(240)),
    "a dead broker that leads on, as its controller does nothing about it": Fault(
        late_leader(None), {"dead-leader-too-long": 1}, ("no log of this node",)
    ),
    "a dead broker that leads a topic whose deletion waits for it": Fault(
        in_turn(queue_for_deletion, late_leader(None)), {}, ("no log of this node",)
    ),
    "a dead broker that joins the ISR": Fault(
        in_turn(say("dead"), write(ASKED, both)), {"isr-granted-to-live-brokers": 1}
    ),
    "a broker that shuts down and joins the ISR": Fault(
        in_turn(say("shutting_down"), write(ASKED, both)), {"isr-granted-to-live-brokers": 1}
    ),
    "a controlled shutdown that leaves the broker in the ISR": Fault(
        in_turn(
            write(ASKED, both),
            say("shutting_down", of_leader=True),
            write("ControlledShutdown", other_leads),
        ),
        {"shutdown-leaves-isr": 1},
    ),
    "an unclean election while a member of the ISR is live": Fault(
        in_turn(
            say("changed"),
            write(ASKED, both),
            say("dead", of_leader=True),
            assign(98),
            write("Offline", outsider),
        ),
        {"unclean-election": 1, "unclean-election-passes-over-isr": 1},
    ),
    "an unclean election while a member of the ISR is live, as it was from the beginning": Fault(
        in_turn(
            lambda logs: logs.write_wrongly(CONTROLLER, lambda records: records[0].update(inputs={"live": [1, 2, 4]})),
            assign(2),
            write(ASKED, lambda s, b: s.update(isr=[b.leader, 2], replicas=[*s["replicas"], 2])),
            say("dead", of_leader=True),
            assign(98),
            write("Offline", outsider),
        ),
        {"unclean-election": 1, "unclean-election-passes-over-isr": 1},
    ),
    "an unclean election when nobody of the ISR was live": Fault(
        in_turn(
            write(ASKED, both),
            say("dead"),
            say("dead", of_leader=True),
            assign(98),
            write("Offline", outsider),
        ),
        {"unclean-election": 1},
    ),
}
"""Name -> fault."""
