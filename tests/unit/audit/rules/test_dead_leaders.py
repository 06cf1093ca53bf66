"""Brokers that a controller recorded as dead, and until when they lead by its log."""

from collections.abc import Sequence
from itertools import permutations

import pytest
from msgspec.structs import replace

from audit.rules.dead_leaders import DEAD_LEADER
from audit.rules.limits import Limits
from cluster.model.broker import BrokerEpoch
from state_log.record import Kind, LoggedStateChange
from tests.audits.columnar_audits import ColumnarAudit
from tests.unit.audit.rules.test_offline_leaders import ENDED, loaded, record, state

LIMITS = Limits(leaderless_ms=60_000)


def of_broker(seq: int, to_state: str, at_ms: int, epoch: int = 1, broker: int | None = 1) -> LoggedStateChange:
    found = record(seq, Kind.BROKER, epoch, at_ms=at_ms, broker=broker, to_state=to_state, broker_epoch=BrokerEpoch(7))
    return replace(found, topic=None, topic_id=None, partition=None)


def at(found: LoggedStateChange, at_ms: int) -> LoggedStateChange:
    return replace(found, at_ms=at_ms)


LEADS, DEAD = state(0, 1, 0), of_broker(5, "dead", 2_000)
LATE, IN_TIME = at(state(9, 2, 1), 62_001), at(state(9, 2, 1), 62_000)


def audited(*batches: Sequence[LoggedStateChange]) -> ColumnarAudit:
    audit = ColumnarAudit(LIMITS)
    for batch in batches:
        audit.check(batch)
    return audit


def waiting(audit: ColumnarAudit) -> int:
    return int(audit.waiting["dead_leaders"].num_rows)


@pytest.mark.parametrize(
    ("records", "found", "waits"),
    [
        ([LEADS, DEAD, LATE], (LEADS, DEAD, LATE), 0),
        ([LEADS, DEAD, at(state(9, -1, 1), 62_001)], (LEADS, DEAD, state(9, -1, 1)), 0),
        ([LEADS, DEAD, IN_TIME], (), 0),
        ([LEADS, DEAD], (), 1),
        # The ISR changes and the dead broker leads on.
        ([LEADS, DEAD, state(8, 1, 1), at(state(9, 2, 2), 62_001)], (LEADS, DEAD, state(9, 2, 2)), 0),
        ([LEADS, DEAD, state(8, 1, 1)], (), 1),
        # It had come back before, and died once more.
        ([LEADS, DEAD, of_broker(7, "live", 3_000), LATE], (), 0),
        ([LEADS, DEAD, of_broker(7, "live", 3_000)], (), 0),
        ([LEADS, DEAD, LATE, of_broker(10, "live", 70_000)], (LEADS, DEAD, LATE), 0),
        ([LEADS, DEAD, ENDED], (), 0),
        # Others led, or were elected first; another broker died, or none that is named; no controller's epoch.
        ([LEADS, state(1, 2, 1), DEAD], (), 0),
        ([DEAD, at(state(6, 1, 0), 2_001)], (), 0),
        ([LEADS, of_broker(5, "dead", 2_000, broker=2), LATE], (), 0),
        ([LEADS, of_broker(5, "dead", 2_000, broker=None), LATE], (), 0),
        ([LEADS, replace(DEAD, controller_epoch=None), LATE], (), 0),
        ([LEADS, of_broker(5, "shutting_down", 2_000), LATE], (), 0),
        # Another controller has elected: when the first one ended is in no log.
        ([LEADS, DEAD, at(state(1, 2, 1, 2, "controller-2"), 62_001)], (), 0),
        # It was loaded from what an earlier controller wrote.
        ([loaded(1, 2, 1, 0, "controller-1"), replace(DEAD, controller_epoch=2)], (), 1),
    ],
)
def test_another_leader_comes_within_the_limit(
    records: Sequence[LoggedStateChange], found: Sequence[LoggedStateChange], waits: int
) -> None:
    for batches in ([records], [[each] for each in records]):
        audit = audited(*batches)
        findings = [finding for finding in audit.findings.values() if finding.rule == DEAD_LEADER]
        assert [finding.records for finding in findings] == ([tuple(r.reference for r in found)] if found else [])
        assert waiting(audit) == waits


def test_the_finding_says_for_how_long_it_led() -> None:
    (finding,) = (f for f in audited([LEADS, DEAD, LATE]).findings.values() if f.rule == DEAD_LEADER)
    assert finding.message == (
        "broker 1 led it for 60 s after the controller had recorded at 1970-01-01 00:00:02.000 that it is dead: more "
        "than 60 s"
    )
    assert (finding.subject, finding.at_ms) == ("t-0 (id) partition-epoch 0", 2_000)


def test_it_does_not_matter_which_controllers_log_comes_first() -> None:
    logs = [[LEADS, DEAD], [at(state(1, 2, 1, 2, "controller-2"), 62_001)]]
    for order in permutations(logs):
        audit = audited(*order)
        assert waiting(audit) == 0
        assert not [finding for finding in audit.findings.values() if finding.rule == DEAD_LEADER]
