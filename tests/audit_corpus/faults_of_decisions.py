"""Elections, changes of ISRs, roles and truncations that no sound controller or broker makes, one record each."""

from collections.abc import Callable
from typing import Final

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.faults_of_histories import Brokers, brokers, chosen_partition, move_back
from tests.audit_corpus.faults_of_records import of_agent, of_controller
from tests.audit_corpus.logs import BROKER, CONTROLLER, Logs, Record, next_event

ASKED: Final = "asked by broker {leader}"


def write(reason: str, *changes: Callable[[Record, Brokers], object]) -> Callable[[Logs], object]:
    """Let the controller write further states of a partition, one by one, each changed so: elections, or ISRs that a
    leader asked for or a replica leaves.
    """

    def add(records: list[Record]) -> None:
        last = chosen_partition(records)
        named = brokers(last)
        records.extend(move_back(records, last))
        for change in changes:
            last = follow(records, last, reason)
            change(last, named)
            records.append(last)

    return lambda logs: logs.write_wrongly(CONTROLLER, add)


def follow(records: list[Record], last: Record, reason: str) -> Record:
    """The sound state that follows another one for this reason: nothing changes but the epochs."""
    grants = reason.startswith("asked by ")
    names = (
        "v",
        "node",
        "incarnation",
        "controller_epoch",
        "topic",
        "topic_id",
        "partition",
        "leader",
        "isr",
        "replicas",
    )
    state = {name: last[name] for name in names}
    state |= {
        "at_ms": max(record["at_ms"] for record in records) + 1,
        "cause": {"event": "BrokerChange", "id": next_event(records)},
        "leader_epoch": last["leader_epoch"] + (not grants),
        "partition_epoch": last["partition_epoch"] + 1,
        "reason": reason.format(**last),
    }
    if grants:
        return {**state, "kind": "isr", "broker": last["leader"]}
    if reason.startswith("replica "):
        return {**state, "kind": "isr", "broker": 98}
    return {**state, "kind": "partition", "from_state": "OnlinePartition", "to_state": "OnlinePartition"}


def nothing(state: Record, named: Brokers) -> None:
    """A sound state."""


def both(state: Record, named: Brokers) -> None:
    state["isr"] = [named.leader, named.other]


def of_truncation(change: Callable[[Record], object]) -> Callable[[Logs], object]:
    """A truncation that somebody's log has with its high watermark."""

    def apply(records: list[Record]) -> None:
        change(next(r for r in records if r["kind"] == "truncation" and r["high_watermark"] > 0))

    return lambda logs: logs.write_wrongly("broker-1-1700000000003", apply)


def begin_later(records: list[Record]) -> None:
    """A partition is made, and its first state has epochs of another one before it."""
    last = follow(records, chosen_partition(records), "initialised")
    made = {**last, "topic": "late", "topic_id": "late", "partition": 0, "from_state": "NewPartition"}
    states = {"from_state": "NonExistentPartition", "to_state": "NewPartition"}
    named = ("leader", "leader_epoch", "partition_epoch", "isr", "reason")
    records.append({name: value for name, value in {**made, **states}.items() if name not in named})
    records.append({**made, "leader": last["replicas"][0], "isr": last["replicas"]})


def lead_oneself(record: Record) -> None:
    """A follower that follows itself: the state says that it leads."""
    record.update(to_state="follower")


def of_role(to_state: str, change: Callable[[Record], object]) -> Callable[[Logs], object]:
    """The last role of a sort in an agent's log."""

    def apply(records: list[Record]) -> None:
        change([r for r in records if r["kind"] == "role" and r["to_state"] == to_state and "high_watermark" in r][-1])

    return lambda logs: logs.write_wrongly(BROKER, apply)


def by_shutdown(state: Record, named: Brokers) -> None:
    state.update(cause={**state["cause"], "event": "ControlledShutdownReceived"}, principal="ANONYMOUS")


def elect_twice(records: list[Record]) -> None:
    """One event elects a leader of one partition, and then another one."""
    last = chosen_partition(records)
    records.extend(move_back(records, last))
    elected = follow(records, last, "Reassign")
    later = {name: elected[name] + 1 for name in ("leader_epoch", "partition_epoch")}
    records.extend((elected, {**elected, **later}))


def apply_again(records: list[Record]) -> None:
    """A request that was late is carried out after a newer one: the first role of the partition with most of them."""
    of_partition: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        if record["kind"] == "role" and record["to_state"] in {"leader", "follower"}:
            of_partition.setdefault((record["topic_id"], record["partition"]), []).append(record)
    roles = max(of_partition.values(), key=lambda each: each[-1]["leader_epoch"] - each[0]["leader_epoch"])
    late = {name: value for name, value in roles[0].items() if name != "seq"}
    records.append({**late, "at_ms": records[-1]["at_ms"], "cause": roles[-1]["cause"]})


FAULTS_OF_DECISIONS: Final[dict[str, Fault]] = {
    "sound states after the last one": Fault(
        lambda logs: [write(ASKED, both)(logs), write("Reassign", nothing, nothing)(logs)]
    ),
    "a preferred election that elects another": Fault(
        lambda logs: [
            write(ASKED, both)(logs),
            write("Preferred", lambda s, b: s.update(leader=b.other))(logs),
        ],
        {"preferred-replica-elected": 1},
    ),
    "an election that passes over the first replica in sync": Fault(
        lambda logs: [
            write(ASKED, both)(logs),
            write("Offline", lambda s, b: s.update(leader=max(s["replicas"][1:], key=s["replicas"].index)))(logs),
        ],
        {"first-in-sync-elected": 1},
    ),
    "an election of nobody": Fault(write("Reassign", lambda s, b: s.update(leader=-1)), {"election-names-leader": 1}),
    "an election that adds a replica to the ISR": Fault(write("Reassign", both), {"election-adds-no-replica": 1}),
    "an election without a new leader epoch": Fault(
        write("Reassign", lambda s, b: s.update(leader_epoch=s["leader_epoch"] - 1)),
        {"election-raises-leader-epoch": 1},
    ),
    "an ISR granted to a follower": Fault(
        write(ASKED, lambda s, b: s.update(broker=b.other)), {"isr-granted-to-leader": 1}
    ),
    "an ISR granted to a broker that is no replica": Fault(
        write(ASKED, lambda s, b: s.update(broker=97)), {"isr-granted-to-leader": 1}
    ),
    "an ISR that was granted with a new leader epoch": Fault(
        write(ASKED, lambda s, b: s.update(leader_epoch=s["leader_epoch"] + 1)), {"isr-change-keeps-leader": 1}
    ),
    "an ISR that was granted with another leader, in a new epoch": Fault(
        lambda logs: [
            write(ASKED, both)(logs),
            write(ASKED, lambda s, b: s.update(leader=b.other, broker=b.other, leader_epoch=s["leader_epoch"] + 1))(
                logs
            ),
        ],
        {"isr-change-keeps-leader": 1},
    ),
    "a replica that leaves the ISR and leads": Fault(
        write("replica offline", lambda s, b: s.update(broker=b.leader)), {"removed-replica-leaves-isr": 1}
    ),
    "a replica that leaves the ISR and stays in it": Fault(
        lambda logs: [
            write(ASKED, both)(logs),
            write("replica offline", lambda s, b: s.update(broker=b.other))(logs),
        ],
        {"removed-replica-leaves-isr": 1},
    ),
    "a replica that leaves the ISR, and another one that joins": Fault(
        write(
            "replica offline",
            lambda s, b: s.update(isr=[b.leader, b.other], leader_epoch=s["leader_epoch"] - 1),
        ),
        {"removal-takes-one-replica": 1},
    ),
    "a replica that leaves the ISR, and another one that leads": Fault(
        lambda logs: [
            write(ASKED, both)(logs),
            write("replica offline", lambda s, b: s.update(broker=97, leader=b.other))(logs),
        ],
        {"removal-takes-one-replica": 1},
    ),
    "a preferred election where the preferred replica leads": Fault(
        write("Preferred", nothing), {"election-changes-leader": 1}
    ),
    "an election for a controlled shutdown that elects the broker": Fault(
        write("ControlledShutdown", by_shutdown), {"election-changes-leader": 1}
    ),
    "two elections of one partition in one event": Fault(of_controller(elect_twice)),
    "a role of an earlier leader epoch, applied again": Fault(
        lambda logs: logs.write_wrongly(BROKER, apply_again),
        {"leader-epoch-never-back": 1, "partition-epoch-never-back": 1},
    ),
    "a role whose ISR lacks the leader": Fault(
        of_agent(lambda record: record.update(isr=[b for b in record["isr"] if b != record["leader"]] or [99])),
        {"agent-disagrees-with-controller": 1, "leader-in-isr": 1},
    ),
    "an ISR granted that leaves out a version": Fault(
        write(ASKED, lambda s, b: s.update(partition_epoch=s["partition_epoch"] + 1)),
        {"partition-epoch-nobody-wrote": 1},
    ),
    "a leader of an impossible id": Fault(write("Reassign", lambda s, b: s.update(leader=-7)), {"brokers-in-range": 1}),
    "a first state at later epochs": Fault(of_controller(begin_later), {"partition-begins-at-zero": 1}),
    "a broker that follows itself": Fault(of_role("leader", lead_oneself), {"role-fits-leader": 1}),
    "a broker that leads where another one does": Fault(
        of_role("follower", lambda r: r.update(to_state="leader")), {"role-fits-leader": 1, "one-leader-per-epoch": 1}
    ),
    "a role in a partition that is not assigned to the broker": Fault(
        of_role("follower", lambda r: r["replicas"].remove(r["broker"])), {"role-of-replica": 1}
    ),
    "a role of another broker": Fault(
        of_role("follower", lambda r: r.update(broker=next(b for b in r["replicas"] if b not in {r["leader"], 4}))),
        {"record-of-own-broker": 1},
    ),
    "a request with a state of a later controller": Fault(
        of_agent(lambda record: record.update(controller_epoch=7)), {"state-not-from-later-epoch": 1}
    ),
    "a min.insync.replicas of 0": Fault(
        of_role("leader", lambda r: r.update(min_insync_replicas=0)), {"min-isr-in-range": 1}
    ),
    "a leader that truncates its log": Fault(
        of_truncation(lambda r: r.update(leader=r["broker"])),
        {"leader-does-not-truncate": 1, "one-leader-per-epoch": 1},
    ),
    "a truncation forward": Fault(
        of_truncation(lambda r: r.update(to_offset=r["from_offset"] + 5)), {"truncation-goes-back": 1}
    ),
    "a negative high watermark": Fault(
        of_agent(lambda record: record.update(high_watermark=-3)), {"offsets-in-range": 1}
    ),
    "a leader before that answers in the future": Fault(
        of_agent(lambda record: record.update(silent_ms=-1)), {"offsets-in-range": 1}
    ),
    "a negative log end offset": Fault(
        of_agent(lambda record: record.update(high_watermark=-9, log_end_offset=-3)), {"offsets-in-range": 1}
    ),
    "a log start offset below 0": Fault(
        of_agent(lambda record: record.update(log_start_offset=-1)), {"offsets-in-range": 1}
    ),
}
"""Name -> fault."""
