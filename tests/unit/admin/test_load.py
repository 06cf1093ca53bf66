"""What `klamm top` makes of two looks at a cluster."""

import pytest
from msgspec import to_builtins

from admin.cli.top import parse_queue, screen_lines
from admin.describing.load import Load, Sample, compare
from cluster.model.broker import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    Endpoint,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
)
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import DescribeClusterResponse, DescribedBroker
from cluster.requests.plans import DescribedPartition
from cluster.requests.topics import DescribedTopic


def sample(at_s: float, *partitions: tuple[int, int, int, int | None], epoch: int = 1) -> Sample:
    """Of one topic: by partition leader, leader epoch, partition epoch, and end offset if known; broker 1 is live."""
    replicas = (BrokerId(1), BrokerId(2))
    described = [
        DescribedPartition(n, BrokerId(leader), LeaderEpoch(le), PartitionEpoch(pe), replicas[:1], replicas)
        for n, (leader, le, pe, _) in enumerate(partitions)
    ]
    return Sample(
        at_s,
        DescribeClusterResponse(
            "c",
            ControllerId(1001),
            "a:1",
            ControllerEpoch(epoch),
            (DescribedBroker(BrokerId(1), Endpoint("h", 1), BrokerEpoch(1)),),
        ),
        [DescribedTopic("t", ErrorCode.NONE, partitions=tuple(described), min_insync_replicas=2)],
        {TopicPartition("t", n): Offset(end) for n, (*_, end) in enumerate(partitions) if end is not None},
    )


def test_epochs_count_elections_isr_changes_and_failovers() -> None:
    load = compare(sample(0, (1, 0, 0, 0), (1, 4, 9, 0)), sample(2, (1, 0, 2, 0), (2, 6, 12, 0), epoch=3), 5)
    assert (load.seconds, load.elections, load.isr_changes, load.failovers) == (2, 2, 3, 2)


def test_the_busiest_partitions_come_first_and_idle_ones_not_at_all() -> None:
    before = sample(0, (1, 0, 0, 10), (1, 0, 0, 0), (1, 0, 0, 5), (2, 0, 0, None))
    after = sample(2, (1, 0, 0, 20), (1, 0, 0, 200), (1, 0, 0, 5), (2, 0, 0, 7))
    load = compare(before, after, 5)
    assert [(b.partition, b.records_per_s, b.end_offset) for b in load.busiest] == [(1, 100, 200), (0, 5, 20)]
    assert load.records_per_s == 105
    assert [(b.id, b.state, b.leaders, b.replicas, b.records_per_s) for b in load.brokers] == [
        (1, "running", 3, 4, 105),
        (2, "dead", 1, 4, 0),
    ]
    assert [b.partition for b in compare(before, after, 1).busiest] == [1]


def test_brokers_that_did_not_tell_their_records_are_named() -> None:
    load = compare(
        sample(0, (1, 0, 0, 0), (2, 0, 0, None)), sample(1, (1, 0, 0, 0), (2, 0, 0, None), (-1, 0, 0, None)), 5
    )
    assert load.uncounted == [2]
    shown = screen_lines({**to_builtins(load), "event_queue": None}, 80)
    assert shown[-1] == "records of broker 2 are not counted: it was not asked, or did not answer"
    assert "no partition has new records" not in shown


def test_a_topic_that_was_made_anew_counts_nothing() -> None:
    load = compare(sample(0, (1, 7, 9, 100)), sample(1, (1, 0, 0, 3)), 5)
    assert (load.elections, load.isr_changes, load.records_per_s) == (0, 0, 0)


def test_partitions_are_counted_by_what_is_wrong_with_them() -> None:
    counts = compare(sample(0, (1, 0, 0, 0)), sample(1, (-1, 1, 1, None), (1, 0, 0, 0)), 5).counts
    assert counts == {
        "topics": 1,
        "partitions": 2,
        "under_replicated": 2,
        "unavailable": 1,
        "under_min_isr": 2,
        "at_min_isr": 0,
    }


METRICS = """\
# TYPE kafka_controller_kafkacontroller_activecontrollercount gauge
kafka_controller_kafkacontroller_activecontrollercount 1.0
kafka_controller_controllereventmanager_eventqueuesize 3.0
kafka_controller_controllereventmanager_eventqueuetimems{quantile="0.5"} 1.0
kafka_controller_controllereventmanager_eventqueuetimems{quantile="0.99"} 12.0
kafka_controller_controllereventmanager_eventqueuetimems_count 2.0
"""


def test_the_event_queue_is_that_of_the_active_controller() -> None:
    assert parse_queue(METRICS) == {"size": 3, "median": 1, "p99": 12}
    assert parse_queue(METRICS.replace("count 1.0", "count 0.0", 1)) is None
    assert parse_queue("") is None


@pytest.mark.parametrize("queue", [None, {"size": 3.0, "median": 1.0, "p99": 12.0}])
def test_a_screen_fits_80_columns(queue: dict[str, float] | None) -> None:
    load: Load = compare(sample(0, (1, 0, 0, 0)), sample(1, (1, 0, 0, 1_000_000)), 5)
    shown = screen_lines({**to_builtins(load), "event_queue": queue}, 80)
    assert max(map(len, shown)) <= 80
    assert shown[1] == ("event queue: not known" if queue is None else "event queue: 3 events, median 1 ms, p99 12 ms")
    assert shown[-1].split() == ["t", "0", "1", "1,000,000", "1000000"]
