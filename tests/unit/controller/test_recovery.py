"""The recovery from what brokers know: no replica behind a member of the last ISR, nothing lowered, nothing deleted."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch, TopicId
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.requests.recovery import DescribedReplica, DescribeReplicasResponse, KnownLeadership
from cluster.znodes.cluster_wide import ProducerIdBlock
from cluster.znodes.paths import state_path, topic_path
from cluster.znodes.topics import decode_topic
from cluster.zookeeper.port import Create, Op, SetData
from controller.decisions.recovery.plan import PartitionRecovery, RecoveryPlan, RestoredCluster, plan_recovery
from controller.decisions.recovery.producer_ids import block_above
from controller.decisions.recovery.writes import paths_of, units_of
from tests.controllers.contexts import ids, leadership

OLD, NEW = TopicId("A" * 21 + "Q"), TopicId("B" * 21 + "Q")
T0 = TopicPartition("t", 0)
Knowledge = Mapping[int, tuple[Sequence[DescribedReplica], Sequence[KnownLeadership]]]
"""Broker -> its logs, and the leaderships it knows."""


def replica(
    epoch: int, end: int, *, topic: str = "t", topic_id: TopicId | None = OLD, partition: int = 0
) -> DescribedReplica:
    return DescribedReplica(topic, topic_id, partition, LeaderEpoch(epoch), LeaderEpoch(epoch), Offset(end))


def known(
    epoch: int,
    partition_epoch: int,
    isr: Sequence[int],
    replicas: Sequence[int] = (1, 2, 3),
    *,
    topic: str = "t",
    topic_id: TopicId | None = OLD,
    leader: int | None = None,
    partition: int = 0,
    adding: Sequence[int] = (),
    removing: Sequence[int] = (),
) -> KnownLeadership:
    return KnownLeadership(
        topic,
        topic_id,
        partition,
        BrokerId(isr[0] if leader is None else leader),
        LeaderEpoch(epoch),
        PartitionEpoch(partition_epoch),
        ids(*isr),
        ids(*replicas),
        ids(*adding),
        ids(*removing),
    )


def answers(of: Knowledge, controller_epoch: int = 12) -> dict[BrokerId, DescribeReplicasResponse]:
    return {
        BrokerId(b): DescribeReplicasResponse(
            BrokerId(b), ControllerEpoch(controller_epoch), 100 * b, tuple(replicas), tuple(leaderships)
        )
        for b, (replicas, leaderships) in of.items()
    }


def restored(state: LeaderAndIsr | None = None, replicas: Sequence[int] = (1, 2, 3)) -> RestoredCluster:
    """A backup in which broker 1 leads t-0 with all replicas in sync, in epoch 3."""
    state = leadership(1, [1, 2, 3], leader_epoch=3, partition_epoch=7) if state is None else state
    topics = {"t": TopicAssignment({0: ReplicaAssignment(ids(*replicas))}, OLD)}
    return RestoredCluster(topics, {T0: state}, ControllerEpoch(9))


def plan(cluster: RestoredCluster, of: Knowledge) -> RecoveryPlan:
    return plan_recovery(cluster, answers(of), accept_loss=False)


def only(planned: RecoveryPlan) -> PartitionRecovery:
    (topic,) = planned.topics
    (partition,) = topic.partitions
    return partition


@pytest.mark.rule("RC-3", "RC-4")
@pytest.mark.parametrize(
    ("what", "of", "leader", "isr", "absent"),
    [
        (
            "the leader of the newest epoch is chosen, and its ISR kept",
            {1: ([replica(3, 50)], []), 2: ([replica(5, 90)], [known(5, 12, [2, 3])]), 3: ([replica(5, 80)], [])},
            2,
            [2, 3],
            [],
        ),
        (
            "a longer log of an older epoch was never acknowledged",
            {1: ([replica(4, 500)], []), 2: ([replica(5, 90)], [known(5, 12, [2, 3])]), 3: ([replica(5, 80)], [])},
            2,
            [2, 3],
            [],
        ),
        (
            "a member of the last ISR is absent",
            {1: ([replica(3, 50)], []), 3: ([replica(5, 80)], [known(5, 12, [2, 3])])},
            3,
            [3],
            [2],
        ),
        (
            "no ISR is known: every replica of the assignment counts",
            {1: ([replica(4, 50)], []), 2: ([replica(4, 60)], [])},
            2,
            [2],
            [3],
        ),
        (
            "a replica outside the ISR has all that its members have, and more",
            {1: ([replica(5, 95)], []), 2: ([replica(5, 90)], [known(5, 12, [2])]), 3: ([replica(5, 80)], [])},
            1,
            [2, 1],
            [],
        ),
        (
            "of equal ones the last leader",
            {1: ([replica(5, 9)], []), 2: ([replica(5, 9)], [known(5, 12, [3, 2])]), 3: ([replica(5, 9)], [])},
            3,
            [3, 2],
            [],
        ),
    ],
)
def test_who_leads(
    what: str,
    of: Knowledge,
    leader: int,
    isr: list[int],
    absent: list[int],
) -> None:
    planned = plan(restored(), of)
    partition = only(planned)
    assert (partition.after.leader, partition.after.isr) == (leader, ids(*isr)), what
    assert partition.absent == ids(*absent)
    assert bool(planned.refusals) == bool(absent)
    assert partition.after.leader_epoch > 4
    assert planned.controller_epoch == 12


@pytest.mark.rule("RC-5")
def test_epochs_rise_above_all_that_was_seen_and_the_partition_epoch_by_as_many_writes() -> None:
    partition = only(plan(restored(), {b: ([replica(5, 9)], [known(6, 12, [1, 2, 3])]) for b in (1, 2, 3)}))
    assert (partition.after.leader_epoch, partition.after.partition_epoch) == (7, 13)
    (topic,) = plan(restored(), {b: ([replica(5, 9)], [known(6, 12, [1, 2, 3])]) for b in (1, 2, 3)}).topics
    ops = [op for unit in units_of(topic, {state_path(T0): 7, topic_path("t"): 0}) for op in unit]
    assert [op.version for op in ops if isinstance(op, SetData)] == [7, 8, 9, 10, 11, 12]
    assert {op.path for op in ops} == {state_path(T0)}


@pytest.mark.rule("RC-6")
def test_a_topic_that_only_brokers_know_is_created_with_its_id_and_its_states_at_once() -> None:
    logs = [replica(2, 9, topic="u", topic_id=NEW, partition=p) for p in range(120)]
    led = [known(2, 4, [1, 2], [1, 2], topic="u", topic_id=NEW, partition=p) for p in range(120)]
    extra: Knowledge = {1: (logs, led), 2: (logs, [])}
    planned = plan(RestoredCluster({}, {}, ControllerEpoch(9)), extra)
    assert (planned.only_on_brokers, planned.refusals) == (("u",), ())
    (topic,) = planned.topics
    units = units_of(topic, {})
    creation = [unit for unit in units if any(op.path == topic_path("u") for op in unit)]
    assert len(creation) == 3
    assert isinstance(next(op for op in creation[0] if op.path == topic_path("u")), Create)
    for unit in creation:
        # What the topic znode names has a state in the same transaction, or in an earlier one.
        content = next(op for op in unit if op.path == topic_path("u"))
        assert isinstance(content, Create | SetData)
        named = decode_topic("u", content.data)
        assert named.topic_id == NEW
        done = {op.path for earlier in units[: units.index(unit) + 1] for op in earlier}
        assert {state_path(TopicPartition("u", p)) for p in named.partitions} <= done
    assert sorted(named.partitions) == list(range(120))


@pytest.mark.rule("RC-6")
def test_topics_without_replicas_stay_as_they_are() -> None:
    planned = plan(restored(), {1: ([], []), 2: ([], []), 3: ([], [])})
    assert (planned.topics, planned.only_in_zookeeper, planned.refusals) == ((), ("t",), ())


@pytest.mark.rule("RC-6")
def test_a_later_topic_of_the_same_name_replaces_the_one_of_the_backup() -> None:
    """And the deletion of the earlier one, which the backup still asks for, is withdrawn."""
    of: Knowledge = {b: ([replica(0, 9, topic_id=NEW)], [known(0, 2, [1, 2, 3], topic_id=NEW)]) for b in (1, 2, 3)}
    cluster = RestoredCluster(restored().topics, restored().leaderships, ControllerEpoch(9), leaving=frozenset("t"))
    planned = plan(cluster, of)
    (topic,) = planned.topics
    assert (topic.after.topic_id, topic.withdraws_deletion, planned.only_on_brokers) == (NEW, True, ("t",))
    assert topic.partitions[0].after.leader_epoch == 4  # Above that of the earlier topic, too.


@pytest.mark.rule("RC-6")
def test_two_topics_of_one_name_are_not_decided_silently() -> None:
    of: Knowledge = {1: ([replica(0, 9, topic_id=NEW)], []), 2: ([replica(3, 9)], []), 3: ([], [])}
    assert "logs of several topics" in plan(restored(), of).refusals[0]
    assert plan_recovery(restored(), answers(of), accept_loss=True).topics == ()
    third = TopicId("C" * 21 + "Q")
    several: Knowledge = {1: ([replica(0, 9, topic_id=NEW)], []), 2: ([replica(0, 9, topic_id=third)], [])}
    planned = plan(RestoredCluster({}, {}, ControllerEpoch(9)), several)
    assert (planned.topics, len(planned.refusals)) == ((), 1)


@pytest.mark.rule("RC-4")
def test_a_registered_broker_that_does_not_answer_is_a_refusal() -> None:
    cluster = RestoredCluster({}, {}, ControllerEpoch(9), silent=ids(3))
    assert plan_recovery(cluster, {}, accept_loss=False).refusals == (
        "broker 3 is registered, but does not answer: what it has is not known",
    )
    assert plan_recovery(cluster, {}, accept_loss=True).refusals == ()


@pytest.mark.rule("RC-4", "RC-9")
@pytest.mark.parametrize("accept_loss", [False, True])
@pytest.mark.parametrize(
    ("silent", "unreadable", "answered", "are_obstacles"),
    [
        ((3,), (3,), (1,), False),
        ((3, 4), (3,), (), False),
        ((3, 4), (3, 4), (), True),
        ((3,), (3,), (), True),
    ],
)
def test_a_malformed_registration_is_named_and_an_obstacle_where_there_are_no_others(
    silent: tuple[int, ...],
    unreadable: tuple[int, ...],
    answered: tuple[int, ...],
    are_obstacles: bool,
    accept_loss: bool,
) -> None:
    """The next controller would admit nobody, and step down."""
    cluster = RestoredCluster({}, {}, ControllerEpoch(9), silent=ids(*silent), unreadable=frozenset(ids(*unreadable)))
    planned = plan_recovery(cluster, answers({broker: ([], []) for broker in answered}), accept_loss=accept_loss)
    named = tuple(
        f"the znode /brokers/ids/{broker} is malformed, so what broker {broker} has is not known: restart it"
        for broker in unreadable
    )
    assert planned.obstacles == (named if are_obstacles else ())
    assert set(named) <= set(planned.refusals) or (accept_loss and not are_obstacles)


@pytest.mark.rule("RC-4")
def test_a_partition_whose_only_replica_is_absent_is_a_refusal_if_it_changed_after_the_backup() -> None:
    changed: Knowledge = {1: ([], [known(5, 9, [3], [3])]), 2: ([], [])}
    assert len(plan(restored(), changed).refusals) == 1
    unchanged: Knowledge = {1: ([], [known(3, 7, [1, 2, 3])]), 2: ([], [])}
    assert plan(restored(), unchanged).refusals == ()


@pytest.mark.rule("RC-4")
def test_nothing_is_recovered_before_the_brokers_of_the_assignment_are_there() -> None:
    """Right after the restore no broker has registered again."""
    assert len(plan(restored(), {}).refusals) == 1
    assert len(plan(restored(), {1: ([], []), 2: ([], [])}).refusals) == 1


@pytest.mark.rule("RC-7")
@pytest.mark.parametrize("state", [(3, 7), (5, 12)], ids=["as the backup", "as later"])
def test_what_the_brokers_know_as_well_is_left_alone(state: tuple[int, int]) -> None:
    cluster = restored(leadership(2, [2, 3], leader_epoch=state[0], partition_epoch=state[1]))
    of: Knowledge = {b: ([replica(state[0], 90 - b)], [known(*state, [2, 3], leader=2)]) for b in (1, 2, 3)}
    assert plan(cluster, of).topics == ()


@pytest.mark.rule("RC-8")
def test_a_reassignment_that_was_completed_after_the_backup_is_not_undone() -> None:
    of: Knowledge = {b: ([replica(5, 9)], [known(5, 12, [4, 2], [4, 2])]) for b in (2, 4)}
    planned = plan(restored(), of)
    assert planned.topics[0].after.partitions == {0: ReplicaAssignment(ids(4, 2))}
    assert only(planned).after.leader in (2, 4)


@pytest.mark.rule("RC-4", "RC-6")
@pytest.mark.parametrize("accept_loss", [False, True])
@pytest.mark.parametrize(
    ("what", "cluster", "assigned"),
    [("created after the backup", RestoredCluster({}, {}, ControllerEpoch(9)), [1, 2]), ("moved", restored(), [5, 6])],
)
def test_a_replica_on_a_broker_that_the_partition_has_left_is_no_replica_of_it(
    what: str, cluster: RestoredCluster, assigned: list[int], accept_loss: bool
) -> None:
    """Without its state the topic znode is not written: any of its brokers that came first would be elected."""
    of: Knowledge = {3: ([replica(1, 5)], [known(5, 12, assigned, assigned)])}
    planned = plan_recovery(cluster, answers(of), accept_loss=accept_loss)
    assert (planned.topics, planned.only_on_brokers, planned.only_in_zookeeper) == ((), (), ()), what
    refusal = f"t-0: replicas of its last known ISR are absent, on brokers {', '.join(map(str, assigned))}"
    assert planned.refusals == (() if accept_loss else (refusal,))


@pytest.mark.rule("RC-4")
def test_a_replica_on_a_broker_outside_the_listed_assignment_is_no_replica_of_it() -> None:
    assert plan(restored(), {4: ([replica(3, 5)], [])}).refusals == (
        "t-0: replicas of its last known ISR are absent, on brokers 1, 2, 3",
    )


@pytest.mark.rule("RC-4")
def test_high_epochs_of_an_earlier_topic_do_not_hide_what_is_absent_of_the_later_one() -> None:
    earlier = leadership(1, [1], leader_epoch=9, partition_epoch=20)
    listed = {number: ReplicaAssignment(ids(1)) for number in (0, 1, 2)}
    states = {TopicPartition("t", number): earlier for number in listed}
    cluster = RestoredCluster({"t": TopicAssignment(listed, OLD)}, states, ControllerEpoch(9))
    led = [known(0, 0, [1], [1], topic_id=NEW), known(0, 0, [3], [3], topic_id=NEW, partition=1)]
    planned = plan(cluster, {1: ([replica(0, 9, topic_id=NEW)], led)})
    # Partition 2 is one of the earlier topic only.
    assert planned.refusals == ("t-1: replicas of its last known ISR are absent, on brokers 3",)
    assert planned.topics[0].after.partitions == {0: ReplicaAssignment(ids(1))}


@pytest.mark.rule("RC-4", "RC-6")
def test_a_partition_known_by_name_only_is_not_created() -> None:
    """Nobody has a record of t-1, and all who may have one answered; t-2 is listed, and stays as it is."""
    listed = {0: ReplicaAssignment(ids(1)), 2: ReplicaAssignment(ids(2))}
    cluster = RestoredCluster({"t": TopicAssignment(listed, OLD)}, {T0: leadership(1, [1])}, ControllerEpoch(9))
    led = [known(2, 2, [1], [1]), known(3, 3, [2], [2], partition=1), known(3, 3, [1, 2], [1, 2], partition=2)]
    planned = plan(cluster, {1: ([replica(2, 9)], led), 2: ([], [])})
    (topic,) = planned.topics
    assert (topic.after.partitions, [p.topic_partition for p in topic.partitions]) == (listed, [T0])
    assert planned.refusals == ()


@pytest.mark.rule("RC-4", "RC-6")
def test_a_malformed_topic_is_neither_read_nor_written_and_the_others_are() -> None:
    cluster = RestoredCluster(
        restored().topics, restored().leaderships, ControllerEpoch(9), malformed=frozenset(["m", "t"])
    )
    of: Knowledge = {1: ([replica(5, 9), replica(5, 9, topic="u")], [known(5, 9, [1], [1], topic="u")])}
    planned = plan(cluster, of)
    assert planned.refusals == (
        "the znode of topic m is malformed: repair or delete it first",
        "the znode of topic t is malformed: repair or delete it first",
    )
    assert [topic.topic for topic in planned.topics] == ["u"]
    assert plan_recovery(cluster, answers(of), accept_loss=True) == replace(planned, refusals=())


@pytest.mark.rule("RC-6")
def test_a_deletion_goes_on_if_the_brokers_have_the_topic_that_it_is_about() -> None:
    of: Knowledge = {1: ([replica(5, 9), replica(5, 9, topic="u")], [known(5, 9, [1], [1], topic="u")])}
    cluster = RestoredCluster(restored().topics, restored().leaderships, ControllerEpoch(9), leaving=frozenset("t"))
    planned = plan(cluster, of)
    # The absence of brokers 2 and 3 does not matter for it.
    assert ([topic.topic for topic in planned.topics], planned.refusals) == (["u"], ())
    assert [topic.withdraws_deletion for topic in planned.topics] == [False]


@pytest.mark.parametrize(
    ("last", "seen", "block"),
    [
        (None, -1, None),
        (ProducerIdBlock(BrokerId(1), 0, 999), 999, None),
        (ProducerIdBlock(BrokerId(1), 0, 999), 3001, (3000, 3999)),
        (None, 0, (0, 999)),
    ],
)
@pytest.mark.rule("RC-5")
def test_producer_ids_rise_above_those_seen(
    last: ProducerIdBlock | None, seen: int, block: tuple[int, int] | None
) -> None:
    raised = block_above(last, seen, BrokerId(2))
    assert raised == (None if block is None else ProducerIdBlock(BrokerId(2), *block))


# Any knowledge

EPOCHS = st.integers(0, 6)
BROKERS = st.integers(1, 4)
ISRS = st.lists(BROKERS, min_size=1, max_size=3, unique=True)


@st.composite
def leaderships(draw: st.DrawFn) -> KnownLeadership:
    isr = draw(ISRS)
    replicas = list(dict.fromkeys([*isr, *draw(ISRS)]))
    return known(draw(EPOCHS), draw(EPOCHS), isr, replicas, topic_id=draw(st.sampled_from([OLD, NEW])))


@st.composite
def knowledge(draw: st.DrawFn) -> Knowledge:
    return {
        broker: (
            [
                replica(draw(EPOCHS), draw(st.integers(0, 9)), topic_id=draw(st.sampled_from([OLD, NEW, None])))
                for _ in range(draw(st.integers(0, 1)))
            ],
            draw(st.lists(leaderships(), max_size=2)),
        )
        for broker in draw(st.sets(BROKERS))
    }


def written(cluster: RestoredCluster, planned: RecoveryPlan) -> RestoredCluster:
    """What ZooKeeper says after all units of the plan were applied; fails where one could not be."""
    znodes: dict[str, tuple[bytes, int]] = {}
    topics, states = dict(cluster.topics), dict(cluster.leaderships)
    for topic in planned.topics:
        for name, existing in cluster.topics.items():
            znodes[topic_path(name)] = (b"", 0)
            for number in existing.partitions:
                tp = TopicPartition(name, number)
                if tp in cluster.leaderships:
                    znodes[state_path(tp)] = (b"", cluster.leaderships[tp].partition_epoch)
        versions = {path: znodes[path][1] for path in paths_of(topic) if path in znodes}
        for op in (op for unit in units_of(topic, versions) for op in unit):
            _apply(znodes, op)
        topics[topic.topic] = topic.after
        for partition in topic.partitions:
            tp = partition.topic_partition
            assert znodes[state_path(tp)][1] == partition.after.partition_epoch
            states[tp] = partition.after
    return RestoredCluster(topics, states, cluster.controller_epoch)


def _apply(znodes: dict[str, tuple[bytes, int]], op: Op) -> None:
    match op:
        case Create(path, data):
            assert path not in znodes
            znodes[path] = (data, 0)
        case SetData(path, data, version):
            assert znodes[path][1] == version
            znodes[path] = (data, version + 1)
        case _:
            raise AssertionError(f"{op} deletes")


@pytest.mark.rule("RC-3", "RC-4", "RC-5", "RC-6", "RC-7")
@given(st.booleans(), leaderships(), knowledge(), st.booleans())
def test_no_plan_loses_lowers_or_deletes(
    exists: bool,
    backup: KnownLeadership,
    of: Knowledge,
    accept_loss: bool,
) -> None:
    cluster = RestoredCluster({}, {}, ControllerEpoch(9))
    if exists:
        state = leadership(
            backup.leader, backup.isr, leader_epoch=backup.leader_epoch, partition_epoch=backup.partition_epoch
        )
        cluster = restored(state, backup.replicas)
    planned = plan_recovery(cluster, answers(of), accept_loss=accept_loss)
    for topic in planned.topics:
        assert topic.after.partitions.keys() >= (topic.before.partitions.keys() if topic.before else set())
        for partition in topic.partitions:
            _check(partition, topic.after.topic_id, cluster, of)
            assert not partition.absent or accept_loss or planned.refusals
    # Interrupted or not, a second run has nothing left to do.
    again = plan_recovery(written(cluster, planned), answers(of), accept_loss=accept_loss)
    assert again.topics == ()


def _check(
    partition: PartitionRecovery,
    topic_id: str | None,
    cluster: RestoredCluster,
    of: Knowledge,
) -> None:
    after = partition.after
    found = {b: r for b, (replicas, _) in of.items() for r in replicas if r.topic_id in (topic_id, None)}
    chosen = found[after.leader]
    for member in partition.last_isr:
        if member in found and member in partition.assignment.replicas and member not in partition.absent:
            theirs = found[member]
            assert (chosen.log_epoch, chosen.log_end_offset) >= (theirs.log_epoch, theirs.log_end_offset)
    seen = [k for _, ks in of.values() for k in ks if k.topic_id == topic_id]
    assert after.leader_epoch > max((k.leader_epoch for k in seen), default=-1)
    assert after.leader_epoch > max((r.log_epoch for r in found.values()), default=-1)
    assert after.partition_epoch > max((k.partition_epoch for k in seen), default=-1)
    before = cluster.leaderships.get(partition.topic_partition)
    if before is not None:
        assert after.leader_epoch > before.leader_epoch
        assert after.partition_epoch > before.partition_epoch
    assert set(after.isr) <= {*partition.last_isr, after.leader}
    assert after.leader in after.isr
    if seen:
        newest = max((k.leader_epoch, k.partition_epoch) for k in seen)
        isrs = [set(k.isr) for k in seen if (k.leader_epoch, k.partition_epoch) == newest]
        assert set(partition.last_isr) in isrs
