"""Placement, names, assignments and ids of new topics."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cluster.model.broker import Broker
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.replica_placement import MAX_PARTITIONS, alternate_racks, place_replicas
from cluster.requests.configs import DELETE_CONFIG, SET_CONFIG, AlterableConfig
from cluster.requests.topics import NewTopic
from cluster.znodes.configs import ConfigEntity
from controller.decisions.configs.changes import check_alterations
from controller.decisions.topics.creation import TakenNames, duplicate_names, new_topic_id, plan_new_topic
from tests.controllers.contexts import broker, ids

E = ErrorCode


def brokers(*numbers: int, racks: dict[int, str] | None = None) -> list[Broker]:
    return [broker(n, (racks or {}).get(n)) for n in numbers]


@pytest.mark.rule("TP-5")
def test_placement_without_racks_goes_round_and_shifts_after_each_round() -> None:
    placed = place_replicas(brokers(0, 1, 2, 3, 4), 10, 3, start=0, shift=0)
    assert list(placed.values()) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


@pytest.mark.rule("TP-5")
@pytest.mark.parametrize(("count", "first"), [(2_000_000_000, 0), (MAX_PARTITIONS + 1, 0), (1, MAX_PARTITIONS)])
def test_more_partitions_than_a_topic_can_have_are_refused_before_they_are_placed(count: int, first: int) -> None:
    with pytest.raises(ApiError) as refused:
        place_replicas(brokers(0, 1), count, 1, start=0, shift=0, first_partition=first)
    assert refused.value.code is ErrorCode.INVALID_PARTITIONS
    assert (refused.value.field, refused.value.value) == ("num_partitions", count)


@pytest.mark.rule("TP-5")
def test_placement_on_racks_is_that_of_the_published_example() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternate_racks({k: v for k, v in zip(ids(*racks), racks.values(), strict=True)}) == (0, 3, 1, 5, 4, 2)  # noqa: C416
    placed = place_replicas(brokers(*range(6), racks=racks), 7, 3, start=0, shift=0)
    assert list(placed.values()) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


@pytest.mark.rule("TP-5")
def test_partitions_added_later_count_rounds_from_the_first_new_one() -> None:
    all_at_once = place_replicas(brokers(1, 2, 3), 7, 2, start=1, shift=1)
    assert place_replicas(brokers(1, 2, 3), 4, 2, start=1, shift=1, first_partition=3) == {
        p: all_at_once[p] for p in range(3, 7)
    }
    # Partition 4 begins in the middle of a round: the round before it does not count.
    late = place_replicas(brokers(1, 2, 3), 1, 2, start=1, shift=1, first_partition=4)
    assert late[4] == place_replicas(brokers(1, 2, 3), 2, 2, start=1, shift=1)[1]


@pytest.mark.parametrize(
    ("live", "count", "factor", "code"),
    [
        (brokers(1), 0, 1, E.INVALID_PARTITIONS),
        (brokers(1), -3, 1, E.INVALID_PARTITIONS),
        (brokers(1), 1, 0, E.INVALID_REPLICATION_FACTOR),
        (brokers(1, 2), 1, 3, E.INVALID_REPLICATION_FACTOR),
        (brokers(), 1, 1, E.INVALID_REPLICATION_FACTOR),
        (brokers(1, 2, racks={1: "a"}), 1, 1, E.INVALID_REQUEST),
    ],
)
def test_counts_that_cannot_be_met_are_refused(live: list[Broker], count: int, factor: int, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refused:
        place_replicas(live, count, factor, start=0, shift=0)
    assert refused.value.code is code


@pytest.mark.rule("TP-5")
@given(st.integers(1, 7), st.integers(1, 40), st.integers(1, 7), st.integers(0, 48), st.booleans())
def test_placement_spreads_leaders_evenly_and_replicas_over_racks(
    count: int, partitions: int, factor: int, drawn: int, with_racks: bool
) -> None:
    assume(factor <= count)
    racks = {n: f"rack{n % 3}" for n in range(count)} if with_racks else {}
    live = brokers(*range(count), racks=racks)
    placed = place_replicas(live, partitions, factor, start=drawn % 7 % count, shift=drawn // 7 % count)
    assert sorted(placed) == list(range(partitions))
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        if with_racks:
            assert len({racks[b] for b in replicas}) == min(factor, len(set(racks.values())))
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders.get(b.id, 0) for b in live) <= 1


def plan(topic: NewTopic, existing: tuple[str, ...] = (), live: list[Broker] | None = None) -> Any:
    return plan_new_topic(
        topic,
        TakenNames(existing),
        brokers(1, 2, 3) if live is None else live,
        default_partitions=4,
        default_replication_factor=2,
        random=Random(5),
    )


@pytest.mark.rule("TP-1")
def test_defaults_fill_in_for_counts_that_are_not_given() -> None:
    assert [len(a.replicas) for a in plan(NewTopic("t")).values()] == [2] * 4
    assert [len(a.replicas) for a in plan(NewTopic("t", 1, 3)).values()] == [3]
    explicit = plan(NewTopic("t", assignments={1: ids(9, 8), 0: ids(8, 9)}))
    assert {p: a.replicas for p, a in explicit.items()} == {0: (8, 9), 1: (9, 8)}


@pytest.mark.rule("TP-1")
@pytest.mark.parametrize(
    ("topic", "existing", "code"),
    [
        (NewTopic(""), (), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("."), (), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic(".."), (), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a/b"), (), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a b"), (), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a\n"), (), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("x" * 250), (), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("t"), ("t",), E.TOPIC_ALREADY_EXISTS),
        (NewTopic("a.b"), ("z", "a_b"), E.INVALID_TOPIC_EXCEPTION),
        (NewTopic("t", 0), (), E.INVALID_PARTITIONS),
        (NewTopic("t", 1, 4), (), E.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, assignments={0: ids(1)}), (), E.INVALID_REQUEST),
        (NewTopic("t", -1, 1, assignments={0: ids(1)}), (), E.INVALID_REQUEST),
        (NewTopic("t", assignments={1: ids(1)}), (), E.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: ids(1), 1: ids(1, 2)}), (), E.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: ids(1, 1)}), (), E.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: ()}), (), E.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: ids(-1)}), (), E.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", configs={"no.such": "1"}), (), E.INVALID_CONFIG),
    ],
)
def test_an_unacceptable_topic_is_refused_with_its_code(
    topic: NewTopic, existing: tuple[str, ...], code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as refused:
        plan(topic, existing)
    assert refused.value.code is code


def test_the_longest_name_is_accepted() -> None:
    assert plan(NewTopic("x" * 249))


def test_no_live_broker_is_a_matter_of_the_replication_factor() -> None:
    with pytest.raises(ApiError) as refused:
        plan(NewTopic("t"), live=[])
    assert refused.value.code is E.INVALID_REPLICATION_FACTOR


def test_names_given_twice_are_found() -> None:
    assert duplicate_names([NewTopic("a"), NewTopic("b"), NewTopic("a")]) == {"a"}


@pytest.mark.rule("ZK-22")
def test_topic_ids_are_22_characters_that_no_tool_takes_for_a_flag() -> None:
    random = Random(3)
    drawn = [new_topic_id(random) for _ in range(500)]
    assert len(set(drawn)) == 500
    assert all(len(topic_id) == 22 and not topic_id.startswith("-") for topic_id in drawn)


@pytest.mark.rule("TP-1")
def test_everything_that_is_wrong_with_a_topic_is_reported_at_once() -> None:
    topic = NewTopic("a b", 0, 9, configs={"min.insync.replicas": "0", "no.such": "1", "retention.ms": "5"})
    with pytest.raises(ApiError) as refused:
        plan_new_topic(
            topic,
            TakenNames(()),
            brokers(1, 2),
            default_partitions=1,
            default_replication_factor=1,
            random=Random(1),
        )
    error = refused.value
    # The first one counts as what the topic is refused for.
    assert (error.code, error.field, error.value) == (E.INVALID_TOPIC_EXCEPTION, "name", "a b")
    fields = [violation.field for violation in error.violations]
    assert fields == ["name", "min.insync.replicas", "no.such", "num_partitions", "replication_factor"]
    assert all(violation.description in error.message for violation in error.violations)


def test_every_alteration_that_makes_no_sense_is_named() -> None:
    topic, all_brokers = ConfigEntity("topics", "t"), ConfigEntity("brokers", "<default>")
    changes = [
        AlterableConfig("twice", SET_CONFIG, "1"),
        AlterableConfig("twice", DELETE_CONFIG),
        AlterableConfig("retention.ms", SET_CONFIG),
        AlterableConfig("segment.ms", 7, "1"),
        AlterableConfig("no.such", SET_CONFIG, "1"),
        AlterableConfig("whatever.was.set", DELETE_CONFIG, "ignored"),
        AlterableConfig("cleanup.policy", SET_CONFIG, "burn"),
    ]
    with pytest.raises(ApiError) as refused:
        check_alterations(topic, changes)
    assert refused.value.code is E.INVALID_REQUEST
    fields = ["twice", "retention.ms", "segment.ms", "cleanup.policy", "no.such"]
    assert [violation.field for violation in refused.value.violations] == fields
    with pytest.raises(ApiError) as refused:
        check_alterations(
            all_brokers, [AlterableConfig("broker.id", SET_CONFIG, "1"), AlterableConfig("x", SET_CONFIG, "1")]
        )
    assert [violation.field for violation in refused.value.violations] == ["broker.id", "x"]
