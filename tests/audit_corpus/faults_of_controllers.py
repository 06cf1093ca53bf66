"""Controller epochs and events that never were, and times without a controller."""

from collections.abc import Callable
from typing import Any, Final

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.faults_of_records import first, of_agent, of_controller
from tests.audit_corpus.logs import BROKER, CONTROLLER, Logs, Record, next_event

HOUR_MS: Final = 3_600_000


def resign_last(logs: Logs) -> None:
    """The last controller resigns at the end of its log."""
    logs.write_wrongly(CONTROLLER, lambda records: records.append(resignation(records)))


def resignation(records: list[Record]) -> Record:
    names = ("v", "node", "incarnation", "controller_epoch", "broker")
    active = {name: first(records, "controller", to_state="active")[name] for name in names}
    at_ms = max(record["at_ms"] for record in records) + 1
    cause = {"event": "ControllerChange", "id": next_event(records)}
    return {**active, "at_ms": at_ms, "kind": "controller", "to_state": "resigned", "cause": cause}


def reelect(after_ms: int, **fields: Any) -> Callable[[Logs], object]:
    """The last controller resigns, and becomes active again."""

    def apply(records: list[Record]) -> None:
        records.append(resignation(records))
        names = ("v", "node", "incarnation", "controller_epoch", "broker", "kind")
        again: Record = {name: records[-1][name] for name in names}
        cause = {"event": "Reelect", "id": next_event(records)}
        again |= {"at_ms": records[-1]["at_ms"] + after_ms, "to_state": "active", "cause": cause, "controller_epoch": 3}
        records.append({**again, **fields})

    return lambda logs: logs.write_wrongly(CONTROLLER, apply)


def let_brokers_go_on(logs: Logs) -> None:
    """A broker registers again long after the last controller has resigned."""
    resign_last(logs)

    def add(records: list[Record]) -> None:
        last = first(records, "registration")
        later = {**last, "at_ms": max(r["at_ms"] for r in records) + 2 * HOUR_MS, "broker_epoch": 999}
        for name in ("seq", "mono_ms", "boot_id"):
            later.pop(name, None)
        records.append(later)

    logs.write_wrongly("broker-4-", add)


def follow_unknown(records: list[Record]) -> None:
    """The last request that a broker carried out is of an epoch that there was not."""
    followed = [record for record in records if "controller" in record.get("cause", {})]
    followed[-1]["cause"]["controller_epoch"] = 7


def turn_events(records: list[Record]) -> None:
    """An event in the middle of a controller's log has the number of an earlier one."""
    number = records[len(records) // 2]["cause"]["id"]
    for record in records:
        if record.get("cause", {}).get("id") == number:
            record["cause"]["id"] = 1


FAULTS_OF_CONTROLLERS: Final[dict[str, Fault]] = {
    "a resignation, and another term after it": Fault(reelect(2_000)),
    "an hour without a controller": Fault(reelect(HOUR_MS), {"no-controller-too-long": 1}),
    "a controller that saw for five minutes that another one was gone": Fault(
        lambda logs: logs.write_wrongly(CONTROLLER, lambda records: records[0].update(silent_ms=300_001)),
        {"no-controller-too-long": 1},
    ),
    "a controller that saw at once that another one was gone": Fault(
        lambda logs: logs.write_wrongly(CONTROLLER, lambda records: records[0].update(silent_ms=12))
    ),
    "no controller since hours, at the end of the logs": Fault(let_brokers_go_on, {"no-controller-too-long": 1}),
    "a controller epoch below the one before": Fault(
        reelect(2_000, controller_epoch=1), {"controller-epochs-rise": 1, "one-controller-per-epoch": 1}
    ),
    "a controller epoch of 0": Fault(reelect(2_000, controller_epoch=0), {"controller-epochs-rise": 1}),
    "a term of another controller": Fault(reelect(2_000, broker=1002), {"record-of-own-broker": 1}),
    "an event below the one before it": Fault(of_controller(turn_events), {"events-rise": 1}),
    "a request of an event that never was": Fault(
        of_agent(lambda record: record["cause"].update(id=9_999)), {"event-never-was": 1}
    ),
    "requests of a controller epoch that never began": Fault(
        lambda logs: logs.write_wrongly(BROKER, follow_unknown),
        {"controller-epoch-never-began": 1},
    ),
}
"""Name -> fault."""
