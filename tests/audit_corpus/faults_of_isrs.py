"""ISRs that leaders wrote to ZooKeeper themselves, as below protocol version 2.7: sound, and with a fault."""

from collections.abc import Callable
from typing import Final

from state_log.causes import ISR_GRANTED, ISR_WRITTEN, READ_FROM_LEADER
from tests.audit_corpus.fault import Fault
from tests.audit_corpus.logs import (
    BROKER,
    CONTROLLER,
    EARLIER_CONTROLLER,
    Change,
    Logs,
    Record,
    next_event,
    read_records,
)


def written(records: list[Record]) -> None:
    """Every ISR that a controller granted is one that the leader wrote, and a controller read."""
    granted = {record["cause"].get("id") for record in records if record["kind"] == "isr"}
    for record in records:
        event = record.get("cause", {}).get("event")
        if event == "AlterPartitionReceived" and record["cause"].get("id") in granted:
            record["cause"]["event"] = "IsrChangeNotification"
        if record["kind"] == "role" and event == ISR_GRANTED:
            record["cause"] = {"event": ISR_WRITTEN}
        elif record["kind"] == "isr" and event == "AlterPartitionReceived":
            record["reason"] = READ_FROM_LEADER
            for name in ("request_id", "principal", "peer"):
                record.pop(name, None)


def by_leaders(**changes: Change) -> Callable[[Logs], object]:
    """The logs as of leaders that write; `changes`: to the largest log of a node, by the beginning of its name."""

    def apply(logs: Logs) -> None:
        logs.all_as_written(dict.fromkeys(logs.all(), written))
        for name, change in changes.items():
            logs.write_wrongly(name, change)

    return apply


def leave_unread(logs: Logs) -> None:
    """The controller was told of none but those that it has sent to brokers: others had written the next by then."""
    by_leaders()(logs)
    roles = [r for path in logs.all("broker-") for r in read_records(path) if r["kind"] == "role"]
    sent = {state_of(role) for role in roles if role["cause"]["event"] != ISR_WRITTEN}

    def leave_out(records: list[Record]) -> None:
        kept = [r for r in records if r.get("reason") != READ_FROM_LEADER or state_of(r) in sent]
        assert len(kept) < len(records)
        records[:] = kept

    logs.write_wrongly(CONTROLLER, leave_out)


def state_of(record: Record) -> tuple[object, ...]:
    return tuple(record.get(name) for name in ("topic", "topic_id", "partition", "partition_epoch"))


def read_by_both(logs: Logs) -> None:
    """A controller that was replaced, and does not know it yet, reads the announced states, too."""
    by_leaders()(logs)
    read: list[Record] = []
    logs.write_wrongly(
        CONTROLLER, lambda records: read.extend(r for r in records if r.get("reason") == READ_FROM_LEADER)
    )
    assert read

    def add(records: list[Record]) -> None:
        own = {name: records[-1][name] for name in ("node", "incarnation")}
        cause = {"event": "IsrChangeNotification", "id": next_event(records)}
        records.extend({**r, **own, "controller_epoch": 1, "cause": cause} for r in without_number(read))

    logs.write_wrongly(EARLIER_CONTROLLER, add)


def without_number(records: list[Record]) -> list[Record]:
    return [{name: value for name, value in record.items() if name != "seq"} for record in records]


def shrink_last(records: list[Record]) -> None:
    """The leader records another ISR than the controller has read at that version."""
    last = [r for r in records if r["kind"] == "role" and r["cause"]["event"] == ISR_WRITTEN][-1]
    assert len(last["isr"]) > 1
    last["isr"] = [last["leader"]]


FAULTS_OF_ISRS: Final[dict[str, Fault]] = {
    "ISRs that leaders wrote": Fault(by_leaders()),
    "ISRs that leaders wrote, and the controller never read": Fault(leave_unread),
    "ISRs that leaders wrote, which a replaced controller read as well": Fault(read_by_both),
    "an ISR that its leader and the controller have differently": Fault(
        by_leaders(**{BROKER: shrink_last}), {"one-state-per-partition-epoch": 1}
    ),
}
