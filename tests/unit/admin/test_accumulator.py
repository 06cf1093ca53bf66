"""Which records go together, and when a batch is due."""

from collections.abc import Callable
from random import Random

import pytest

from admin.consuming.record_batches import decode_records
from admin.producing.accumulator import Accumulator, ProducerOptions
from cluster.model.broker import Offset
from cluster.model.compression import CompressionCodec, find_codec
from cluster.model.partition import TopicPartition

PARTITIONS = [0, 1, 2]
SMALL = ProducerOptions(batch_size=200, linger_ms=5)


def accumulator(
    options: ProducerOptions = SMALL, has_leader: Callable[[TopicPartition], bool] = lambda _: True, seed: int = 0
) -> Accumulator:
    return Accumulator(options, has_leader, Random(seed))


def put(queues: Accumulator, value: bytes, *, key: bytes | None = None, partition: int | None = None) -> bool:
    return queues.append("t", PARTITIONS, partition, (key, value, ()), timestamp=1, now=100.0)


def remove_first(queues: Accumulator) -> None:
    queue = queues.waiting()[0]
    queues.remove(queue, queue.batches[0])


def test_records_without_key_stay_together_until_their_batch_is_full_and_then_move_on() -> None:
    queues = accumulator()
    for number in range(12):
        put(queues, b"%040d" % number)
    used = {q.topic_partition.partition: [b.count for b in q.batches] for q in queues.waiting()}
    assert set(used) == {0, 1, 2}
    assert all(count > 1 for counts in used.values() for count in counts[:-1])


def test_many_short_runs_use_all_partitions() -> None:
    used = set()
    for seed in range(30):
        queues = accumulator(seed=seed)
        put(queues, b"x")
        used |= {q.topic_partition.partition for q in queues.waiting()}
    assert used == set(PARTITIONS)


def test_records_with_one_key_share_a_partition() -> None:
    queues = accumulator()
    for number in range(50):
        put(queues, b"%d" % number, key=b"k")
    assert len(queues.waiting()) == 1


def test_a_chosen_partition_is_kept_to() -> None:
    queues = accumulator()
    for number in range(50):
        put(queues, b"%040d" % number, partition=2)
    assert [q.topic_partition.partition for q in queues.waiting()] == [2]


def test_records_without_key_avoid_partitions_without_leader() -> None:
    queues = accumulator(has_leader=lambda tp: tp.partition == 1)
    for number in range(20):
        put(queues, b"%040d" % number)
    assert [q.topic_partition.partition for q in queues.waiting()] == [1]


def test_records_go_somewhere_even_when_no_partition_has_a_leader() -> None:
    queues = accumulator(has_leader=lambda _: False)
    put(queues, b"x")
    assert len(queues.waiting()) == 1


@pytest.mark.parametrize(("records", "flushing", "due"), [(1, False, 100.005), (1, True, 0.0), (40, False, 0.0)])
def test_a_batch_waits_for_more_records_unless_it_is_full_or_pressed(records: int, flushing: bool, due: float) -> None:
    queues = accumulator()
    for number in range(records):
        put(queues, b"%040d" % number, partition=0)
    assert queues.waiting()[0].due_at(flushing) == pytest.approx(due)


def test_memory_counts_what_is_neither_acknowledged_nor_given_up() -> None:
    queues = accumulator()
    put(queues, b"x" * 100, partition=0)
    put(queues, b"y" * 50, partition=1)
    before = queues.memory
    remove_first(queues)
    assert 0 < queues.memory < before
    remove_first(queues)
    assert queues.memory == 0
    assert queues.is_empty


def test_a_batch_that_is_too_large_is_split_in_order_and_without_loss() -> None:
    queues = accumulator(ProducerOptions(batch_size=10_000))
    values = [b"%050d" % n for n in range(40)]
    for value in values:
        put(queues, value, partition=0)
    queue = queues.waiting()[0]
    before = queues.memory
    queues.split(queue, queue.batches[0])
    assert len(queue.batches) > 1
    assert [v for b in queue.batches for v in b.values] == values
    assert sum(b.memory for b in queue.batches) == before
    assert not queue.batches[0].append(1, None, b"late")


def test_a_compressed_batch_with_headers_is_split_into_such_batches() -> None:
    queues = accumulator(ProducerOptions(batch_size=10_000, compression_type=CompressionCodec.GZIP))
    headers = tuple((f"name-{n}", b"") for n in range(100))
    for n in range(4):
        queues.append("t", PARTITIONS, 0, (None, b"%d" % n, headers), timestamp=1, now=100.0)
    (queue,) = queues.waiting()
    before = queues.memory
    for _ in range(2):
        queues.split(queue, queue.batches[0])
    assert [b.values for b in queue.batches] == [[b"0"], [b"1"], [b"2", b"3"]]
    parts = [decode_records(b.close(), Offset(0)).records for b in queue.batches]
    assert [r.headers for records in parts for r in records] == [headers] * 4
    assert all(find_codec(int.from_bytes(b.close()[21:23], "big")) is CompressionCodec.GZIP for b in queue.batches)
    assert sum(b.memory for b in queue.batches) == before
