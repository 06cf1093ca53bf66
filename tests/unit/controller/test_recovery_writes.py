"""The writes of a recovery, unit by unit, and its description for operators, field by field."""

from collections.abc import Mapping, Sequence

import pytest

from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch
from cluster.model.partition import LeaderAndIsr, ReplicaAssignment, TopicAssignment, TopicPartition
from cluster.requests.plans import DescribedPartition
from cluster.requests.recovery import ClusterRecovery, RecoveredPartition
from cluster.znodes.configs import encode_config
from cluster.znodes.paths import (
    delete_topic_path,
    partition_path,
    partitions_path,
    state_path,
    topic_config_path,
    topic_path,
)
from cluster.znodes.topics import encode_state, encode_topic
from cluster.zookeeper.port import Create, Delete, SetData
from controller.decisions.recovery.descriptions import described_recovery
from controller.decisions.recovery.plan import PartitionRecovery, RecoveryPlan, RestoredCluster, TopicRecovery
from controller.decisions.recovery.writes import paths_of, units_of
from tests.controllers.contexts import assignment, ids, leadership

A, B = "A" * 21 + "Q", "B" * 21 + "Q"
ONE, TWO = assignment([1]), assignment([2])
TOPIC, PARTITIONS, MARKER, CONFIG = (
    topic_path("t"),
    partitions_path("t"),
    delete_topic_path("t"),
    topic_config_path("t"),
)


def t(partition: int) -> TopicPartition:
    return TopicPartition("t", partition)


def state(partition_epoch: int = 0) -> LeaderAndIsr:
    return leadership(2, [2], leader_epoch=6, partition_epoch=partition_epoch)


def recovered(partition: int = 0, partition_epoch: int = 0) -> PartitionRecovery:
    after = state(partition_epoch)
    return PartitionRecovery(t(partition), None, after, ONE, TWO, ids(2), (), Offset(9))


def topic(
    before: TopicAssignment | None,
    after: Mapping[int, ReplicaAssignment],
    partitions: Sequence[PartitionRecovery] = (),
    *,
    withdraws_deletion: bool = False,
) -> TopicRecovery:
    return TopicRecovery("t", before, TopicAssignment(dict(after), A), tuple(partitions), withdraws_deletion)


def content(assignments: Mapping[int, ReplicaAssignment]) -> bytes:
    return encode_topic(TopicAssignment(dict(assignments), A))


def test_the_versions_of_the_topic_and_of_its_partitions_are_needed() -> None:
    assert paths_of(topic(None, {0: TWO, 3: TWO}, [recovered(0), recovered(3)])) == [
        TOPIC,
        CONFIG,
        PARTITIONS,
        MARKER,
        partition_path(t(0)),
        state_path(t(0)),
        partition_path(t(3)),
        state_path(t(3)),
    ]


@pytest.mark.rule("RC-6")
def test_a_topic_is_created_with_its_config_its_parents_and_its_states() -> None:
    creation = topic(None, {0: TWO, 1: TWO}, [recovered(0), recovered(1)])
    states = encode_state(state())
    assert units_of(creation, {}) == [
        (
            Create(CONFIG, encode_config({})),
            Create(TOPIC, content({0: TWO, 1: TWO})),
            Create(PARTITIONS),
            Create(partition_path(t(0))),
            Create(state_path(t(0)), states),
            Create(partition_path(t(1))),
            Create(state_path(t(1)), states),
        )
    ]


@pytest.mark.rule("RC-6")
def test_what_an_interrupted_run_or_the_backup_left_is_not_created_again() -> None:
    creation = topic(None, {0: TWO}, [recovered()])
    versions = {CONFIG: 2, PARTITIONS: 0, partition_path(t(0)): 0}
    assert units_of(creation, versions) == [
        (Create(TOPIC, content({0: TWO})), Create(state_path(t(0)), encode_state(state())))
    ]


@pytest.mark.rule("RC-6")
@pytest.mark.parametrize(
    ("withdraws_deletion", "versions", "deletes"),
    [(True, {MARKER: 0}, True), (True, {}, False), (False, {MARKER: 0}, False)],
)
def test_the_marker_of_an_earlier_topics_deletion_goes_with_the_first_unit(
    withdraws_deletion: bool, versions: dict[str, int], deletes: bool
) -> None:
    present = TopicAssignment({0: TWO}, A)
    changed = topic(
        present, dict.fromkeys(range(51), TWO), [recovered(n) for n in range(51)], withdraws_deletion=withdraws_deletion
    )
    units = units_of(changed, {TOPIC: 4, PARTITIONS: 0, **versions})
    assert [Delete(MARKER) in unit for unit in units] == [deletes, False]
    if deletes:
        assert units[0][:2] == (units[0][0], Delete(MARKER))


@pytest.mark.rule("RC-6")
def test_a_deletion_is_withdrawn_although_the_topic_znode_stays_as_it_is() -> None:
    present = TopicAssignment({0: TWO}, A)
    withdrawn = topic(present, {0: TWO}, withdraws_deletion=True)
    assert units_of(withdrawn, {TOPIC: 4, PARTITIONS: 0, MARKER: 0}) == [
        (SetData(TOPIC, content({0: TWO}), 4), Delete(MARKER))
    ]


@pytest.mark.rule("RC-6")
def test_a_topic_that_gains_only_its_id_is_written_once() -> None:
    without_id = TopicAssignment({0: TWO}, None)
    assert units_of(topic(without_id, {0: TWO}), {TOPIC: 4, PARTITIONS: 0}) == [(SetData(TOPIC, content({0: TWO}), 4),)]


@pytest.mark.rule("RC-5")
def test_of_a_topic_that_stays_only_the_states_are_written_each_for_itself() -> None:
    stays = topic(TopicAssignment({0: TWO, 1: TWO}, A), {0: TWO, 1: TWO}, [recovered(0, 4), recovered(1, 1)])
    first, second = encode_state(state(4)), encode_state(state(1))
    versions = {TOPIC: 4, PARTITIONS: 0, state_path(t(0)): 1}
    assert units_of(stays, versions) == [
        (SetData(state_path(t(0)), first, 1),),
        (Create(partition_path(t(1))), Create(state_path(t(1)), second)),
        (SetData(state_path(t(0)), first, 2), SetData(state_path(t(0)), first, 3)),
        (SetData(state_path(t(1)), second, 0),),
    ]


@pytest.mark.rule("RC-5")
@pytest.mark.parametrize(
    ("existing", "partition_epoch", "further"),
    [
        ({}, 0, []),
        ({}, 200, [range(200)]),
        ({}, 201, [range(200), range(200, 201)]),
        ({state_path(t(0)): 7}, 8, []),
        ({state_path(t(0)): 7}, 410, [range(8, 208), range(208, 408), range(408, 410)]),
    ],
)
def test_the_state_is_written_until_its_version_is_the_partition_epoch(
    existing: dict[str, int], partition_epoch: int, further: list[range]
) -> None:
    stays = topic(TopicAssignment({0: TWO}, A), {0: TWO}, [recovered(0, partition_epoch)])
    _, *units = units_of(stays, existing)
    written = encode_state(state(partition_epoch))
    assert units == [tuple(SetData(state_path(t(0)), written, version) for version in chunk) for chunk in further]


def grown(before: TopicAssignment | None, after: Mapping[int, ReplicaAssignment], versions: dict[str, int]) -> None:
    """The topic znode of each unit has the new assignment of what was written, and the earlier one of what waits."""
    planned = topic(before, after, [recovered(number) for number in after])
    is_same = before is not None and before.topic_id != B
    earlier = before.partitions if before is not None and is_same else {}
    units = units_of(planned, versions)
    for number, unit in enumerate(units):
        written = range(50 * (number + 1))
        expected = {n: after[n] if n in written else earlier[n] for n in after if n in written or n in earlier}
        (op,) = (op for op in unit if op.path == TOPIC)
        assert isinstance(op, Create | SetData)
        assert op.data == content(expected)
        assert {op.path for op in unit} >= {state_path(t(n)) for n in written[-50:] if n in after}
    assert len(units) == 3


@pytest.mark.rule("RC-6", "RC-8")
@pytest.mark.parametrize("topic_id", [None, A, B])
def test_the_topic_znode_grows_with_the_states_that_are_written(topic_id: str | None) -> None:
    after = dict.fromkeys(range(120), TWO)
    grown(TopicAssignment(dict.fromkeys((0, 60, 119), ONE), topic_id), after, {TOPIC: 4, PARTITIONS: 0})
    grown(None, after, {})


@pytest.mark.rule("RC-6")
@pytest.mark.parametrize(("versions", "expected"), [({TOPIC: 4}, [4, 5, 6]), ({}, [None, 0, 1])])
def test_each_unit_continues_from_the_version_that_the_one_before_it_wrote(
    versions: dict[str, int], expected: list[int | None]
) -> None:
    before = TopicAssignment({0: ONE}, A) if versions else None
    units = units_of(topic(before, dict.fromkeys(range(101), TWO), [recovered(n) for n in range(101)]), versions)
    ops = [op for unit in units for op in unit if op.path == TOPIC]
    assert [op.version if isinstance(op, SetData) else None for op in ops] == expected
    assert [sum(op.path == PARTITIONS for op in unit) for unit in units] == [1, 0, 0]


# The description


@pytest.mark.rule("RC-1")
def test_a_recovery_is_described_before_and_after_field_by_field() -> None:
    before = leadership(1, [1, 3], leader_epoch=4, partition_epoch=8)
    after = leadership(2, [2, 3], leader_epoch=6, partition_epoch=11)
    old, new = assignment([1, 3]), assignment([2, 3, 1], adding=[2], removing=[1])
    partition = PartitionRecovery(t(7), before, after, old, new, ids(2, 3, 4), ids(4), Offset(90))
    plan = RecoveryPlan(
        (topic(None, {}, [partition, recovered(8)]), TopicRecovery("u", None, TopicAssignment({}, B), ())),
        ("only", "brokers"),
        ("only", "zookeeper"),
        ("a refusal",),
        ControllerEpoch(12),
        3999,
    )
    restored = RestoredCluster({}, {}, ControllerEpoch(9), silent=ids(5, 6))
    none, lowest = BrokerId(-1), (LeaderEpoch(-1), PartitionEpoch(-1))
    assert described_recovery(restored, plan) == ClusterRecovery(
        partitions=(
            RecoveredPartition(
                topic="t",
                before=DescribedPartition(7, BrokerId(1), LeaderEpoch(4), PartitionEpoch(8), ids(1, 3), ids(1, 3)),
                after=DescribedPartition(
                    7, BrokerId(2), LeaderEpoch(6), PartitionEpoch(11), ids(2, 3), ids(2, 3, 1), ids(2), ids(1)
                ),
                last_isr=ids(2, 3, 4),
                absent=ids(4),
                log_end_offset=Offset(90),
            ),
            RecoveredPartition(
                topic="t",
                before=DescribedPartition(8, none, *lowest, (), ids(1)),
                after=DescribedPartition(8, BrokerId(2), LeaderEpoch(6), PartitionEpoch(0), ids(2), ids(2)),
                last_isr=ids(2),
                absent=(),
                log_end_offset=Offset(9),
            ),
        ),
        only_on_brokers=("only", "brokers"),
        only_in_zookeeper=("only", "zookeeper"),
        silent_brokers=ids(5, 6),
        refusals=("a refusal",),
        controller_epoch=ControllerEpoch(12),
        last_producer_id=3999,
    )
