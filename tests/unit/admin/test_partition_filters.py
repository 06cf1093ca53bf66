"""The filters of kafka-topics."""

import pytest

from admin.moving.partition_filters import PartitionFilter as F
from admin.moving.partition_filters import chosen
from cluster.model.broker import BrokerId, LeaderEpoch, PartitionEpoch
from cluster.model.errors import ErrorCode
from cluster.requests.plans import DescribedPartition
from cluster.requests.topics import DescribedTopic


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def partition(number: int, leader: int, *isr: int, offline: int = 0, adding: int = 0) -> DescribedPartition:
    """One with the replicas 1, 2 and 3, and the one that is added."""
    replicas = ids(1, 2, 3, *((adding,) if adding else ()))
    return DescribedPartition(
        number,
        BrokerId(leader),
        LeaderEpoch(0),
        PartitionEpoch(0),
        ids(*isr),
        replicas,
        adding_replicas=ids(adding) if adding else (),
        offline_replicas=ids(offline) if offline else (),
    )


TOPIC = DescribedTopic(
    "orders",
    ErrorCode.NONE,
    min_insync_replicas=2,
    partitions=(
        partition(0, 1, 1, 2, 3),
        partition(1, 1, 1, 2),
        partition(2, 1, 1),
        partition(3, -1, 2),
        partition(4, 2, 2, 3, offline=2),
        partition(5, 1, 1, 2, 3, adding=4),
    ),
)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ([], [0, 1, 2, 3, 4, 5]),
        ([F.UNDER_REPLICATED], [1, 2, 3, 4]),
        ([F.UNAVAILABLE], [3, 4]),
        ([F.UNDER_MIN_ISR], [2, 3]),
        ([F.AT_MIN_ISR], [1, 4]),
        ([F.UNDER_MIN_ISR, F.AT_MIN_ISR], [1, 2, 3, 4]),
    ],
)
def test_partitions_to_which_any_filter_applies_are_chosen(filters: list[F], found: list[int]) -> None:
    assert [p.partition for topic in chosen([TOPIC], filters) for p in topic.partitions] == found


def test_more_in_sync_replicas_than_there_are_replicas_are_not_wanted() -> None:
    single = DescribedPartition(0, BrokerId(1), LeaderEpoch(0), PartitionEpoch(0), ids(1), ids(1))
    topic = DescribedTopic("small", ErrorCode.NONE, min_insync_replicas=2, partitions=(single,))
    assert chosen([topic], [F.UNDER_MIN_ISR]) == []
    assert chosen([topic], [F.AT_MIN_ISR]) == [topic]


def test_topics_that_do_not_exist_are_kept_so_that_they_are_said_to() -> None:
    unknown = DescribedTopic("nosuch", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert chosen([unknown], [F.UNAVAILABLE]) == [unknown]
