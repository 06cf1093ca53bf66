"""Elections against their own inputs, partitions left without a leader, and brokers that stop and lead on."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from audit.rules.election_inputs import ELECTED_WAS_ELECTABLE
from audit.rules.leaderless_partitions import LEADERLESS_IN_SYNC
from audit.rules.stopping_leaders import STOPPING_LEADER
from cluster.model.broker import BrokerId, LeaderEpoch, PartitionEpoch
from state_log.record import Cause, DecisionInputs, Kind, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit
from tests.unit.audit.rules.test_dead_leaders import LIMITS, at, of_broker
from tests.unit.audit.rules.test_offline_leaders import offline, record, state

ONE, TWO = (BrokerId(1),), (BrokerId(2),)


def messages(rule: str, *batches: Sequence[LoggedStateChange]) -> list[str]:
    audit = ColumnarAudit(LIMITS)
    for batch in batches:
        audit.check(batch)
    return [finding.message for finding in audit.findings.values() if finding.rule == rule]


def elected(inputs: DecisionInputs | None, to_state: str = "OnlinePartition") -> LoggedStateChange:
    return replace(state(3, 1, 4), kind=Kind.PARTITION, to_state=to_state, inputs=inputs)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (None, ""),
        (DecisionInputs(offline=TWO, held=TWO, awaited=TWO), ""),
        (DecisionInputs(offline=ONE), "offline [1]"),
        (DecisionInputs(awaited=ONE, held=TWO), "held [2], awaited [1]"),
        (DecisionInputs(held=ONE), "held [1]"),
        # Who asks for an unclean election does not wait for a better replica.
        (DecisionInputs(held=ONE, unclean="request"), ""),
        (DecisionInputs(offline=ONE, unclean="request"), "offline [1]"),
    ],
)
def test_no_replica_is_elected_that_was_not_to_be(inputs: DecisionInputs | None, said: str) -> None:
    text = f"leader 1 was elected, though its record names the replicas {said}"
    assert messages(ELECTED_WAS_ELECTABLE, [elected(inputs)]) == ([text] if said else [])
    assert messages(ELECTED_WAS_ELECTABLE, [elected(inputs, "OfflinePartition")]) == []


def left(cause: str = "BrokerChange", reason: str = "replica offline", **fields: object) -> LoggedStateChange:
    """Nobody leads after broker 1 has left the ISR."""
    nobody = {"leader": BrokerId(-1), "broker": BrokerId(1), "cause": Cause(cause, 7), "reason": reason}
    return replace(state(9, 1, 4), **{**nobody, "isr": (BrokerId(2),), **fields})  # type: ignore[arg-type]


LIVE, DEAD = of_broker(1, "live", 1_000, broker=2), of_broker(5, "dead", 2_000, broker=2)


@pytest.mark.parametrize(
    ("records", "is_found"),
    [
        ([LIVE, left()], True),
        ([LIVE, DEAD, left()], False),
        ([LIVE, offline(5, 2), left()], False),
        ([left()], False),
        ([LIVE, left("Reelect")], False),
        ([LIVE, left(reason="replica removed")], False),
        ([LIVE, left(isr=ONE)], False),
        ([LIVE, left(leader=BrokerId(2))], False),
        ([LIVE, left(inputs=DecisionInputs(held=TWO))], False),
        # The same of several members is said once.
        ([LIVE, of_broker(2, "live", 1_000, broker=3), left(isr=(BrokerId(2), BrokerId(3)))], True),
    ],
)
def test_nobody_leads_only_if_nobody_in_sync_is_live(records: Sequence[LoggedStateChange], is_found: bool) -> None:
    text = "nobody leads when replica 1 is offline, though broker 2 of the ISR was live"
    for batches in ([records], [[each] for each in records]):
        assert messages(LEADERLESS_IN_SYNC, *batches) == ([text] if is_found else [])


STOPS = of_broker(5, "shutting_down", 2_000)
LEADS = state(2, 1, 0)


@pytest.mark.parametrize(
    ("records", "is_found"),
    [
        ([LIVE, LEADS, STOPS, at(state(9, 2, 1), 62_001)], True),
        ([LIVE, LEADS, STOPS, at(state(9, 2, 1), 62_000)], False),
        # Nobody else was in sync, or live; or nobody else is in sync any more; or the broker died.
        ([LIVE, replace(LEADS, isr=ONE), STOPS, at(state(9, 2, 1), 62_001)], False),
        ([LEADS, STOPS, at(state(9, 2, 1), 62_001)], False),
        ([LIVE, offline(3, 2), LEADS, STOPS, at(state(9, 2, 1), 62_001)], False),
        ([LIVE, LEADS, STOPS, replace(state(6, 1, 1), isr=ONE), at(state(9, 2, 2), 62_001)], False),
        ([LIVE, LEADS, STOPS, of_broker(7, "dead", 3_000), at(state(9, 2, 1), 62_001)], False),
    ],
)
def test_a_stopping_broker_does_not_lead_on(records: Sequence[LoggedStateChange], is_found: bool) -> None:
    text = (
        "broker 1 led it for 60 s after the controller had recorded at 1970-01-01 00:00:02.000 that it is shutting "
        "down: more than 60 s"
    )
    for batches in ([records], [[each] for each in records]):
        assert messages(STOPPING_LEADER, *batches) == ([text] if is_found else [])


def test_the_partitions_of_a_stopping_broker_wait() -> None:
    audit = ColumnarAudit(LIMITS)
    audit.check([LIVE, LEADS, STOPS])
    assert audit.waiting["stopping_leaders"].num_rows == 1
    audit.check([record(8, Kind.ISR, leader=BrokerId(1), leader_epoch=LeaderEpoch(1), isr=ONE,
                        partition_epoch=PartitionEpoch(1), replicas=(1, 2))])  # fmt: skip
    assert audit.waiting["stopping_leaders"].num_rows == 0
