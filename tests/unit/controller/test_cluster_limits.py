"""How many topics and partitions a cluster may have."""

import pytest

from cluster.model.errors import ApiError, ErrorCode
from controller.decisions.topics.cluster_limits import ClusterRoom


def room() -> ClusterRoom:
    return ClusterRoom(8, 95, max_topics=10, max_partitions=100)


def test_a_call_takes_what_there_is_room_for() -> None:
    found = room()
    found.take(2, topics=1)
    found.take(3, topics=1)
    for taken in ((0, 1), (1, 0)):
        with pytest.raises(ApiError):
            found.take(*taken)


@pytest.mark.parametrize(
    ("partitions", "topics", "why"),
    [
        (1, 3, r"the cluster has 8 topics .* 3 more would be beyond klamm.max.topics \(10\)"),
        (6, 1, r"the cluster has 95 partitions .* 6 more would be beyond klamm.max.partitions \(100\)"),
    ],
)
def test_a_refusal_names_the_setting_and_takes_nothing(partitions: int, topics: int, why: str) -> None:
    found = room()
    with pytest.raises(ApiError, match=why) as refused:
        found.take(partitions, topics=topics)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    found.take(5, topics=2)


def test_partitions_are_added_where_there_are_too_many_topics_already() -> None:
    ClusterRoom(11, 5, max_topics=10, max_partitions=100).take(1)
