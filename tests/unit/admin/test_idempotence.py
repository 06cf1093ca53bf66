"""The numbers of an idempotent producer: when a batch is sent again, given up, or numbered anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.consuming.record_batches import decode_records, with_producer
from admin.producing.accumulator import AccumulatedBatch, PartitionQueue
from admin.producing.idempotence import (
    MAX_EPOCH,
    MAX_SEQUENCE,
    PartitionNumbers,
    ProducerIdentity,
    ProducerNumbers,
    Reaction,
    after,
    is_idempotent,
)
from broker_agent.log.record_batch import find_damage, parse_header
from cluster.model.broker import Offset
from cluster.model.errors import ApiError, ErrorCode
from cluster.model.partition import TopicPartition

E = ErrorCode
ID = ProducerIdentity(7, 0)
LEADER = "broker 1 in epoch 3"


def a_batch(records: int = 10) -> AccumulatedBatch:
    made = AccumulatedBatch(deadline=100.0, due=0.0, batch_size=100_000)
    for number in range(records):
        made.append(1, None, b"%d" % number)
    return made


def a_queue(*counts: int, identity: ProducerIdentity = ID) -> tuple[PartitionQueue, ProducerNumbers]:
    """Batches of these sizes, all numbered and on the wire for the first time."""
    queue, producer = PartitionQueue(TopicPartition("t", 0)), ProducerNumbers()
    producer.identity = identity
    producer.renew(queue)
    for count in counts:
        batch = a_batch(count)
        batch.close()
        batch.number, batch.is_on_wire, batch.attempts = queue.numbers.take(count), True, 1
        queue.batches.append(batch)
    return queue, producer


def refuse(queue: PartitionQueue, index: int, code: ErrorCode, *, is_retriable: bool = False) -> Reaction:
    batch = queue.batches[index]
    batch.is_on_wire = False
    return queue.numbers.react(code, batch, is_retriable=is_retriable, is_first=index == 0)


def firsts(queue: PartitionQueue) -> list[tuple[int, int]]:
    """(epoch, sequence) of each batch."""
    return [(b.number.producer.epoch, b.number.first) for b in queue.batches if b.number is not None]


@pytest.mark.parametrize(
    ("wanted", "acks", "in_flight", "idempotent"),
    [
        (None, -1, 5, True),
        (True, -1, 5, True),
        (False, -1, 5, False),
        (False, 1, 10, False),
        (None, 1, 5, False),
        (None, 0, 5, False),
        (None, -1, 6, False),
        (None, -1, 1, True),
    ],
)
def test_it_is_on_unless_turned_off_or_contradicted(
    wanted: bool | None, acks: int, in_flight: int, idempotent: bool
) -> None:
    assert is_idempotent(wanted, acks, in_flight) is idempotent


@pytest.mark.parametrize(
    ("acks", "in_flight", "field", "said"),
    [
        (1, 5, "acks", "enable.idempotence=true needs acks=all, and it is 1"),
        (0, 9, "acks", "enable.idempotence=true needs acks=all, and it is 0"),
        (-1, 6, "max.in.flight.requests.per.connection", "enable.idempotence=true needs max.in.flight"),
    ],
)
def test_where_it_is_asked_for_a_contradiction_is_an_error_that_names_both(
    acks: int, in_flight: int, field: str, said: str
) -> None:
    with pytest.raises(ApiError, match=said) as refused:
        is_idempotent(True, acks, in_flight)
    assert (refused.value.code, refused.value.field) == (E.INVALID_CONFIG, field)


def test_a_batch_with_a_number_is_whole_and_has_the_same_records() -> None:
    plain = a_batch().close()
    numbered = with_producer(plain, 2**40, 3, MAX_SEQUENCE)
    header = parse_header(numbered)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 3, MAX_SEQUENCE)
    assert find_damage(header, memoryview(numbered)) is None
    assert decode_records(numbered, Offset(0)) == decode_records(plain, Offset(0))


@given(first=st.integers(0, MAX_SEQUENCE), count=st.integers(1, 10_000))
def test_after_the_largest_sequence_comes_zero(first: int, count: int) -> None:
    assert after(first, count) == (first + count) % (MAX_SEQUENCE + 1)


def test_a_batch_that_came_before_the_one_in_front_is_sent_again_under_its_number() -> None:
    queue, producer = a_queue(10, 5)
    assert refuse(queue, 1, E.OUT_OF_ORDER_SEQUENCE_NUMBER) is Reaction.SEND_AGAIN
    producer.renew(queue)
    assert firsts(queue) == [(0, 0), (0, 10)]


def test_a_gap_behind_what_was_acknowledged_begins_a_new_epoch_once_nothing_is_on_the_wire() -> None:
    queue, producer = a_queue(10, 5, 5)
    queue.numbers.acknowledge(queue.batches[0].number, 10, LEADER)  # type: ignore[arg-type]
    queue.batches.popleft()
    assert refuse(queue, 0, E.OUT_OF_ORDER_SEQUENCE_NUMBER) is Reaction.SEND_AGAIN
    producer.renew(queue)
    assert firsts(queue) == [(0, 10), (0, 15)]
    assert refuse(queue, 1, E.OUT_OF_ORDER_SEQUENCE_NUMBER) is Reaction.SEND_AGAIN
    producer.renew(queue)
    assert firsts(queue) == [(1, 0), (1, 5)]
    assert producer.identity == ProducerIdentity(7, 1)


def test_a_refused_batch_proves_nothing_of_the_one_in_front() -> None:
    queue, producer = a_queue(10, 5)
    assert refuse(queue, 1, E.INVALID_RECORD) is Reaction.GIVE_UP
    queue.batches.pop()
    queue.batches[0].may_be_stored, queue.batches[0].is_on_wire = True, False
    producer.renew(queue)
    assert firsts(queue) == [(0, 0)]


def test_a_half_of_a_batch_that_may_be_stored_is_given_up_where_it_does_not_follow() -> None:
    queue, producer = a_queue(10)
    queue.batches[0].may_be_stored = True
    whole = queue.batches.popleft()
    queue.batches.extend(whole.split())
    assert refuse(queue, 0, E.OUT_OF_ORDER_SEQUENCE_NUMBER) is Reaction.GIVE_UP
    assert not queue.numbers.needs_new_epoch
    assert producer.renew(queue) == ()


def test_the_leader_knows_no_more_than_five_batches_behind_the_first() -> None:
    queue, _ = a_queue(1, 1, 1, 1, 1)
    queue.numbers.known_to = LEADER
    for batch in list(queue.batches)[1:]:
        queue.numbers.acknowledge(batch.number, 1, LEADER)  # type: ignore[arg-type]
        queue.batches.remove(batch)
    queue.batches.extend([a_batch(), a_batch()])
    assert queue.next_batch(LEADER, 5) is None


def test_a_known_batch_whose_offset_is_forgotten_counts_as_stored() -> None:
    queue, _ = a_queue(10)
    assert refuse(queue, 0, E.DUPLICATE_SEQUENCE_NUMBER) is Reaction.TAKE_AS_STORED


def test_where_the_leader_forgot_the_producer_what_was_never_in_doubt_is_numbered_anew() -> None:
    queue, producer = a_queue(10)
    assert refuse(queue, 0, E.UNKNOWN_PRODUCER_ID) is Reaction.SEND_AGAIN
    assert producer.renew(queue) == ()
    assert firsts(queue) == [(1, 0)]


def test_where_the_leader_forgot_the_producer_what_may_be_stored_is_given_up() -> None:
    queue, producer = a_queue(10, 5, 5)
    first, second, third = queue.batches
    first.may_be_stored = second.may_be_stored = True
    assert refuse(queue, 0, E.UNKNOWN_PRODUCER_ID) is Reaction.GIVE_UP
    queue.batches.remove(first)
    second.is_on_wire = third.is_on_wire = False
    assert list(producer.renew(queue)) == [second]
    queue.batches.remove(second)
    assert producer.renew(queue) == ()
    assert firsts(queue) == [(1, 0)]


def test_a_fenced_producer_gives_up_and_takes_another_id() -> None:
    queue, producer = a_queue(10)
    assert refuse(queue, 0, E.INVALID_PRODUCER_EPOCH) is Reaction.GIVE_UP
    producer.drop_id(ID)
    queue.numbers.give_up(queue.batches[0].number, 10)  # type: ignore[arg-type]
    queue.batches.clear()
    producer.renew(queue)
    assert producer.identity is None
    producer.identity = ProducerIdentity(1000, 0)
    producer.renew(queue)
    assert queue.numbers == PartitionNumbers(ProducerIdentity(1000, 0))


def test_a_batch_refused_for_its_content_leaves_no_gap() -> None:
    queue, producer = a_queue(10, 5)
    assert refuse(queue, 0, E.INVALID_RECORD) is Reaction.GIVE_UP
    queue.batches.popleft()
    assert refuse(queue, 0, E.OUT_OF_ORDER_SEQUENCE_NUMBER) is Reaction.SEND_AGAIN
    producer.renew(queue)
    assert firsts(queue) == [(1, 0)]


def test_after_one_that_may_be_stored_the_answer_about_the_next_tells() -> None:
    for is_stored in (True, False):
        queue, producer = a_queue(10, 5)
        first, second = queue.batches
        first.may_be_stored = True
        queue.numbers.give_up(first.number, 10)  # type: ignore[arg-type]
        queue.batches.popleft()
        producer.renew(queue)
        assert queue.numbers.unresolved == 10
        if is_stored:
            queue.numbers.acknowledge(second.number, 5, LEADER)  # type: ignore[arg-type]
            queue.batches.popleft()
        else:
            assert refuse(queue, 0, E.OUT_OF_ORDER_SEQUENCE_NUMBER) is Reaction.SEND_AGAIN
        producer.renew(queue)
        assert queue.numbers.producer == ProducerIdentity(7, 0 if is_stored else 1)
        assert firsts(queue) == ([] if is_stored else [(1, 0)])


def test_when_all_were_given_up_the_next_begin_a_new_epoch() -> None:
    queue, producer = a_queue(10)
    queue.numbers.give_up(queue.batches[0].number, 10)  # type: ignore[arg-type]
    queue.batches.clear()
    producer.renew(queue)
    assert queue.numbers == PartitionNumbers(ProducerIdentity(7, 1))


def test_a_refusal_that_may_follow_an_append_does_not_renumber_what_comes_after() -> None:
    queue, _ = a_queue(10, 5)
    queue.batches[0].may_be_stored = True
    assert refuse(queue, 0, E.UNKNOWN_SERVER_ERROR) is Reaction.GIVE_UP
    assert not queue.numbers.needs_new_epoch


def test_partitions_share_a_new_epoch_and_each_takes_it_when_its_batches_have_ended() -> None:
    queue, producer = a_queue(10)
    other = PartitionQueue(TopicPartition("t", 1))
    producer.renew(other)
    batch = a_batch()
    batch.number = other.numbers.take(10)
    other.batches.append(batch)
    assert refuse(queue, 0, E.OUT_OF_ORDER_SEQUENCE_NUMBER) is Reaction.SEND_AGAIN
    producer.renew(queue)
    producer.renew(other)
    assert (firsts(queue), firsts(other)) == ([(1, 0)], [(0, 0)])
    other.batches.clear()
    producer.renew(other)
    assert other.numbers == PartitionNumbers(ProducerIdentity(7, 1))


def test_after_the_last_epoch_comes_a_new_id() -> None:
    queue, producer = a_queue(10, identity=ProducerIdentity(7, MAX_EPOCH))
    assert refuse(queue, 0, E.OUT_OF_ORDER_SEQUENCE_NUMBER) is Reaction.SEND_AGAIN
    producer.renew(queue)
    assert producer.identity is None
    assert firsts(queue) == [(MAX_EPOCH, 0)]
    producer.identity = ProducerIdentity(1000, 0)
    producer.renew(queue)
    assert firsts(queue) == [(0, 0)]


def test_acknowledgements_in_any_order_and_past_the_largest_sequence_leave_the_latest() -> None:
    numbers = PartitionNumbers(ID, next=MAX_SEQUENCE - 4, acknowledged=MAX_SEQUENCE - 4)
    first, second = numbers.take(10), numbers.take(10)
    numbers.acknowledge(second, 10, LEADER)
    numbers.acknowledge(first, 10, LEADER)
    assert numbers.acknowledged == numbers.next == 15


def test_the_parts_of_a_split_batch_keep_the_sequences_of_its_records() -> None:
    queue, _ = a_queue(10)
    parts = queue.batches[0].split()
    assert [(p.number.first, p.count) for p in parts if p.number is not None] == [(0, 5), (5, 5)]


def test_a_second_batch_goes_before_the_first_is_answered_only_to_a_leader_that_knows_the_producer() -> None:
    queue, _ = a_queue(10)
    waiting, last = a_batch(), a_batch()
    queue.batches += [waiting, last]
    assert queue.next_batch(LEADER, 5) is None
    queue.numbers.known_to = LEADER
    assert queue.next_batch(LEADER, 5) is waiting
    assert queue.next_batch("another leader", 5) is None
    assert queue.next_batch(LEADER, 1) is None
    waiting.is_on_wire = True
    assert queue.next_batch(LEADER, 5) is None, "the last one still gets records"
    queue.batches[0].attempts = 2
    queue.batches.append(a_batch())
    assert queue.next_batch(LEADER, 5) is None, "batches that are sent again go one by one"
