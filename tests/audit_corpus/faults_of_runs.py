"""What brokers and controllers record in their runs that no sound one does: deletions, ends of logs, and clocks."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from state_log.record import line_digest
from tests.audit_corpus.fault import Fault
from tests.audit_corpus.faults_of_offsets import of, path_of, run, same
from tests.audit_corpus.faults_of_records import of_controller
from tests.audit_corpus.logs import BROKER, CONTROLLER, Logs, Record, read_records, write_lines

MINUTE_MS: Final = 60_000


def delete_by_itself(records: list[Record]) -> None:
    """The broker deletes a replica of a topic that stays."""
    taken = follower(records)
    names = ("v", "node", "incarnation", "cause", "topic", "topic_id", "partition", "broker", "leader_epoch")
    later = {"at_ms": records[-1]["at_ms"], "kind": "role", "to_state": "deleted"}
    records.append({**{name: taken[name] for name in names}, **later})


def follower(records: list[Record]) -> Record:
    """The last role of a follower in a topic that is never deleted."""
    roles = [r for r in records if r["kind"] == "role" and r["to_state"] == "follower" and r["topic"] != "t6"]
    return [r for r in roles if r["cause"].get("controller_epoch") == 2][-1]


def delete_by_order(logs: Logs) -> None:
    """The same after the controller has told it to, and recorded that."""

    def order(records: list[Record]) -> None:
        taken = follower(read_records(logs.largest(BROKER)))
        names = ("topic", "topic_id", "partition", "broker")
        base = {name: taken[name] for name in names} | {"kind": "replica", "at_ms": records[-1]["at_ms"]}
        base |= {name: records[-1][name] for name in ("v", "node", "incarnation", "controller_epoch", "cause")}
        records.append({**base, "from_state": "OnlineReplica", "to_state": "OfflineReplica"})
        records.append({**base, "from_state": "OfflineReplica", "to_state": "ReplicaDeletionStarted"})

    logs.write_wrongly(CONTROLLER, order)
    logs.write_wrongly(BROKER, delete_by_itself)


def roles_in_turn(records: list[Record], least: int = 2) -> list[Record]:
    """First roles of one partition in leader epochs that follow on one another, so many at least."""
    found: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        if record["kind"] == "role" and "log_end_offset" in record:
            roles = found.setdefault(of(record), [])
            if not roles or record["leader_epoch"] == roles[-1]["leader_epoch"] + 1:
                roles.append(record)
    return next(roles for roles in found.values() if len(roles) >= least)


def lose_end(records: list[Record]) -> None:
    """A broker takes a role with a longer log than it has in the next one, and cut nothing."""
    before, after = roles_in_turn(records)[:2]
    records[:] = [r for r in records if r["kind"] != "truncation" or of(r) != of(before)]
    before.update(log_end_offset=after["log_end_offset"] + 40)


def lose_end_by_truncation(records: list[Record]) -> None:
    """The same, and the broker recorded the truncation."""
    lose_end(records)
    before, after = roles_in_turn(records)[:2]
    names = ("v", "node", "incarnation", "cause", "topic", "topic_id", "partition", "broker", "leader_epoch")
    offsets = {"from_offset": before["log_end_offset"], "to_offset": after["log_end_offset"], "high_watermark": 0}
    cut = {name: before[name] for name in names} | {"at_ms": before["at_ms"], "kind": "truncation", **offsets}
    records.insert(records.index(before) + 1, cut)


def follow_uncut(logs: Logs) -> None:
    """A follower whose log is longer than its new leader's fetches more, and has not cut it."""
    leads, follows = uncut(logs)

    def begin(records: list[Record]) -> None:
        same(records, leads).update(log_end_offset=3, high_watermark=0)

    def go_on(records: list[Record]) -> None:
        records[:] = [r for r in records if r["kind"] != "truncation" or of(r) != of(follows)]
        same(records, follows).update(log_end_offset=9, high_watermark=0)
        for record in records:
            if of(record) == of(follows) and "log_end_offset" in record:
                end = record["log_end_offset"]
                later = record["leader_epoch"] > follows["leader_epoch"]
                record["log_end_offset"] = max(end, 20) if later else min(end, 9)
                record["high_watermark"] = 0

    logs.all_as_written({path_of(logs, leads): begin, path_of(logs, follows): go_on})


def uncut(logs: Logs) -> tuple[Record, Record]:
    """The roles of a leader and of a follower in an epoch between two others in which that had roles."""
    roles = [
        r for path in logs.all("broker-") for r in read_records(path) if "log_end_offset" in r and r["kind"] == "role"
    ]
    for follows in (r for r in roles if r["to_state"] == "follower"):
        epochs = {r["leader_epoch"] for r in roles if of(r) == of(follows) and run(r) == run(follows)}
        at = follows["leader_epoch"]
        leads = [r for r in roles if of(r) == of(follows) and r["leader_epoch"] == at and r["to_state"] == "leader"]
        if {at - 1, at + 1} <= epochs and leads:
            return leads[0], follows
    raise AssertionError("no such roles")


def take_role_after_expiry(after_ms: int) -> Callable[[Logs], object]:
    """The registration of a broker expires, and it takes its last role again so much later."""

    def add(records: list[Record]) -> None:
        taken = [r for r in records if r["kind"] == "role" and "controller" in r.get("cause", {})][-1]
        names = ("v", "node", "incarnation", "broker")
        base = {name: taken[name] for name in names} | {"at_ms": records[-1]["at_ms"]}
        registered = [r for r in records if r["kind"] == "registration"][-1]
        expired = {"kind": "registration", "to_state": "expired", "broker_epoch": registered["broker_epoch"]}
        records.append({**base, **expired, "cause": {"event": "SessionExpired"}})
        again = {name: value for name, value in taken.items() if name != "seq"}
        records.append({**again, "at_ms": base["at_ms"] + after_ms})

    return lambda logs: logs.write_wrongly(BROKER, add)


def two_names(records: list[Record]) -> None:
    """One of the records of an event names it otherwise."""
    record = next(b for a, b in pairwise(records) if named(a) == named(b))
    record["cause"] = {**record["cause"], "event": "SomethingElse"}


def named(record: Record) -> tuple[object, ...]:
    cause = record.get("cause", {})
    return cause.get("id", record["seq"] - 1_000_000), cause.get("event"), record["kind"] == "partition"


def goes_on(logs: Logs) -> None:
    """Lines are added to a log after its node has started again, well numbered and chained."""
    path, later = logs.all("broker-1-")
    ended = read_records(path)[-1]
    names = ("node", "incarnation", "seq")

    def see(records: list[Record]) -> None:
        kept = {name: value for name, value in records[0].items() if name in {"v", "node", "incarnation", "at_ms"}}
        seen = {"kind": "witness", "witness": {name: ended[name] for name in names} | {"digest": "0" * 64}}
        records.insert(1, {**kept, **seen})

    logs.all_as_written({later: see})
    lines = path.read_bytes().splitlines()
    last = json.loads(lines[-1])
    more = {**last, "seq": last["seq"] + 1, "prev": line_digest(lines[-1])}
    write_lines(path, [*lines, json.dumps(more, separators=(",", ":")).encode()])


def restart_in_boot(mono_ms: int) -> Callable[[Logs], object]:
    """A run begins in the boot of the one before, this much of the machine's monotonic time after it."""

    def change(logs: Logs) -> None:
        before, path = logs.all("broker-1-")
        begin = read_records(before)[0]
        given = {"boot_id": begin["boot_id"], "mono_ms": begin["mono_ms"] + mono_ms}

        def restart(records: list[Record]) -> None:
            records[0].update(given)

        logs.all_as_written({path: restart})

    return change


def inputs(**given: Any) -> Callable[[list[Record]], object]:
    """The last election of the controller has these inputs, or of these names those that lead."""

    def change(records: list[Record]) -> None:
        elected = [r for r in records if r["kind"] == "partition" and r["to_state"] == "OnlinePartition"][-1]
        elected["inputs"] = {name: value or [elected["leader"]] for name, value in given.items()}

    return change


FAULTS_OF_RUNS: Final[dict[str, Fault]] = {
    "a replica deleted by its broker, which nobody had told to": Fault(
        lambda logs: logs.write_wrongly(BROKER, delete_by_itself), {"replica-deleted-by-order": 1}
    ),
    "a replica deleted by order": Fault(delete_by_order),
    "a log that became shorter, without a truncation": Fault(
        lambda logs: logs.write_wrongly(BROKER, lose_end), {"log-end-falls-by-truncation": 1}
    ),
    "a log that became shorter by a truncation": Fault(lambda logs: logs.write_wrongly(BROKER, lose_end_by_truncation)),
    "a follower beyond the end of its leader that fetches more": Fault(follow_uncut, {"follower-cut-to-leader": 1}),
    "a role five minutes after the registration expired": Fault(
        take_role_after_expiry(5 * MINUTE_MS), {"role-of-registered-broker": 1}
    ),
    "a role a second after the registration expired": Fault(take_role_after_expiry(1_000)),
    "an event of two names": Fault(of_controller(two_names), {"event-of-one-name": 1}),
    "lines added to a log after its run had ended": Fault(goes_on, {"log-ends-with-its-run": 1}),
    "a clock set back between two runs": Fault(restart_in_boot(3_600_000), {"clock-fits-boot": 1}),
    "a monotonic clock that goes back": Fault(restart_in_boot(-5), {"clock-fits-boot": 1}),
    "two runs in one boot": Fault(restart_in_boot(50_000)),
    "an election of a replica that its record names as offline": Fault(
        of_controller(inputs(offline=None)), {"elected-leader-was-electable": 1}
    ),
    "an election of a damaged replica": Fault(of_controller(inputs(held=None)), {"elected-leader-was-electable": 1}),
    "an election of a damaged replica, for somebody who asked for any": Fault(
        of_controller(inputs(held=None, unclean="request"))
    ),
    "an election of a replica whose broker is awaited": Fault(
        of_controller(inputs(awaited=None)), {"elected-leader-was-electable": 1}
    ),
}
"""Name -> fault."""
