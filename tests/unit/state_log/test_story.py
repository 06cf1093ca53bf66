from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerEpoch, ControllerId, LeaderEpoch, PartitionEpoch, TopicId
from state_log.causes import BY_AGENTS
from state_log.record import Cause, Kind, LoggedStateChange, by_partition
from state_log.story import LeadershipSpan, leadership_history, story
from tests.audits.state_change_histories import draw, shuffled, stamped

FIRST = LoggedStateChange(
    kind=Kind.PARTITION,
    v=1,
    seq=0,
    node="controller-1001",
    incarnation="1700000000000.1",
    at_ms=1000,
    cause=Cause("TopicChange", 4),
    topic="t",
    partition=0,
    from_state="NewPartition",
    to_state="OnlinePartition",
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(0),
    partition_epoch=PartitionEpoch(0),
    isr=(BrokerId(1), BrokerId(2)),
)
SHRUNK = replace(FIRST, seq=1, at_ms=2000, kind=Kind.ISR, partition_epoch=PartitionEpoch(1), isr=(BrokerId(1),))
LOST = replace(
    SHRUNK,
    seq=2,
    at_ms=3000,
    cause=Cause("BrokerChange", 9),
    reason="replica offline",
    leader=BrokerId(-1),
    leader_epoch=LeaderEpoch(1),
    partition_epoch=PartitionEpoch(2),
)
FOLLOWED_UP = replace(
    FIRST,
    kind=Kind.ROLE,
    cause=Cause("LeaderAndIsr", 3),
    seq=7,
    node="broker-1",
    at_ms=5,
    broker=1,
    to_state="leader",
)
CUT = replace(
    FOLLOWED_UP, kind=Kind.TRUNCATION, cause=None, seq=8, leader=None, partition_epoch=None, reason="from 9 to 7"
)


def test_the_story_tells_cause_before_effect_though_clocks_disagree() -> None:
    lines = story([CUT, FOLLOWED_UP, LOST, FIRST, SHRUNK])
    assert [line.message for line in lines] == [
        "leader 1 in epoch 0, in sync [1, 2]: TopicChange",
        "broker 1 leads in epoch 0: LeaderAndIsr",
        "broker 1 cut its log: from 9 to 7",
        "leader 1 in epoch 0, in sync [1]: TopicChange",
        "no leader in epoch 1, in sync [1]: BrokerChange, replica offline",
    ]
    assert (lines[1].node, lines[1].at_ms) == ("broker-1", 5)


def test_moves_between_log_directories_stand_in_it_with_both_directories() -> None:
    moved = replace(CUT, kind=Kind.DIRECTORY_MOVE, cause=Cause("AlterReplicaLogDirs"), reason="from /a to /b")
    records = [
        replace(moved, seq=9 + n, at_ms=10 + n, to_state=state)
        for n, state in enumerate(("started", "abandoned", "started", "completed"))
    ]
    lines = story([FIRST, FOLLOWED_UP, *records])
    assert [line.message for line in lines][2:] == [
        f"broker 1 {what} its replica to another log directory: AlterReplicaLogDirs, from /a to /b"
        for what in ("begins to move", "no longer moves", "begins to move", "has moved")
    ]
    assert [span.leader for span in leadership_history([FIRST, FOLLOWED_UP, *records])] == [1]


def test_a_changed_setting_of_the_topic_stands_in_it_with_its_value() -> None:
    changed = LoggedStateChange(
        kind=Kind.CONFIG,
        v=2,
        seq=3,
        node=FIRST.node,
        incarnation=FIRST.incarnation,
        at_ms=4000,
        topic="t",
        cause=Cause("AlterConfigsReceived", 12),
        min_insync_replicas=2,
    )
    assert [line.message for line in story([changed, FIRST])][1] == "min.insync.replicas is 2: AlterConfigsReceived"


def test_a_new_controller_finds_a_leader_after_the_agents_were_informed_of_it_by_the_one_before() -> None:
    written = replace(FIRST, controller_epoch=1)
    role = replace(FOLLOWED_UP, controller_epoch=1)
    found = replace(FIRST, controller_epoch=2, node="controller-1002", kind=Kind.LOADED)
    assert [line.record for line in story([found, role, written])] == [written, role, found]


def test_the_leadership_history_says_who_led_from_when_to_when_and_why() -> None:
    assert leadership_history([LOST, FOLLOWED_UP, SHRUNK, FIRST]) == [
        LeadershipSpan(1, 0, 1000, 3000, "TopicChange"),
        LeadershipSpan(-1, 1, 3000, None, "BrokerChange, replica offline"),
    ]


def test_a_partition_that_stays_without_a_leader_has_one_row_for_it() -> None:
    later = replace(LOST, seq=3, at_ms=4000, leader_epoch=LeaderEpoch(2), partition_epoch=PartitionEpoch(3))
    back = replace(later, seq=4, at_ms=5000, leader=BrokerId(1), leader_epoch=LeaderEpoch(3))
    spans = leadership_history([FIRST, LOST, later, back])
    assert [(span.leader, span.since_ms, span.until_ms) for span in spans] == [
        (1, 1000, 3000),
        (-1, 3000, 5000),
        (1, 5000, None),
    ]


def test_that_a_replica_was_stopped_is_not_said_of_its_broker() -> None:
    stopped = replace(FOLLOWED_UP, to_state="stopped", leader=None)
    offline = replace(FIRST, kind=Kind.REPLICA, leader=None, broker=1, from_state="A", to_state="B")
    assert [line.change for line in story([offline, stopped])] == [
        "the replica of broker 1: A to B",
        "the replica of broker 1 is stopped",
    ]


def test_every_record_of_a_history_is_reported_once_in_an_order_of_its_own() -> None:
    streams = stamped(draw(17, steps=60).logs)
    parts = [[part for r in stream for _, part in by_partition(r)] for stream in streams]
    first = story(shuffled(parts, Random(1)))
    assert first == story(shuffled(parts, Random(2)))
    assert len(first) == sum(map(len, parts))
    written: list[int | None] = []
    for record in (line.record for line in first if line.record.partition_epoch is not None):
        if record.kind in BY_AGENTS:
            assert record.partition_epoch in written
        else:
            written.append(record.partition_epoch)
    assert written == sorted(written, key=lambda epoch: -1 if epoch is None else epoch)


def of_controller(seq: int, at_ms: int, event: int, **fields: Any) -> LoggedStateChange:
    return replace(FIRST, v=2, seq=seq, at_ms=at_ms, cause=Cause("Event", event), controller_epoch=7, **fields)


def of_agent(broker: int, seq: int, at_ms: int, event: int, **fields: Any) -> LoggedStateChange:
    about: dict[str, Any] = dict.fromkeys(("leader", "leader_epoch", "partition_epoch", "isr", "from_state"))
    about |= {"cause": Cause("Event", event, ControllerId(1001), ControllerEpoch(7)), "broker": broker}
    node = {"node": f"broker-{broker}", "seq": seq, "at_ms": at_ms, "kind": Kind.ROLE, "v": 2}
    return replace(FIRST, **{**about, **node, **fields})


def a_move(agents_ahead_by: int) -> list[LoggedStateChange]:
    """Replica 3 is moved away: the election away from it, its end, and what the agents did; in the order of causes."""
    gone = {"kind": Kind.REPLICA, "broker": 3, "leader": None, "leader_epoch": None, "partition_epoch": None}
    first = {"partition_epoch": PartitionEpoch(0), "leader_epoch": LeaderEpoch(0), "leader": BrokerId(1)}
    led = {"partition_epoch": PartitionEpoch(1), "leader_epoch": LeaderEpoch(1), "leader": BrokerId(2)}
    skew = agents_ahead_by
    return [
        of_controller(0, 100, 1, **first),
        of_agent(1, 0, 110 + skew, 1, to_state="leader", **first),
        of_controller(1, 318, 2, **led),
        of_agent(2, 0, 330 + skew, 2, to_state="leader", **led),
        of_controller(2, 380, 3, from_state="OnlineReplica", to_state="OfflineReplica", **gone),
        of_agent(3, 0, 386 + skew, 3, to_state="stopped"),
        of_controller(3, 390, 3, from_state="OfflineReplica", to_state="ReplicaDeletionStarted", **gone),
        of_agent(3, 1, 402 + skew, 3, to_state="deleted"),
        of_controller(4, 410, 4, from_state="ReplicaDeletionStarted", to_state="ReplicaDeletionSuccessful", **gone),
    ]


def test_where_clocks_agree_the_story_is_in_the_order_of_time() -> None:
    records = a_move(agents_ahead_by=0)
    assert [line.record for line in story(reversed(records))] == records


@pytest.mark.parametrize("ahead", [-1_000_000, -50, 50, 1_000_000])
def test_however_clocks_differ_a_decision_stands_before_its_effects(ahead: int) -> None:
    first_led, leads, elected, elected_leads, offline, stopped, started, deleted, ended = a_move(ahead)
    order = [line.record for line in story(a_move(ahead))]
    assert order == [line.record for line in story(shuffled([[record] for record in a_move(ahead)], Random(3)))]
    for before, after in [
        (first_led, leads),
        (elected, elected_leads),
        (offline, stopped),
        (started, deleted),
        (stopped, deleted),
        (deleted, ended),
    ]:
        assert order.index(before) < order.index(after)


def test_records_that_contradict_one_another_are_all_shown() -> None:
    tampered = [replace(record, seq=9 - record.seq) for record in a_move(0)]
    assert len(story(tampered)) == len(tampered)


def test_a_topic_that_was_deleted_and_created_anew_has_two_histories() -> None:
    old, new = TopicId("a" * 22), TopicId("b" * 22)
    end = replace(FIRST, kind=Kind.TOPIC, partition=None, leader=None, leader_epoch=None, partition_epoch=None)
    records = [
        replace(FIRST, topic_id=old),
        replace(LOST, topic_id=old, cause=Cause("TopicDeletion", 8)),
        replace(end, topic_id=old, seq=3, at_ms=3500, to_state="deleted", cause=Cause("Answer", 9)),
        replace(FIRST, topic_id=new, seq=4, at_ms=4000, leader=BrokerId(2)),
        replace(end, topic_id=new, seq=5, at_ms=5000, to_state="deleted", cause=Cause("Answer", 12)),
    ]
    assert leadership_history(records) == [
        LeadershipSpan(1, 0, 1000, 3000, "TopicChange", old),
        LeadershipSpan(-1, 1, 3000, 3500, "TopicDeletion, replica offline", old),
        LeadershipSpan(-1, -1, 3500, 3500, "Answer", old, deleted=True),
        LeadershipSpan(2, 0, 4000, 5000, "TopicChange", new),
        LeadershipSpan(-1, -1, 5000, 5000, "Answer", new, deleted=True),
    ]
