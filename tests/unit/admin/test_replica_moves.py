"""Proposals for reassignments keep the replication factor and use only the brokers that were named."""

from random import Random

import pytest

from admin.moving.replica_moves import compare, propose_moves
from cluster.model.broker import BrokerEpoch, BrokerId, Endpoint, LeaderEpoch, PartitionEpoch
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.cluster import DescribedBroker
from cluster.requests.plans import DescribedPartition
from cluster.requests.reassignments import DescribedReassignment
from cluster.requests.topics import DescribedTopic
from tests.controllers.contexts import ids


def broker(number: int, rack: str | None = None) -> DescribedBroker:
    return DescribedBroker(BrokerId(number), Endpoint("h", number), BrokerEpoch(number), rack)


def topic(
    name: str, *replicas: tuple[int, ...], removing: tuple[int, ...] = (), numbers: tuple[int, ...] | None = None
) -> DescribedTopic:
    partitions = tuple(
        DescribedPartition(
            n, BrokerId(r[0]), LeaderEpoch(0), PartitionEpoch(0), ids(*r), ids(*r), removing_replicas=ids(*removing)
        )
        for n, r in zip(range(len(replicas)) if numbers is None else numbers, replicas, strict=True)
    )
    return DescribedTopic(name, ErrorCode.NONE, partitions=partitions)


def test_every_partition_goes_to_the_brokers_that_were_named() -> None:
    topics = [topic("t", (1, 2), (2, 1)), topic("u", (1, 2, 3))]
    current, proposed = propose_moves(topics, [broker(b) for b in (4, 5, 6)], Random(1))
    assert current == {
        TopicPartition("t", 0): (1, 2),
        TopicPartition("t", 1): (2, 1),
        TopicPartition("u", 0): (1, 2, 3),
    }
    assert proposed.keys() == current.keys()
    for tp, replicas in proposed.items():
        assert len(set(replicas)) == len(current[tp])
        assert set(replicas) <= {4, 5, 6}


def test_partitions_that_stay_are_left_out() -> None:
    assert propose_moves([topic("t", (1,), (1,))], [broker(1)], Random(1)) == ({}, {})


def test_replicas_that_are_on_their_way_out_do_not_count() -> None:
    current, proposed = propose_moves([topic("t", (2, 1), removing=(1,))], [broker(3)], Random(1))
    assert (current, proposed) == ({TopicPartition("t", 0): (2,)}, {TopicPartition("t", 0): (3,)})


@pytest.mark.parametrize("numbers", [(1,), (3, 7), (7, 3), (1, 1)])
def test_partitions_have_the_numbers_that_the_cluster_gave_them(numbers: tuple[int, ...]) -> None:
    current, proposed = propose_moves([topic("", *[(1,)] * len(numbers), numbers=numbers)], [broker(2)], Random(1))
    assert current == {TopicPartition("", number): (1,) for number in numbers}
    assert proposed == {TopicPartition("", number): (2,) for number in numbers}


def test_racks_are_spread_over_unless_that_is_switched_off() -> None:
    brokers = [broker(1, "a"), broker(2, "a"), broker(3, "b"), broker(4, "b")]
    old = topic("t", *[(7, 8)] * 8)
    spread = propose_moves([old], brokers, Random(1)).proposed
    assert all((replicas[0] <= 2) != (replicas[1] <= 2) for replicas in spread.values())
    mixed = propose_moves([old], [*brokers, broker(5)], Random(1), rack_aware=False).proposed
    assert {b for replicas in mixed.values() for b in replicas} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("brokers", [[broker(1)], [broker(1, "a"), broker(2)], []])
def test_brokers_that_cannot_host_the_topic_are_refused(brokers: list[DescribedBroker]) -> None:
    with pytest.raises(ApiError):
        propose_moves([topic("t", (7, 8))], brokers, Random(1))


def test_a_list_of_brokers_that_is_too_short_is_named() -> None:
    with pytest.raises(ApiError) as caught:
        propose_moves([topic("t", (7, 8, 9))], [broker(1), broker(2)], Random(1))
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    said = "--broker-list names 2 brokers, but partitions of topic t have 3 replicas: name at least 3"
    assert caught.value.message == said


def test_each_partition_of_a_file_is_held_against_where_it_is() -> None:
    wanted = {TopicPartition("t", number): ids(3, 4) for number in (4, 3, 2, 1, 0)}
    present = {
        TopicPartition("t", 0): ids(3, 4),
        TopicPartition("t", 1): ids(4, 3),
        # The target of a move: only the move itself tells that it has not arrived.
        TopicPartition("t", 2): ids(3, 4),
        TopicPartition("t", 3): ids(3, 4),
    }
    moving = [
        DescribedReassignment("t", number, BrokerId(1), ids(1), ids(1, 3, 4), ids(3, 4), ids(1), (), reason)
        for number, reason in ((2, ""), (3, "broker 4 is dead"))
    ]
    assert [(a.topic_partition.partition, a.state, a.detail) for a in compare(wanted, present, moving)] == [
        (0, "completed", ""),
        (1, "different", "is on 4,3 and not being reassigned"),
        (2, "in progress", ""),
        (3, "stuck", "broker 4 is dead"),
        (4, "unknown", "no such partition"),
    ]
