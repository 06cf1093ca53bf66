from random import Random

from msgspec.structs import replace

from cluster.broker import BrokerId, LeaderEpoch, PartitionEpoch
from state_log.record import Cause, Kind, LoggedStateChange, by_partition
from state_log.story import LeadershipSpan, leadership_history, story
from tests.state_change_histories import draw, shuffled, stamped

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


def test_every_record_of_a_history_is_reported_once_in_an_order_of_its_own() -> None:
    streams = stamped(draw(17, steps=60).logs)
    parts = [[part for r in stream for _, part in by_partition(r)] for stream in streams]
    first = story(shuffled(parts, Random(1)))
    assert first == story(shuffled(parts, Random(2)))
    assert len(first) == sum(map(len, parts))
    epochs = [line.record.partition_epoch for line in first if line.record.partition_epoch is not None]
    assert epochs == sorted(epochs)
