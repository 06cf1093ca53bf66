"""Committed records that a leader lacks, and high watermarks that fall."""

from typing import Final

from tests.audit_corpus.fault import Fault
from tests.audit_corpus.logs import Logs, Record, read_records


def forget_committed(logs: Logs) -> None:
    """A leader from the ISR has less in its log than a follower knew to be committed."""
    leads, follows = pair_of_roles(logs)

    def shorten(records: list[Record]) -> None:
        same(records, leads).update(high_watermark=0, log_end_offset=3)

    def know(records: list[Record]) -> None:
        same(records, follows).update(high_watermark=9, log_end_offset=20)

    logs.all_as_written({path_of(logs, leads): shorten, path_of(logs, follows): know})


def pair_of_roles(logs: Logs) -> tuple[Record, Record]:
    """The roles of a leader from the ISR and of a follower, which had another role in the same run before."""
    roles = [
        r for path in logs.all("broker-") for r in read_records(path) if "high_watermark" in r and r["kind"] == "role"
    ]
    states = [r for path in logs.all("controller-") for r in read_records(path) if r.get("leader_epoch", -1) >= 0]
    for leads in (r for r in roles if r["to_state"] == "leader" and r["leader_epoch"] > 0):
        before = [s for s in states if of(s) == of(leads) and s["partition_epoch"] == first_epoch(states, leads) - 1]
        for follows in (r for r in roles if of(r) == of(leads) and r["leader_epoch"] == leads["leader_epoch"]):
            earlier = [r for r in roles if of(r) == of(leads) and run(r) == run(follows) and r["seq"] < follows["seq"]]
            if follows["to_state"] == "follower" and before and leads["broker"] in before[0]["isr"] and earlier:
                return leads, follows
    raise AssertionError("no such roles")


def first_epoch(states: list[Record], role: Record) -> int:
    return min(s["partition_epoch"] for s in states if of(s) == of(role) and s["leader_epoch"] == role["leader_epoch"])


def of(record: Record) -> tuple[object, ...]:
    return record.get("topic"), record.get("topic_id"), record.get("partition")


def run(record: Record) -> tuple[object, ...]:
    return record["node"], record["incarnation"]


def same(records: list[Record], wanted: Record) -> Record:
    return next(record for record in records if record.get("seq") == wanted["seq"])


def path_of(logs: Logs, record: Record) -> object:
    return logs.all(f"{record['node']}-{record['incarnation']}-")[0]


def let_high_watermark_fall(records: list[Record]) -> None:
    """A leader takes its next role with a lower high watermark than it began to lead with, and has the records."""
    roles = [r for r in records if r["kind"] == "role" and "high_watermark" in r]
    after = [(a, next((b for b in roles[n + 1 :] if of(a) == of(b)), None)) for n, a in enumerate(roles)]
    led = [(a, b) for a, b in after if b and a["to_state"] == "leader" and a["high_watermark"] > 0]
    first, last = next((a, b) for a, b in led if b["leader_epoch"] <= a["leader_epoch"] + 1)
    last["high_watermark"] = first["high_watermark"] - 1


FAULTS_OF_OFFSETS: Final[dict[str, Fault]] = {
    "a leader from the ISR that lacks committed records": Fault(
        forget_committed, {"elected-leader-has-committed": 1, "log-end-falls-by-truncation": 1}
    ),
    "a high watermark that falls": Fault(
        lambda logs: logs.write_wrongly("broker-4-", let_high_watermark_fall), {"high-watermark-never-falls": 1}
    ),
}
"""Name -> fault."""
