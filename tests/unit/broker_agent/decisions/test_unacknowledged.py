"""What a producer is told of records that are not acknowledged: which replicas are not in sync, and which lag."""

import pytest

from broker_agent.decisions.replica_progress import ReplicaProgress
from broker_agent.decisions.unacknowledged import Replication, explain
from cluster.model.broker import BrokerId, Offset
from cluster.model.errors import ErrorCode

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))


def replication(isr: tuple[BrokerId, ...], **ends: int) -> Replication:
    remote = {
        broker: ReplicaProgress(log_end_offset=Offset(end))
        for broker, end in zip((TWO, THREE), (ends.get("two", 9), ends.get("three", 9)), strict=True)
    }
    return Replication(leader=ONE, replicas=(ONE, TWO, THREE), isr=isr, min_isr=2, remote=remote)


@pytest.mark.parametrize(
    ("code", "of", "said"),
    [
        (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            replication((ONE,)),
            "1 of the 2 in-sync replicas that min.insync.replicas asks for; not in sync: brokers 2, 3",
        ),
        (
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            replication((ONE,)),
            "appended, but 1 of the 2 in-sync replicas that min.insync.replicas asks for; not in sync: brokers 2, 3",
        ),
        (
            ErrorCode.REQUEST_TIMED_OUT,
            replication((ONE, TWO, THREE), two=3, three=-1),
            "not in all in-sync replicas within 500 ms: broker 2 has it up to offset 3, "
            "broker 3 has fetched nothing yet; wanted: 5",
        ),
        (
            ErrorCode.REQUEST_TIMED_OUT,
            replication((ONE, TWO), three=2),
            "not committed within 500 ms: in-sync replicas 1, 2 have it, the high watermark is not there yet",
        ),
        (
            ErrorCode.REQUEST_TIMED_OUT,
            Replication(leader=ONE, replicas=(ONE, TWO), isr=(ONE,), min_isr=2, remote={}),
            "not committed within 500 ms: 1 of the 2 in-sync replicas that min.insync.replicas asks for; "
            "not in sync: broker 2",
        ),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, replication((ONE,)), ""),
        (ErrorCode.NONE, replication((ONE,)), ""),
    ],
)
def test_the_replicas_that_are_missing_are_named(code: ErrorCode, of: Replication, said: str) -> None:
    assert explain(code, of, required=Offset(5), timeout_ms=500) == said


@pytest.mark.parametrize(("replicas", "end"), [(30, ", 11 and 19 more"), (12, ", 11 and 1 more"), (11, ", 10, 11")])
def test_of_many_replicas_only_ten_are_named(replicas: int, end: str) -> None:
    many = tuple(map(BrokerId, range(1, replicas + 1)))
    missing = Replication(leader=ONE, replicas=many, isr=(ONE,), min_isr=2, remote={})
    assert explain(ErrorCode.NOT_ENOUGH_REPLICAS, missing, required=Offset(5), timeout_ms=1).endswith(end)


def test_of_many_lagging_replicas_only_some_are_named() -> None:
    many = tuple(map(BrokerId, range(1, 31)))
    remote = {broker: ReplicaProgress(log_end_offset=Offset(0)) for broker in many}
    lagging = Replication(leader=ONE, replicas=many, isr=many, min_isr=1, remote=remote)
    assert "and 19 more" in explain(ErrorCode.REQUEST_TIMED_OUT, lagging, required=Offset(5), timeout_ms=1)
