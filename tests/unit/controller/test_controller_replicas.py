"""Topics that Apache Kafka's brokers created with replicas on a controller."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import ReplicaAssignment, TopicAssignment
from cluster.requests.topics import NewTopic
from controller.changes import ControllersListed
from controller.decisions.reassignment.phases import RefusedMove, plan_znode_submission
from controller.decisions.topics.controller_replicas import names_controller, without_controllers
from controller.decisions.topics.creation import TakenNames, plan_new_topic
from tests.controllers.contexts import assignment, broker, context, ids, tp

KLAMM = frozenset(ids(901, 902))


def topic(*replicas: tuple[int, ...]) -> TopicAssignment:
    return TopicAssignment({p: ReplicaAssignment(ids(*r)) for p, r in enumerate(replicas)}, "id")


def lists(found: TopicAssignment) -> list[tuple[int, ...]]:
    return [tuple(found.partitions[p].replicas) for p in sorted(found.partitions)]


@pytest.mark.rule("TO-10")
@pytest.mark.parametrize(
    ("before", "live", "after"),
    [
        ([(3, 2, 901)], (1, 2, 3), [(3, 2, 1)]),
        ([(901, 2, 3)], (1, 2, 3), [(1, 2, 3)]),
        ([(3, 2, 901)], (2, 3), [(3, 2)]),
        ([(901,)], (1,), [(1,)]),
        ([(901,), (902,), (1,)], (1, 2, 3), [(2,), (3,), (1,)]),
        ([(901, 902, 3)], (1, 2, 3), [(1, 2, 3)]),
        ([(901,)], (), [(901,)]),
        ([(1, 2)], (1, 2), [(1, 2)]),
    ],
)
def test_a_controller_is_replaced_where_it_stood_or_removed(
    before: list[tuple[int, ...]], live: tuple[int, ...], after: list[tuple[int, ...]]
) -> None:
    found = without_controllers(topic(*before), KLAMM, [broker(b) for b in live])
    assert lists(found) == after
    assert found.topic_id == "id"


@pytest.mark.rule("TO-10")
def test_a_broker_of_a_rack_without_a_replica_is_preferred() -> None:
    live = [broker(1, "a"), broker(2, "a"), broker(3, "b"), broker(4, "c")]
    assert lists(without_controllers(topic((1, 3, 901)), KLAMM, live)) == [(1, 3, 4)]


@pytest.mark.rule("TO-10")
def test_partitions_with_a_leader_or_under_reassignment_stay_as_they_are() -> None:
    live = [broker(b) for b in (1, 2, 3)]
    before = topic((3, 2, 901), (2, 1, 901))
    assert lists(without_controllers(before, KLAMM, live, led=[0])) == [(3, 2, 901), (2, 1, 3)]
    moving = TopicAssignment({0: assignment((1, 901), adding=(901,))})
    assert without_controllers(moving, KLAMM, live) == moving


@pytest.mark.rule("TO-10")
@given(
    st.lists(st.lists(st.sampled_from((1, 2, 3, 4, 901, 902)), min_size=1, unique=True), min_size=1, max_size=6),
    st.sets(st.sampled_from((1, 2, 3, 4)), min_size=1),
)
def test_whatever_was_placed_no_controller_and_no_broker_twice_remains(
    replicas: list[list[int]], live: set[int]
) -> None:
    before = topic(*map(tuple, replicas))
    after = without_controllers(before, KLAMM, [broker(b) for b in sorted(live)])
    assert not names_controller(after, KLAMM)
    for old, new in zip(lists(before), lists(after), strict=True):
        assert len(set(new)) == len(new) <= len(old)
        assert [b for b in new if b in old] == [b for b in old if b not in KLAMM]
        assert len(new) == len(old) or live <= set(new)
    assert without_controllers(after, KLAMM, [broker(b) for b in live]) == after


@pytest.mark.rule("TO-11")
def test_a_new_topic_on_a_controller_is_refused_and_names_it() -> None:
    wanted = NewTopic("t", assignments={0: ids(1, 2), 1: ids(2, 901)})
    with pytest.raises(ApiError) as refused:
        plan_new_topic(
            wanted,
            TakenNames(()),
            [broker(1), broker(2)],
            default_partitions=1,
            default_replication_factor=1,
            random=Random(1),
            controllers=KLAMM,
        )
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused.value.message == "partition 1 has a replica on a controller, which hosts none: 2:901"


@pytest.mark.rule("TO-11")
def test_a_reassignment_to_a_controller_through_zookeeper_is_refused() -> None:
    known = context([1, 2], {"t-0": (1, 2)})
    known.apply(ControllersListed(frozenset(ids(901))))
    refused = plan_znode_submission(known, tp("t-0"), ids(1, 901))
    assert refused == RefusedMove(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Controllers host no replicas: 901.")
    # A dead or unknown broker is not (D-4).
    assert isinstance(plan_znode_submission(known, tp("t-0"), ids(1, 7)), ReplicaAssignment)
