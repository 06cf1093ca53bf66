"""What a recovery makes of the brokers' answers: the newest epochs and assignment, and what ZooKeeper has already."""

from collections.abc import Sequence

import pytest

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, Offset
from cluster.model.partition import EMPTY_ASSIGNMENT, LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.requests.recovery import DescribedReplica, KnownLeadership
from controller.decisions.recovery.plan import PartitionRecovery, RestoredCluster, plan_recovery
from tests.controllers.contexts import assignment, ids, leadership
from tests.unit.controller.test_recovery import NEW, OLD, T0, Knowledge, answers, known, only, plan, replica, restored

EMPTY = RestoredCluster({}, {}, ControllerEpoch(9))
THIRD = OLD.replace("A", "C")


def everywhere(epoch: int, *leaderships: KnownLeadership) -> Knowledge:
    """Brokers 1 to 3 have the same log; broker 1 knows these leaderships."""
    return {b: ([replica(epoch, 9)], list(leaderships) if b == 1 else []) for b in (1, 2, 3)}


@pytest.mark.rule("RC-7")
@pytest.mark.parametrize(
    ("what", "state", "of", "is_left_alone"),
    [
        ("as the newest", leadership(2, [2, 3], leader_epoch=5, partition_epoch=12), everywhere(5), True),
        ("in another order", leadership(2, [3, 2], leader_epoch=5, partition_epoch=12), everywhere(5), True),
        ("another leader", leadership(3, [2, 3], leader_epoch=5, partition_epoch=12), everywhere(5), False),
        ("another ISR", leadership(2, [2], leader_epoch=5, partition_epoch=12), everywhere(5), False),
        (
            "a log has a higher epoch",
            leadership(2, [2, 3], leader_epoch=5, partition_epoch=12),
            everywhere(6),
            False,
        ),
        (
            "an earlier leadership had a higher partition epoch",
            leadership(2, [2, 3], leader_epoch=5, partition_epoch=12),
            everywhere(5, known(4, 13, [1], leader=1)),
            False,
        ),
        ("written by an earlier run", leadership(2, [2, 3], leader_epoch=6, partition_epoch=13), everywhere(5), True),
        ("only its leader epoch", leadership(2, [2, 3], leader_epoch=6, partition_epoch=12), everywhere(5), False),
        ("only its version", leadership(2, [2, 3], leader_epoch=5, partition_epoch=13), everywhere(5), False),
        ("another one leads", leadership(3, [2, 3], leader_epoch=6, partition_epoch=13), everywhere(5), False),
        ("others in sync", leadership(2, [2], leader_epoch=6, partition_epoch=13), everywhere(5), False),
    ],
)
def test_a_state_is_left_alone_if_it_is_the_newest_known_or_what_was_made_of_it(
    what: str, state: LeaderAndIsr, of: Knowledge, is_left_alone: bool
) -> None:
    newest = known(5, 12, [2, 3], leader=2)
    with_newest = {b: (logs, [newest, *led]) for b, (logs, led) in of.items()}
    assert (plan(restored(state), with_newest).topics == ()) is is_left_alone, what


@pytest.mark.rule("RC-7")
@pytest.mark.parametrize(("log_epoch", "is_left_alone"), [(2, True), (3, False), (4, False)])
def test_without_a_leadership_a_state_is_left_alone_above_the_logs_only(log_epoch: int, is_left_alone: bool) -> None:
    assert (plan(restored(), everywhere(log_epoch)).topics == ()) is is_left_alone


@pytest.mark.rule("RC-3", "RC-4", "RC-5")
def test_a_partition_is_planned_field_by_field() -> None:
    of: Knowledge = {1: ([replica(3, 50)], []), 2: ([replica(5, 90)], [known(5, 12, [3, 2])])}
    planned = plan(restored(), of)
    listed = assignment([1, 2, 3])
    assert only(planned) == PartitionRecovery(
        topic_partition=T0,
        before=leadership(1, [1, 2, 3], leader_epoch=3, partition_epoch=7),
        after=leadership(2, [2], leader_epoch=6, partition_epoch=13, controller_epoch=9),
        old_assignment=listed,
        assignment=listed,
        last_isr=ids(3, 2),
        absent=ids(3),
        log_end_offset=Offset(90),
    )
    assert planned.refusals == ("t-0: replicas of its last known ISR are absent, on brokers 3",)


@pytest.mark.rule("RC-3")
def test_of_equal_replicas_without_the_last_leader_a_member_of_the_isr_leads() -> None:
    of: Knowledge = {1: ([replica(5, 9)], []), 3: ([replica(5, 9)], [known(5, 12, [2, 3])])}
    assert only(plan(restored(), of)).after.leader == 3


@pytest.mark.rule("RC-6")
def test_a_topic_is_created_from_logs_alone_on_the_brokers_that_have_them() -> None:
    planned = plan(EMPTY, {3: ([replica(4, 9)], []), 1: ([replica(4, 8)], [])})
    (topic,) = planned.topics
    assert topic.after == TopicAssignment({0: ReplicaAssignment(ids(1, 3))}, OLD)
    assert only(planned) == PartitionRecovery(
        T0,
        None,
        leadership(3, [3], leader_epoch=5, partition_epoch=0, controller_epoch=9),
        EMPTY_ASSIGNMENT,
        assignment([1, 3]),
        ids(1, 3),
        (),
        Offset(9),
    )
    assert (planned.only_on_brokers, planned.refusals) == (("t",), ())


@pytest.mark.rule("RC-5")
@pytest.mark.parametrize(("leader_epoch", "log_epoch", "planned"), [(7, 5, 8), (3, 6, 7)])
def test_the_leader_epoch_rises_above_those_obeyed_and_those_in_the_log(
    leader_epoch: int, log_epoch: int, planned: int
) -> None:
    log = DescribedReplica("t", OLD, 0, LeaderEpoch(leader_epoch), LeaderEpoch(log_epoch), Offset(9))
    assert only(plan(EMPTY, {1: ([log], [])})).after.leader_epoch == planned


@pytest.mark.rule("RC-8")
@pytest.mark.parametrize(
    ("what", "leaderships", "listed", "expected"),
    [
        (
            "only the leader knows what is being reassigned",
            {1: known(5, 12, [1, 2], [1, 2, 3]), 2: known(5, 12, [1, 2], [1, 2, 3], adding=[3], removing=[1])},
            assignment([1, 2]),
            assignment([1, 2, 3], adding=[3], removing=[1]),
        ),
        (
            "a follower does not know what is listed as being reassigned",
            {1: known(5, 12, [1, 2], [1, 2, 3])},
            assignment([1, 2, 3], adding=[3], removing=[1]),
            assignment([1, 2, 3], adding=[3], removing=[1]),
        ),
        (
            "replicas that are being removed",
            {1: known(5, 12, [1, 2], [2, 1], removing=[1])},
            assignment([1, 2]),
            assignment([2, 1], removing=[1]),
        ),
        (
            "of equal ones the first broker's",
            {1: known(5, 12, [1, 2], [1, 2]), 2: known(5, 12, [1, 2], [2, 1])},
            assignment([1, 2, 3]),
            assignment([1, 2]),
        ),
        ("no replicas are known", {1: known(5, 12, [1, 2], [])}, assignment([2, 1]), assignment([2, 1])),
    ],
)
def test_the_newest_assignment_counts(
    what: str, leaderships: dict[int, KnownLeadership], listed: ReplicaAssignment, expected: ReplicaAssignment
) -> None:
    cluster = RestoredCluster({"t": TopicAssignment({0: listed}, OLD)}, restored().leaderships, ControllerEpoch(9))
    (topic,) = plan(cluster, {b: ([replica(5, 9)], [led]) for b, led in leaderships.items()}).topics
    assert topic.after.partitions == {0: expected}, what
    assert (topic.partitions[0].old_assignment, topic.partitions[0].assignment) == (listed, expected)


@pytest.mark.rule("RC-3", "RC-4")
def test_logs_that_have_no_topic_id_yet_count_as_well() -> None:
    of: Knowledge = {1: ([replica(5, 9, topic_id=None)], [known(5, 12, [1, 2])]), 2: ([replica(5, 8)], [])}
    partition = only(plan(restored(), of))
    assert (partition.after.leader, partition.after.isr, partition.absent) == (1, ids(1, 2), ())


@pytest.mark.rule("RC-6")
@pytest.mark.parametrize(
    ("ends", "chosen"),
    [
        ({OLD: 0, NEW: 0}, OLD),
        ({NEW: 0}, NEW),
        ({OLD: 9, NEW: 0}, OLD),
        ({OLD: 0, NEW: 9}, NEW),
        ({OLD: 9, NEW: 9}, None),
        ({NEW: 0, THIRD: 0}, None),
    ],
)
def test_of_several_topics_of_a_name_the_one_with_records_counts_then_the_one_in_zookeeper(
    ends: dict[str, int], chosen: str | None
) -> None:
    of: Knowledge = {b: ([replica(4, end, topic_id=i)], []) for b, (i, end) in enumerate(ends.items(), 1)}
    planned = plan_recovery(restored(), answers(of), accept_loss=True)
    assert [topic.after.topic_id for topic in planned.topics] == ([] if chosen is None else [chosen])


@pytest.mark.rule("RC-4", "RC-6")
def test_what_cannot_be_recovered_keeps_nothing_from_being_recovered() -> None:
    """a: two topics; b: known by name; c: only in ZooKeeper, and absent; d: left by its replica; t: to be recovered."""
    topics = {"c": TopicAssignment({0: assignment([3]), 1: assignment([1]), 2: assignment([4, 3])}, OLD)}
    cluster = RestoredCluster(topics, {}, ControllerEpoch(9), silent=ids(3))
    of: Knowledge = {
        1: (
            [replica(1, 9, topic="a"), replica(1, 9, topic="d"), replica(1, 9)],
            [known(2, 2, [2], topic="b"), known(2, 2, [4], [4, 5], topic="d"), known(1, 1, [1], [1])],
        ),
        2: ([replica(1, 9, topic="a", topic_id=NEW)], []),
    }
    planned = plan(cluster, of)
    assert planned.refusals == (
        "broker 3 is registered, but does not answer: what it has is not known",
        f"topic a: brokers have logs of several topics of this name, with the ids {OLD}, {NEW}: "
        "move those of all but one out of the log directories",
        "c-0: replicas of its last known ISR are absent, on brokers 3",
        "c-2: replicas of its last known ISR are absent, on brokers 4, 3",
        "d-0: replicas of its last known ISR are absent, on brokers 4",
    )
    assert [topic.topic for topic in planned.topics] == ["t"]
    assert (planned.only_on_brokers, planned.only_in_zookeeper) == (("t",), ("c",))


@pytest.mark.rule("RC-4")
def test_partitions_that_cannot_be_recovered_keep_none_from_it() -> None:
    """t-0: unchanged since the backup, and absent; t-1: no ISR is known, and absent; t-2: to be recovered."""
    numbers = range(3)
    listed: dict[int, ReplicaAssignment] = {number: assignment([3]) for number in numbers}
    states = {TopicPartition("t", number): leadership(3, [3], leader_epoch=3, partition_epoch=7) for number in numbers}
    cluster = RestoredCluster({"t": TopicAssignment(listed, OLD)}, states, ControllerEpoch(9))
    led = [known(3, 7, [3], [3]), known(4, 8, [], [4, 5], leader=4, partition=1), known(4, 8, [1], [1], partition=2)]
    planned = plan(cluster, {1: ([replica(4, 9, partition=2)], led)})
    assert planned.refusals == ("t-1: replicas of its last known ISR are absent, on brokers 4, 5",)
    assert [p.topic_partition.partition for p in planned.topics[0].partitions] == [2]


@pytest.mark.rule("RC-2", "RC-5")
@pytest.mark.parametrize(
    ("last", "brokers", "producer_id", "controller_epoch"),
    [(-1, [], -1, 9), (999, [], 999, 9), (150, [1, 2], 200, 12), (999, [2], 999, 12), (-1, [1], 100, 12)],
)
def test_the_highest_producer_id_and_controller_epoch_are_those_of_zookeeper_or_a_broker(
    last: int, brokers: Sequence[int], producer_id: int, controller_epoch: int
) -> None:
    cluster = RestoredCluster({}, {}, ControllerEpoch(9), last_producer_id=last)
    planned = plan(cluster, {b: ([], []) for b in brokers})
    assert (planned.last_producer_id, planned.controller_epoch) == (producer_id, controller_epoch)
    low = plan_recovery(cluster, answers({BrokerId(1): ([], [])}, controller_epoch=8), accept_loss=False)
    assert low.controller_epoch == 9
