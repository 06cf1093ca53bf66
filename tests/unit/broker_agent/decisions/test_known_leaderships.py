"""The newest leadership that an agent knows of each partition, from its memory and its own records."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker_agent.decisions.known_leaderships import (
    KnownReplica,
    epochs_of,
    highest_epoch,
    newest,
    recorded_controller_epoch,
    recorded_leaderships,
)
from cluster.model.broker import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId
from cluster.requests.recovery import KnownLeadership
from state_log.record import Cause, Kind, LoggedStateChange

A, B = TopicId("A" * 22), TopicId("B" * 22)


def known(
    epoch: int,
    partition_epoch: int,
    *,
    topic: str = "t",
    topic_id: TopicId | None = A,
    partition: int = 0,
    leader: int = 1,
) -> KnownLeadership:
    isr = (BrokerId(leader),)
    epochs = LeaderEpoch(epoch), PartitionEpoch(partition_epoch)
    return KnownLeadership(topic, topic_id, partition, BrokerId(leader), *epochs, isr, isr)


ROLE = LoggedStateChange(
    v=2,
    seq=0,
    node="broker-1",
    incarnation="i",
    at_ms=0,
    kind=Kind.ROLE,
    topic="t",
    topic_id=A,
    partition=3,
    to_state="leader",
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(0),
    partition_epoch=PartitionEpoch(0),
    isr=(BrokerId(1), BrokerId(2)),
    replicas=(BrokerId(2), BrokerId(1)),
)
"""A record with the lowest epochs there are."""


@pytest.mark.rule("RC-4")
@pytest.mark.parametrize(
    ("what", "leaderships", "expected"),
    [
        ("the leader epoch counts first", [known(4, 90), known(5, 1), known(4, 91)], 1),
        ("then the partition epoch", [known(5, 1), known(5, 2), known(4, 9)], 1),
        ("of equal ones the first", [known(5, 2, leader=1), known(5, 2, leader=2)], 0),
        ("what is older comes later", [known(5, 2), known(5, 1)], 0),
    ],
)
def test_the_newest_leadership_of_a_partition_is_kept(
    what: str, leaderships: Sequence[KnownLeadership], expected: int
) -> None:
    assert newest(leaderships) == {KnownReplica("t", A, 0): leaderships[expected]}, what


@pytest.mark.rule("RC-4")
def test_partitions_and_topics_of_one_name_are_kept_apart() -> None:
    """The epochs of a later topic start again at 0."""
    each = [
        known(9, 9),
        known(0, 0, topic_id=B),
        known(1, 1, topic_id=None),
        known(2, 2, partition=1),
        known(3, 3, topic="u"),
    ]
    assert newest(each) == {
        KnownReplica("t", A, 0): each[0],
        KnownReplica("t", B, 0): each[1],
        KnownReplica("t", None, 0): each[2],
        KnownReplica("t", A, 1): each[3],
        KnownReplica("u", A, 0): each[4],
    }


EPOCHS = st.integers(-1, 4)


@pytest.mark.rule("RC-4")
@given(st.lists(st.builds(known, EPOCHS, EPOCHS, topic_id=st.sampled_from([A, B, None]), partition=st.integers(0, 1))))
def test_nothing_known_is_newer_than_what_is_kept(leaderships: list[KnownLeadership]) -> None:
    kept = newest(leaderships)
    assert set(kept) == {KnownReplica(k.topic, k.topic_id, k.partition) for k in leaderships}
    for replica, chosen in kept.items():
        of_replica = [k for k in leaderships if KnownReplica(k.topic, k.topic_id, k.partition) == replica]
        assert chosen in of_replica
        assert epochs_of(chosen) == max(map(epochs_of, of_replica))


@pytest.mark.rule("RC-4")
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_recorded_role_is_a_leadership_field_by_field(role: str) -> None:
    (found,) = recorded_leaderships([replace(ROLE, to_state=role)])
    assert found == KnownLeadership(
        topic="t",
        topic_id=A,
        partition=3,
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        isr=(BrokerId(1), BrokerId(2)),
        replicas=(BrokerId(2), BrokerId(1)),
    )


@pytest.mark.rule("RC-4")
def test_a_record_without_its_lists_or_its_topic_id_still_counts() -> None:
    (found,) = recorded_leaderships([replace(ROLE, topic_id=None, isr=None, replicas=None)])
    assert (found.topic_id, found.isr, found.replicas) == (None, (), ())


@pytest.mark.rule("RC-4")
@pytest.mark.parametrize(
    "record",
    [
        *(replace(ROLE, to_state=state) for state in ("stopped", "deleted", "offline", None)),
        *(
            replace(ROLE, **{field: None})
            for field in ("topic", "partition", "leader", "leader_epoch", "partition_epoch")
        ),
    ],
)
def test_other_records_name_no_leadership(record: LoggedStateChange) -> None:
    """And do not end the search: the next record is found."""
    assert [k.topic for k in recorded_leaderships([record, ROLE])] == ["t"]


def caused(epoch: int | None) -> Cause:
    return Cause("LeaderAndIsr", controller_epoch=None if epoch is None else ControllerEpoch(epoch))


@pytest.mark.rule("RC-2", "R1.19")
@pytest.mark.parametrize(
    ("records", "highest"),
    [
        ([], 0),
        ([ROLE, replace(ROLE, cause=caused(None))], 0),
        ([replace(ROLE, controller_epoch=ControllerEpoch(3)), ROLE], 3),
        ([replace(ROLE, cause=caused(4)), ROLE, replace(ROLE, cause=caused(2))], 4),
        ([replace(ROLE, controller_epoch=ControllerEpoch(5), cause=caused(4))], 5),
        ([replace(ROLE, controller_epoch=ControllerEpoch(5), cause=caused(6))], 6),
        ([replace(ROLE, cause=caused(7)), replace(ROLE, controller_epoch=ControllerEpoch(6), cause=caused(1))], 7),
    ],
)
def test_the_highest_controller_epoch_is_that_of_a_record_or_of_its_cause(
    records: Sequence[LoggedStateChange], highest: int
) -> None:
    assert recorded_controller_epoch(records) == highest


@pytest.mark.rule("RC-5")
@pytest.mark.parametrize(
    ("epochs", "highest"), [([], -1), ([None, None], -1), ([None, 0, -1], 0), ([3, 7, None, 5], 7), ([-1], -1)]
)
def test_the_highest_leader_epoch_leaves_out_what_is_not_known(epochs: Sequence[int | None], highest: int) -> None:
    assert highest_epoch(*(None if epoch is None else LeaderEpoch(epoch) for epoch in epochs)) == highest
