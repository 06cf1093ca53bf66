"""Rules on single records about decisions and roles, and from one state to the next: what keeps and breaks each."""

from typing import Any

import pytest
from msgspec.structs import replace

from state_log.decision_histories import (
    ELECTION_CHANGES_LEADER,
    ELECTION_KEEPS_ISR,
    ELECTION_RAISES_EPOCH,
    ISR_CHANGE_KEEPS_LEADER,
    MESSAGES,
    REMOVAL_TAKES_ONE,
    DecidedState,
    decision_violations,
)
from state_log.decision_rules import (
    BEGINS_AT_ZERO,
    BROKERS_IN_RANGE,
    DECISION_RULES,
    ELECTION_NAMES_LEADER,
    EPOCHS_IN_RANGE,
    FIRST_IN_SYNC_ELECTED,
    GRANTED_TO_LEADER,
    LEADER_DOES_NOT_TRUNCATE,
    MIN_ISR_IN_RANGE,
    OFFSETS_IN_RANGE,
    PREFERRED_ELECTED,
    RECORD_OF_OWN_BROKER,
    REMOVED_LEAVES_ISR,
    ROLE_FITS_LEADER,
    ROLE_OF_REPLICA,
    STATE_NOT_FROM_LATER_EPOCH,
    TRUNCATION_GOES_BACK,
)
from state_log.invariants import check_record
from state_log.record import Cause, Kind, LoggedStateChange

STATE = {
    "controller_epoch": 2, "topic": "t", "partition": 0, "leader": 1, "leader_epoch": 4, "partition_epoch": 6,
    "isr": (1, 2), "replicas": (1, 2, 3),
}  # fmt: skip
ELECTION = {**STATE, "kind": Kind.PARTITION, "from_state": "OfflinePartition", "to_state": "OnlinePartition"}
FIRST = {**ELECTION, "from_state": "NewPartition", "reason": "initialised", "leader_epoch": 0, "partition_epoch": 0}
GRANTED = {**STATE, "kind": Kind.ISR, "broker": 1, "reason": "asked by broker 1"}
REMOVED = {**STATE, "kind": Kind.ISR, "broker": 3, "reason": "replica offline"}
CAUSE = Cause("BrokerChange", 9, 1001, 2)  # type: ignore[arg-type]
LED = {
    **STATE, "kind": Kind.ROLE, "broker": 1, "to_state": "leader", "cause": CAUSE, "high_watermark": 5,
    "log_end_offset": 5, "min_insync_replicas": 1,
}  # fmt: skip
CUT = {
    "kind": Kind.TRUNCATION, "topic": "t", "partition": 0, "broker": 1, "leader": 2, "leader_epoch": 4,
    "from_offset": 9, "to_offset": 7, "high_watermark": 7,
}  # fmt: skip


def record(base: dict[str, Any], **changes: Any) -> LoggedStateChange:
    node = "broker-1" if base["kind"] in {Kind.ROLE, Kind.TRUNCATION} else "controller-1001"
    return LoggedStateChange(**{"v": 2, "seq": 0, "node": node, "incarnation": "1.1", "at_ms": 1, **base, **changes})


def broken(base: dict[str, Any], **changes: Any) -> dict[str, str]:
    return dict(check_record(record(base, **changes)))


BREAKS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    PREFERRED_ELECTED: (
        ELECTION, {"reason": "Preferred", "leader": 2}, "leader 2 was elected as the preferred replica, which is 1",
    ),
    FIRST_IN_SYNC_ELECTED: (
        ELECTION, {"reason": "Offline", "leader": 2},
        "leader 2 was elected; of the replicas [1, 2, 3] in the ISR [1, 2] the first is 1",
    ),
    ELECTION_NAMES_LEADER: (ELECTION, {"leader": -1}, "the partition went online without a leader"),
    BEGINS_AT_ZERO: (
        FIRST, {"leader_epoch": 4}, "the first state of the partition has leader epoch 4 and partition epoch 0",
    ),
    GRANTED_TO_LEADER: (GRANTED, {"broker": 2}, "an ISR was granted to broker 2, but the leader is 1"),
    REMOVED_LEAVES_ISR: (REMOVED, {"broker": 2}, "replica 2 left the ISR, and the ISR [1, 2] has it"),
    EPOCHS_IN_RANGE: (
        GRANTED, {"controller_epoch": 0, "leader_epoch": -3}, "controller epoch 0 and leader epoch -3 was written",
    ),
    BROKERS_IN_RANGE: (
        GRANTED, {"leader": -7, "broker": -7}, "leader -7 and ISR [1, 2] name a broker that there cannot be",
    ),
    ROLE_FITS_LEADER: (LED, {"to_state": "follower"}, "broker 1 became follower where the leader is 1"),
    ROLE_OF_REPLICA: (LED, {"replicas": (2, 3)}, "broker 1 became leader, but the replicas are [2, 3]"),
    RECORD_OF_OWN_BROKER: (LED, {"node": "broker-11"}, "broker-11 recorded what broker 1 did"),
    STATE_NOT_FROM_LATER_EPOCH: (
        LED, {"controller_epoch": 3}, "a request of controller epoch 2 had a state that controller epoch 3 wrote",
    ),
    MIN_ISR_IN_RANGE: (LED, {"min_insync_replicas": 0}, "the leader took min.insync.replicas for 0"),
    LEADER_DOES_NOT_TRUNCATE: (
        CUT, {"leader": 1}, "broker 1 truncated its log in leader epoch 4, in which it leads",
    ),
    TRUNCATION_GOES_BACK: (CUT, {"to_offset": 12}, "the log was truncated from 9 forward to 12"),
    OFFSETS_IN_RANGE: (LED, {"high_watermark": -1}, "high_watermark is -1"),
}  # fmt: skip
"""Rule -> a sound record, what breaks the rule, and its message."""


def test_each_rule_has_a_record_that_breaks_it() -> None:
    assert set(BREAKS) == set(DECISION_RULES)


@pytest.mark.parametrize("rule", BREAKS)
def test_a_sound_record_breaks_no_rule_and_a_changed_one_exactly_this(rule: str) -> None:
    base, changes, message = BREAKS[rule]
    assert broken(base) == {}
    assert broken(base, **changes) == {rule: message}


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (ELECTION, {"reason": "Preferred", "leader": 1}),
        (ELECTION, {"reason": "Preferred", "leader": 2, "replicas": None}),
        (ELECTION, {"reason": "Reassign", "leader": 2}),
        (ELECTION, {"reason": "Offline", "leader": 2, "isr": (2, 3)}),
        (ELECTION, {"reason": "Offline", "replicas": None}),
        (REMOVED, {"broker": 2, "leader": -1}),
        (REMOVED, {"broker": None}),
        (GRANTED, {"reason": "another list of replicas", "broker": 2}),
        (LED, {"leader": None}),
        (LED, {"replicas": None}),
        (LED, {"node": "kafka-broker-1"}),
        (LED, {"cause": None}),
        (LED, {"min_insync_replicas": None}),
        (CUT, {"to_offset": 9}),
        (CUT, {"from_offset": None, "to_offset": None, "high_watermark": None}),
    ],
)
def test_what_a_record_does_not_say_or_what_may_be_breaks_no_rule(
    base: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert broken(base, **changes) == {}


BEFORE = DecidedState(1, 4, (1, 2), "")


@pytest.mark.parametrize(
    ("after", "rules"),
    [
        (DecidedState(2, 5, (1, 2), "Reassign"), set()),
        (DecidedState(1, 5, (1, 2, 3), "Reassign"), {ELECTION_KEEPS_ISR}),
        (DecidedState(3, 5, (3,), "Offline"), set()),
        (DecidedState(2, 4, (1, 2), "Preferred"), {ELECTION_RAISES_EPOCH}),
        (DecidedState(1, 4, (1, 2, 3), "asked by broker 1"), set()),
        (DecidedState(1, 5, (1, 2), "asked by broker 1"), {ISR_CHANGE_KEEPS_LEADER}),
        (DecidedState(2, 4, (1, 2), "asked by broker 2"), {ISR_CHANGE_KEEPS_LEADER}),
        (DecidedState(1, 5, (1,), "replica offline"), set()),
        (DecidedState(-1, 5, (2,), "replica removed"), set()),
        (DecidedState(2, 5, (2,), "replica offline"), {REMOVAL_TAKES_ONE}),
        (DecidedState(1, 5, (), "replica offline"), {REMOVAL_TAKES_ONE}),
        (DecidedState(1, 4, (1, 2, 3), "replica offline"), {REMOVAL_TAKES_ONE}),
        (DecidedState(2, 5, (2,), "replica 1 leaves the ISR"), set()),
        (DecidedState(2, 5, (1, 2), "Preferred"), set()),
        (DecidedState(1, 5, (1, 2), "Preferred"), {ELECTION_CHANGES_LEADER}),
        (DecidedState(1, 5, (1, 2), "ControlledShutdown"), {ELECTION_CHANGES_LEADER}),
        (DecidedState(1, 5, (1, 2), "Reassign"), set()),
    ],
)
def test_what_one_state_may_be_after_another(after: DecidedState, rules: set[str]) -> None:
    found = dict(decision_violations(BEFORE, after))
    assert set(found) == rules
    assert all(message and "{" not in message for message in found.values())
    assert set(found) <= set(MESSAGES)


def test_nobody_who_led_before_is_elected_again() -> None:
    without = DecidedState(-1, 4, (1,), "")
    assert dict(decision_violations(without, replace(without, leader_epoch=5, reason="ControlledShutdown"))) == {}
