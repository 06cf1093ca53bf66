"""What the parts of a message of Kafka's say, as fields of a record."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from cluster.model.state_machines import PartitionState
from state_log.record import Cause, Kind

LEADER_AND_ISR: Final = "LeaderAndIsr"
UPDATE_METADATA: Final = "UpdateMetadata"
CACHED: Final = "cached"
"""`to_state` of a role: the broker knows so much of the partition, whether it hosts it or not."""
_INT32_MAX: Final = (1 << 31) - 1
_BROKERS_MAX: Final = 10_000
LEADER_DURING_DELETE: Final = -2
"""The leader in the requests about a partition whose topic is being deleted; epochs and ISR say nothing then."""


class UnclearMessageError(Exception):
    """A message that has another form than Kafka's, and why."""


class Said(Struct, frozen=True):
    """The fields of a record (`state_log.record.StateChange`) that a message states; empty: it states none.

    `sent_to`: brokers that the controller sends something to. `by`: the controller whose request a broker handles, and
    its epoch. `detail_of`: the request about which this is one of the messages that only TRACE has; `sum_of`: the
    request about which this INFO message sums up that many of them. `writer_epoch`: of the controller that wrote the
    state; one that was replaced while it loaded sends states of its successor.
    """

    fields: Mapping[str, Any] = {}
    sent_to: tuple[int, ...] = ()
    by: tuple[int, int] | None = None
    detail_of: str = ""
    sum_of: tuple[str, int] | None = None
    writer_epoch: int | None = None


Match = re.Match[str]


def _int32(text: str) -> int:
    number = int(text)
    if not -1 - _INT32_MAX <= number <= _INT32_MAX:
        raise UnclearMessageError(f"{text} is no 32-bit number")
    return number


def _brokers(text: str) -> tuple[int, ...]:
    numbers = tuple(_int32(part) for part in re.findall(r"\d+", text))
    if len(numbers) > _BROKERS_MAX:
        raise UnclearMessageError(f"{len(numbers)} brokers are more than {_BROKERS_MAX}")
    return numbers


def _of_partition(found: Match) -> dict[str, Any]:
    return {"topic": found["topic"], "partition": _int32(found["partition"])}


def _state(found: Match) -> dict[str, Any]:
    """Leader, epochs and ISR; nothing of a partition that is being deleted."""
    named = found.groupdict()
    leader = _int32(found["leader"])
    if leader == LEADER_DURING_DELETE:
        return {}
    fields: dict[str, Any] = {
        "leader": leader,
        "leader_epoch": _int32(found["leader_epoch"]),
        "isr": _brokers(found["isr"]),
    }
    if named.get("partition_epoch") is not None:
        fields["partition_epoch"] = _int32(found["partition_epoch"])
    if named.get("replicas") is not None:
        fields["replicas"] = _brokers(found["replicas"])
    return fields


def _sender(found: Match, event: str) -> tuple[dict[str, Any], tuple[int, int]]:
    """Fields of what a broker does by a controller's request, and that controller with its epoch."""
    controller, epoch = _int32(found["controller"]), _int32(found["controller_epoch"])
    return {"cause": Cause(event, int(found["id"]), controller_epoch=epoch)}, (controller, epoch)  # type: ignore[arg-type]


def assigned(found: Match) -> Said:
    states = {"from_state": found["before"], "to_state": found["after"]}
    replicas = {"replicas": _brokers(found["replicas"])} if found["replicas"] is not None else {}
    return Said({"kind": Kind.PARTITION, **_of_partition(found), **states, **replicas})


def elected(found: Match) -> Said:
    """ISRs of Kafka 3.4 and later name the epochs of their brokers."""
    named = re.findall(r"brokerId=(\d+)", found["members"])
    members = ",".join(named) if named else found["members"]
    fields = {
        "leader": _int32(found["leader"]),
        "leader_epoch": _int32(found["leader_epoch"]),
        "isr": _brokers(members),
        "partition_epoch": _int32(found["partition_epoch"]),
        "reason": "initialised" if found["before"] == PartitionState.NEW else "election",
    }
    states = {"from_state": found["before"], "to_state": found["after"]}
    return Said({"kind": Kind.PARTITION, **_of_partition(found), **states, **fields})


def replica_changed(found: Match) -> Said:
    states = {"broker": _int32(found["broker"]), "from_state": found["before"], "to_state": found["after"]}
    return Said({"kind": Kind.REPLICA, **_of_partition(found), **states})


def isr_shrunk(found: Match) -> Said:
    broker = _int32(found["broker"])
    reason = f"replica {broker} leaves the ISR"
    return Said({"kind": Kind.ISR, **_of_partition(found), **_state(found), "broker": broker, "reason": reason})


def sent(event: str, detail_of: str = "") -> Callable[[Match], Said]:
    """Read what a controller sends: it knows that to be so, a state that stands, as at a start."""

    def said(found: Match) -> Said:
        named = found.groupdict()
        brokers = _brokers(named.get("brokers") or named["receiver"])
        reason = f"{event} to {', '.join(map(str, brokers))}"
        fields = {"kind": Kind.LOADED, **_of_partition(found), **_state(found), "cause": Cause(event), "reason": reason}
        if len(brokers) == 1:
            fields["broker"] = brokers[0]
        return Said(fields, brokers, detail_of=detail_of, writer_epoch=_int32(found["writer_epoch"]))

    return said


def all_sent(found: Match) -> Said:
    return Said(sent_to=_brokers(found["brokers"]))


def leaders_and_isrs_sent(found: Match) -> Said:
    count = int(found["leaders"]) + int(found["followers"])
    return Said(sent_to=_brokers(found["brokers"]), sum_of=(LEADER_AND_ISR, count))


def stop_sent(found: Match) -> Said:
    state = "deleted" if found["delete"] == "true" else "stopped"
    fields = {"kind": Kind.LOADED, **_of_partition(found), "cause": Cause("StopReplica"), "to_state": state}
    broker = _int32(found["broker"])
    return Said({**fields, "broker": broker, "reason": f"StopReplica to {broker}"}, (broker,))


def received(found: Match) -> Said:
    if found["topic"] is None or found["partition"] is None:
        raise UnclearMessageError("the request names no partition")
    cause, by = _sender(found, LEADER_AND_ISR)
    fields = {"kind": Kind.LOADED, **_of_partition(found), **_state(found), **cause, "controller_epoch": by[1]}
    fields["reason"] = "LeaderAndIsr received"
    return Said(fields, by=by, writer_epoch=_int32(found["writer_epoch"]))


def cached(found: Match) -> Said:
    cause, by = _sender(found, UPDATE_METADATA)
    fields = {"kind": Kind.ROLE, **_of_partition(found), **_state(found), **cause, "to_state": CACHED}
    return Said(fields, by=by, detail_of=UPDATE_METADATA)


def uncached(found: Match) -> Said:
    cause, by = _sender(found, UPDATE_METADATA)
    fields = {"kind": Kind.ROLE, **_of_partition(found), **cause, "to_state": "deleted"}
    return Said(fields, by=by, detail_of=UPDATE_METADATA)


def all_cached(found: Match) -> Said:
    by = (_int32(found["controller"]), _int32(found["controller_epoch"]))
    return Said(by=by, sum_of=(UPDATE_METADATA, int(found["added"]) + int(found["deleted"])))


def stop_received(found: Match) -> Said:
    state = "deleted" if found["delete"] == "true" else "stopped"
    return Said({"kind": Kind.ROLE, **_of_partition(found), "to_state": state})


def role(found: Match) -> Said:
    """Read a role; the `leader` of a leader's own message is the broker that writes it."""
    named = found.groupdict()
    fields: dict[str, Any] = {"to_state": "follower" if found["role"] == "Follower" else "leader"}
    for name in ("leader", "leader_epoch", "partition_epoch"):
        if named.get(name) is not None:
            fields[name] = _int32(found[name])
    for name in ("high_watermark", "log_end_offset"):
        if named.get(name) is not None:
            fields[name] = min(int(found[name]), (1 << 63) - 1)
    if named.get("isr") is not None:
        fields["isr"] = _brokers(found["isr"])
    return Said({"kind": Kind.ROLE, **_of_partition(found), **fields})
