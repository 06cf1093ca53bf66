"""What counts as a difference between replicas, and which of them is right."""

from hypothesis import given
from hypothesis import strategies as st

from admin.consuming.record_batches import Record
from admin.describing.replica_comparison import LastValues, compare_chunks, compare_last_values
from cluster.model.broker import BrokerId, Offset
from simulator.record_batches import encode_batch, encode_records


def batch(base: int, count: int = 2, *, epoch: int = 0, value: bytes = b"v") -> bytes:
    return encode_batch(encode_records(value, count), count, base_offset=base, leader_epoch=epoch)


def damaged(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def log(*batches: bytes) -> bytes:
    return b"".join(batches)


def chunks(**data: bytes) -> dict[BrokerId, bytes]:
    """b1=…: of broker 1."""
    return {BrokerId(int(name[1:])): content for name, content in data.items()}


EQUAL = log(batch(0), batch(2), batch(4))


def test_equal_bytes_are_equal_up_to_the_end_that_is_asked_for() -> None:
    for end in (2, 4, 6):
        compared = compare_chunks(chunks(b1=EQUAL, b2=EQUAL, b3=EQUAL), Offset(0), Offset(end))
        assert (compared.equal_until, compared.difference) == (end, None)


def test_as_far_as_the_shortest_answer_goes_and_a_batch_cut_off_by_the_limit_is_left_for_the_next() -> None:
    compared = compare_chunks(chunks(b1=EQUAL, b2=EQUAL[: len(batch(0)) + 20]), Offset(0), Offset(6))
    assert (compared.equal_until, compared.difference) == (2, None)


def test_a_range_may_begin_within_a_batch() -> None:
    compared = compare_chunks(chunks(b1=EQUAL, b2=EQUAL), Offset(1), Offset(6))
    assert (compared.equal_until, compared.difference) == (6, None)


def test_what_is_above_the_end_is_not_compared() -> None:
    other = log(batch(0), batch(2), batch(4, value=b"w"))
    assert compare_chunks(chunks(b1=EQUAL, b2=other), Offset(0), Offset(4)).difference is None


def test_the_later_leader_epoch_is_right() -> None:
    newer = log(batch(0), batch(2, epoch=3), batch(4, epoch=3))
    compared = compare_chunks(chunks(b1=EQUAL, b2=newer, b3=newer), Offset(0), Offset(6))
    assert compared.equal_until == 2
    found = compared.difference
    assert found is not None
    assert (found.offset, found.right, found.wrong) == (2, (2, 3), (1,))
    assert found.why == "leader epoch 3 is the latest"
    assert [(b.broker, b.base_offset, b.leader_epoch, b.is_intact) for b in found.batches] == [
        (1, 2, 0, True),
        (2, 2, 3, True),
        (3, 2, 3, True),
    ]


def test_a_wrong_checksum_is_wrong_whatever_its_epoch() -> None:
    rotten = log(batch(0), damaged(batch(2, epoch=9)), batch(4))
    found = compare_chunks(chunks(b1=rotten, b2=EQUAL), Offset(0), Offset(6)).difference
    assert found is not None
    assert (found.right, found.wrong) == ((2,), (1,))
    assert found.why == "the others have no intact batch there"


def test_two_intact_batches_of_one_epoch_leave_it_open() -> None:
    other = log(batch(0), batch(2, value=b"w"))
    found = compare_chunks(chunks(b1=EQUAL, b2=other), Offset(0), Offset(4)).difference
    assert found is not None
    assert (found.right, found.wrong) == ((), ())
    assert "none of them can be told to be right" in found.why


def test_a_batch_that_is_missing_is_a_difference() -> None:
    for lacking in (b"", log(batch(4))):
        found = compare_chunks(chunks(b1=lacking, b2=EQUAL), Offset(0), Offset(6)).difference
        assert found is not None
        assert found.offset == 0
        assert 2 in found.right
    assert compare_chunks(chunks(b1=b"", b2=EQUAL), Offset(0), Offset(6)).difference is not None


def test_where_no_replica_has_an_intact_batch_none_is_right() -> None:
    found = compare_chunks(
        chunks(b1=damaged(batch(0)), b2=damaged(damaged(batch(0))[:-2] + b"xx")), Offset(0), Offset(2)
    ).difference
    assert found is not None
    assert (found.right, found.why) == ((), "no replica has an intact batch there")


@given(
    cuts=st.lists(st.integers(0, len(EQUAL)), min_size=2, max_size=4),
    # Within the records: a batch whose length is damaged seems to be cut off, and is missing in the next chunk.
    flipped=st.none()
    | st.builds(
        lambda number, position: number * len(batch(0)) + position,
        st.integers(0, 2),
        st.integers(61, len(batch(0)) - 1),
    ),
)
def test_any_answers_to_equal_logs_are_equal_and_a_flipped_bit_is_found_where_all_have_it(
    cuts: list[int], flipped: int | None
) -> None:
    first = len(batch(0))
    answers = {BrokerId(n): EQUAL[: max(cut, first)] for n, cut in enumerate(cuts)}
    if flipped is not None:
        content = bytearray(answers[BrokerId(0)])
        if flipped < len(content):
            content[flipped] ^= 1
        answers[BrokerId(0)] = bytes(content)
    compared = compare_chunks(answers, Offset(0), Offset(6))
    whole = min(len(data) // first for data in answers.values())
    is_seen = flipped is not None and flipped // first < whole
    assert (compared.difference is not None) == is_seen
    assert compared.equal_until == 2 * (flipped // first if is_seen and flipped is not None else whole)


def values(end: int, *records: tuple[int, bytes, bytes | None]) -> LastValues:
    of_one = LastValues()
    for offset, key, value in records:
        of_one.add(Record(Offset(offset), 0, key, value), Offset(end))
    return of_one


def test_compacted_replicas_are_equal_if_the_last_values_are() -> None:
    whole = values(10, (0, b"a", b"1"), (1, b"b", b"1"), (2, b"a", b"2"))
    compacted = values(10, (1, b"b", b"1"), (2, b"a", b"2"))
    assert compare_last_values({BrokerId(1): whole, BrokerId(2): compacted}) is None


def test_a_tombstone_is_the_same_as_nothing() -> None:
    kept = values(10, (0, b"a", b"1"), (1, b"a", None))
    assert compare_last_values({BrokerId(1): kept, BrokerId(2): values(10)}) is None


def test_what_a_record_above_the_end_may_have_replaced_is_not_compared() -> None:
    ahead = values(10, (12, b"a", b"2"))
    assert compare_last_values({BrokerId(1): values(10, (0, b"a", b"1")), BrokerId(2): ahead}) is None


def test_of_two_last_values_the_later_record_is_right() -> None:
    found = compare_last_values(
        {
            BrokerId(1): values(10, (0, b"a", b"1"), (5, b"a", b"2")),
            BrokerId(2): values(10, (0, b"a", b"1")),
            BrokerId(3): values(10, (5, b"a", b"2")),
        }
    )
    assert found is not None
    assert (found.offset, found.right, found.wrong) == (5, (1, 3), (2,))
    assert found.why == "the record at offset 5 is the latest of key 'a'"


def test_two_values_at_one_offset_leave_it_open() -> None:
    found = compare_last_values({BrokerId(1): values(9, (5, b"a", b"2")), BrokerId(2): values(9, (5, b"a", b"3"))})
    assert found is not None
    assert found.right == ()


def test_what_retention_may_have_deleted_at_one_replica_is_no_difference() -> None:
    early, late = values(200, (50, b"k", b"v"), (150, b"n", b"v")), values(200, (150, b"n", b"v"))
    late.start = Offset(100)
    assert compare_last_values({BrokerId(1): early, BrokerId(2): late}) is None
    late.start = Offset(50)
    assert compare_last_values({BrokerId(1): early, BrokerId(2): late}) is not None
