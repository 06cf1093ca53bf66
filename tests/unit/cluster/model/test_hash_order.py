"""Broker ids in the order of Scala's hash tables."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.broker import BrokerId
from cluster.model.hash_order import in_hash_order


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ([], []),
        ([3], [3]),
        ([4, 2, 1, 3], [1, 2, 3, 4]),
        ([1, 2, 3, 4, 5], [5, 1, 2, 3, 4]),
        # What the Scala shell shows for Set(1, ..., 10).
        (list(range(1, 11)), [5, 10, 1, 6, 9, 2, 7, 3, 8, 4]),
    ],
)
def test_brokers_stand_where_scala_puts_them(brokers: list[int], expected: list[int]) -> None:
    assert in_hash_order(map(BrokerId, brokers)) == expected


@given(st.sets(st.integers(0, 2**31 - 1).map(BrokerId)), st.randoms(use_true_random=False))
def test_every_broker_is_listed_once_whatever_the_order_before(brokers: set[BrokerId], shuffling: Random) -> None:
    listed = in_hash_order(brokers)
    assert len(listed) == len(brokers)
    assert set(listed) == brokers
    mixed = list(brokers)
    shuffling.shuffle(mixed)
    assert in_hash_order(mixed) == listed
