"""Bounds of what one call asks for, and of what one answer names."""

import pytest

from cluster.model import bounds
from cluster.model.broker import BrokerId
from cluster.model.errors import ApiError
from cluster.requests.cluster import Finding
from cluster.requests.topics import NewPartitions, NewPartitionsAssignment, NewTopic
from controller.decisions.bundled_findings import FINDINGS_OF_KIND, bundled
from controller.decisions.replicas_of_call import (
    check_replicas_of_call,
    replicas_of_new_partitions,
    replicas_of_new_topic,
)


@pytest.mark.rule("BD-11")
def test_many_findings_of_a_kind_are_one() -> None:
    few = [Finding("a", f"a{n}") for n in range(FINDINGS_OF_KIND)]
    many = [Finding("b", f"b{n}") for n in range(FINDINGS_OF_KIND + 1)]
    assert list(bundled([*few, *many])) == [*few, Finding("b", "11 of this kind, the first 3: b0; b1; b2")]


@pytest.mark.rule("BD-8")
def test_the_replicas_of_a_call_are_bounded_in_all() -> None:
    check_replicas_of_call("topics", [20_000, 30_000])
    with pytest.raises(ApiError) as refused:
        check_replicas_of_call("topics", [20_000, 30_001])
    assert refused.value.code is bounds.REPLICAS_OF_CALL.code
    assert (refused.value.field, refused.value.value) == ("topics", 50_001)
    assert "topics: " in str(refused.value)
    assert "use several calls" in str(refused.value)


@pytest.mark.rule("BD-8")
@pytest.mark.parametrize(("partitions", "factor", "expected"), [(5, 3, 15), (-1, 3, 6), (5, -1, 5), (-7, 3, 0)])
def test_replicas_of_a_new_topic(partitions: int, factor: int, expected: int) -> None:
    assert replicas_of_new_topic(NewTopic("t", partitions, factor), 2, 1) == expected


def test_replicas_of_an_assigned_topic() -> None:
    assigned = NewTopic("t", assignments={0: (BrokerId(1), BrokerId(2)), 1: (BrokerId(2),)})
    assert replicas_of_new_topic(assigned, 2, 1) == 3


@pytest.mark.rule("BD-8")
@pytest.mark.parametrize(("count", "given", "expected"), [(5, (), 9), (1, (), 0), (3, ((1, 2, 3, 4), (1, 2, 3)), 7)])
def test_replicas_of_new_partitions(count: int, given: tuple[tuple[int, ...], ...], expected: int) -> None:
    assignments = tuple(NewPartitionsAssignment(tuple(map(BrokerId, brokers))) for brokers in given)
    assert replicas_of_new_partitions(NewPartitions("t", count, assignments or None), 2, 3) == expected
