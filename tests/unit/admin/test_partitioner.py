"""The partitioner against vectors of Kafka's own client, and the law of sticky partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.producing.accumulator import next_sticky_partition, partition_for_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
@pytest.mark.parametrize("count", [1, 6, 50])
def test_a_key_goes_where_kafkas_client_sends_it(key: bytes, hashed: int, count: int) -> None:
    assert partition_for_key(key, count) == (hashed & 0x7FFFFFFF) % count


@pytest.mark.parametrize(
    ("current", "partitions", "queued", "expected"),
    [
        (0, [0, 1, 2], {}, 1),
        (2, [0, 1, 2], {}, 0),
        (0, [0, 1, 2], {1: 3}, 2),
        (0, [0, 2], {}, 2),
        (1, [0, 1, 2], {0: 1, 1: 1, 2: 1}, 2),
        (0, [4], {}, 4),
        (0, [0], {0: 9}, 0),
    ],
)
def test_the_next_sticky_partition_is_the_next_one_that_keeps_up(
    current: int, partitions: list[int], queued: dict[int, int], expected: int
) -> None:
    assert next_sticky_partition(current, partitions, queued) == expected


@given(st.sets(st.integers(0, 30), min_size=1), st.integers(0, 30))
def test_partitions_that_keep_up_are_used_equally(partitions: set[int], current: int) -> None:
    used = []
    for _ in range(2 * len(partitions)):
        current = next_sticky_partition(current, sorted(partitions), {})
        used.append(current)
    assert sorted(used) == sorted([*partitions, *partitions])
