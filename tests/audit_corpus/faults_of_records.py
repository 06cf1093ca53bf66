"""Records that a node wrote wrongly: its chain is whole, and others have seen these lines."""

from collections.abc import Callable
from typing import Final

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.logs import BROKER, CONTROLLER, EARLIER_CONTROLLER, Change, Logs, Record

HOUR_MS: Final = 3_600_000
WRONG_CLOCK: Final = ("its clock is wrong",)
SECOND_LEADER: Final = {"one-leader-per-epoch": 1, "agent-disagrees-with-controller": 1}
"""Two leaders of an epoch, and a state that no controller has written: either can be without the other."""


def role(records: list[Record]) -> Record:
    """A role of a follower in the middle of an agent's log."""
    roles = [record for record in records if record["kind"] == "role" and record["to_state"] == "follower"]
    return roles[len(roles) // 2]


def of_agent(change: Callable[[Record], object]) -> Callable[[Logs], object]:
    return lambda logs: logs.write_wrongly(BROKER, lambda records: change(role(records)))


def of_controller(change: Change) -> Callable[[Logs], object]:
    return lambda logs: logs.write_wrongly(CONTROLLER, change)


def raise_epochs(record: Record) -> None:
    record.update(leader_epoch=record["leader_epoch"] + 50, partition_epoch=record["partition_epoch"] + 50)


def claim_leadership(record: Record) -> None:
    record.update(to_state="leader", leader=record["broker"], isr=[record["broker"]])


def claim_leadership_without_topic_id(record: Record) -> None:
    claim_leadership(record)
    del record["topic_id"]


def first(records: list[Record], kind: str, **fields: object) -> Record:
    return next(r for r in records if r["kind"] == kind and all(r.get(name) == v for name, v in fields.items()))


def cut_truncation(records: list[Record]) -> None:
    record = next(r for r in records if r["kind"] == "truncation" and r["high_watermark"] > 0)
    record["to_offset"] = record["high_watermark"] - 1


def repeat_activation(records: list[Record]) -> None:
    first(records, "controller").update(controller_epoch=1)


def resign(records: list[Record]) -> None:
    """The controller resigns before its last record."""
    active = first(records, "controller", to_state="active")
    copied = {name: records[-1][name] for name in ("at_ms", "cause")}
    records.insert(-1, {**active, **copied, "to_state": "resigned"})


def write_before_active(records: list[Record]) -> None:
    records[0], records[1] = records[1], records[0]


def never_active(records: list[Record]) -> None:
    first(records, "controller", to_state="active").update(controller_epoch=9)


def set_clock(from_half: bool, ms: int) -> Change:
    def change(records: list[Record]) -> None:
        for record in records[len(records) // 2 if from_half else 0 :]:
            record["at_ms"] += ms

    return change


def at(ms: int) -> Change:
    """One record in the middle at a time far from all others."""
    return lambda records: records[len(records) // 2].update(at_ms=ms)


def on_clock(prefix: str, ms: int) -> Callable[[Logs], object]:
    """A node whose clock differs, in all of its logs."""
    return lambda logs: logs.all_as_written(dict.fromkeys(logs.all(prefix), set_clock(False, ms)))


def second_process(logs: Logs) -> None:
    """Another process under the same id, that goes on at the same time."""
    path = logs.largest("broker-2-")
    incarnation = "1700000008700.9"
    logs.folder.joinpath("other").mkdir()
    copy = logs.folder / "other" / f"broker-2-{incarnation}-{0:020}.jsonl"
    copy.write_bytes(path.read_bytes())
    Logs(copy.parent).rewrite("broker-2-", lambda records: [r.update(incarnation=incarnation) for r in records])


def broker_of_all_bits(records: list[Record]) -> None:
    """The greatest broker id there is, with an epoch that a controller has seen of another."""
    first(records, "registration").update(broker=(1 << 31) - 1)


def send_by_earlier(record: Record) -> None:
    """A request of the controller before, with a state of its own."""
    record.update(controller_epoch=1, cause={**record["cause"], "id": 1, "controller": 1003, "controller_epoch": 1})


def end_below_high_watermark(records: list[Record]) -> None:
    """The last role of a follower that had committed records."""
    roles = [r for r in records if r["kind"] == "role" and r["to_state"] == "follower" and r["high_watermark"] > 0]
    roles[-1]["log_end_offset"] = roles[-1]["high_watermark"] - 1


def grant_by_earlier_controller(records: list[Record]) -> None:
    """The number of an event in the cause of each granted ISR, as logs have it since."""
    granted = [r for r in records if r["kind"] == "role" and r["cause"]["event"] == "AlterPartition"]
    assert granted
    for record in granted:
        record["cause"].update(id=5, controller=1003, controller_epoch=1)


FAULTS_OF_RECORDS: Final[dict[str, Fault]] = {
    "a controller epoch of two controllers": Fault(
        of_controller(repeat_activation), {"one-controller-per-epoch": 1, "written-outside-term": 1}
    ),
    "changes after the controller had resigned": Fault(of_controller(resign), {"written-outside-term": 1}),
    "changes before the controller became active": Fault(
        of_controller(write_before_active), {"written-outside-term": 1}
    ),
    "changes by a controller that never became active": Fault(
        lambda logs: logs.write_wrongly(EARLIER_CONTROLLER, never_active), {"written-outside-term": 1}
    ),
    "requests of a controller that was not active in their epoch": Fault(
        of_agent(lambda record: record["cause"].update(controller=1002)),
        {"other-controller-followed": 1},
        ("no log of this node",),
    ),
    "another leader in a broker's role": Fault(
        of_agent(lambda record: record.update(leader=9, isr=[9])), SECOND_LEADER
    ),
    "a second leader, claimed by a broker": Fault(of_agent(claim_leadership), SECOND_LEADER),
    "a second leader, claimed by a broker without a topic id": Fault(
        of_agent(claim_leadership_without_topic_id), {"epoch-nobody-gave": 1}
    ),
    "a high watermark above the end of the log": Fault(
        lambda logs: logs.write_wrongly(BROKER, end_below_high_watermark),
        {"high-watermark-within-log": 1},
    ),
    "a role that there is not": Fault(
        of_agent(lambda record: record.update(to_state="LEADER")), incomplete=("1 records could not be judged",)
    ),
    "a role without a leader epoch": Fault(
        of_agent(lambda record: record.pop("leader_epoch")), incomplete=("1 records could not be judged",)
    ),
    "a role of no partition": Fault(
        of_agent(lambda record: record.pop("partition")), incomplete=("1 records could not be judged",)
    ),
    "a state of a broker that there is not": Fault(
        of_controller(lambda records: first(records, "broker", to_state="live").update(to_state="zombie")),
        incomplete=("1 records could not be judged",),
    ),
    "another ISR in a broker's role": Fault(
        of_agent(lambda record: record.update(isr=[record["leader"], 77])), {"agent-disagrees-with-controller": 1}
    ),
    "epochs that nobody gave": Fault(of_agent(raise_epochs), {"epoch-nobody-gave": 1}),
    "a negative leader epoch in a broker's role": Fault(
        of_agent(lambda record: record.update(leader_epoch=-5)), {"agent-disagrees-with-controller": 1}
    ),
    "a negative partition epoch in a broker's role": Fault(
        of_agent(lambda record: record.update(partition_epoch=-5)),
        {"epoch-nobody-gave": 1, "partition-epoch-never-back": 1},
    ),
    "a request of an earlier controller": Fault(
        of_agent(send_by_earlier),
        {"stale-controller-epoch": 1},
    ),
    "an ISR granted by an earlier controller, whose answer came late": Fault(
        lambda logs: logs.write_wrongly(BROKER, grant_by_earlier_controller)
    ),
    "the greatest broker id": Fault(
        lambda logs: logs.write_wrongly(BROKER, broker_of_all_bits), {"broker-epoch-of-one-broker": 1}
    ),
    "a role of the greatest broker id": Fault(
        of_agent(lambda record: record.update(isr=[record["leader"], (1 << 31) - 1])),
        {"agent-disagrees-with-controller": 1},
    ),
    "a clock set back": Fault(
        lambda logs: logs.write_wrongly(BROKER, set_clock(True, -HOUR_MS)), {"clock-went-back": 1}
    ),
    "a record of 1970": Fault(lambda logs: logs.write_wrongly(BROKER, at(0)), {"clock-went-back": 1}),
    "a record of the year 146 million": Fault(
        lambda logs: logs.write_wrongly(BROKER, at(1 << 62)), {"clock-went-back": 1}
    ),
    "a record before all time": Fault(lambda logs: logs.write_wrongly(BROKER, at(-(1 << 62))), {"clock-went-back": 1}),
    "a broker's clock an hour ahead": Fault(on_clock("broker-2-", HOUR_MS), {"clock-differs": 1}, WRONG_CLOCK),
    "a broker's clock an hour behind": Fault(on_clock("broker-2-", -HOUR_MS), {"clock-differs": 1}, WRONG_CLOCK),
    "a controller's clock an hour ahead": Fault(
        on_clock(EARLIER_CONTROLLER, HOUR_MS), {"clock-differs": 1}, WRONG_CLOCK
    ),
    "a second process of a broker": Fault(second_process, {"two-nodes-one-id": 1}),
    "a truncation below the high watermark": Fault(
        lambda logs: logs.write_wrongly("broker-1-1700000000003", cut_truncation),
        {"no-truncation-below-high-watermark": 1},
    ),
    "a transition of a partition outside of the table": Fault(
        of_controller(
            lambda records: first(records, "partition", from_state="OnlinePartition").update(
                from_state="NonExistentPartition"
            )
        ),
        {"legal-partition-transition": 1},
    ),
    "a state of a partition that there is not": Fault(
        of_controller(
            lambda records: first(records, "partition", from_state="OnlinePartition").update(to_state="Asleep")
        ),
        {"legal-partition-transition": 1},
    ),
    "a transition of a replica outside of the table": Fault(
        of_controller(
            lambda records: first(records, "replica", from_state="OnlineReplica").update(
                from_state="NonExistentReplica", to_state="OfflineReplica"
            )
        ),
        {"legal-replica-transition": 1},
    ),
}
"""Name -> fault."""
