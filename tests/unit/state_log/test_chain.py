from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from state_log.chain import ChainSegment, IncarnationLog, extend, extend_many, join, out_of_order
from state_log.record import CHAIN_START, Kind, LoggedStateChange, Stamper, StateChange, decode_line, line_digest

LINES = Stamper("n", "1700000000000.1").stamp([StateChange(kind=Kind.BROKER, broker=n) for n in range(30)], 1)


def segment(first: int, last: int) -> ChainSegment:
    prev = line_digest(LINES[first - 1]) if first else CHAIN_START
    return ChainSegment("n", "1700000000000.1", first, last, prev, line_digest(LINES[last]))


def rules(log: IncarnationLog, *segments: ChainSegment) -> tuple[IncarnationLog, list[str]]:
    found = []
    for item in segments:
        log, wrong = join(log, [(item, 0)])
        found += [fault.rule for fault in wrong]
    return log, found


def test_lines_that_follow_one_another_grow_into_one_segment() -> None:
    grown = None
    for line in LINES:
        record = decode_line(line)
        assert isinstance(record, LoggedStateChange)
        grown = extend(grown, record, line)
    assert grown == segment(0, 29)


def test_another_number_chain_node_or_incarnation_ends_a_segment() -> None:
    for other in (LINES[3], LINES[1].replace(b'"prev":"', b'"prev":"x'), LINES[1].replace(b'"n"', b'"m"')):
        record = decode_line(other)
        assert isinstance(record, LoggedStateChange)
        assert extend(segment(0, 0), record, other) is None


def test_segments_in_order_leave_nothing_to_find() -> None:
    log, found = rules(IncarnationLog(), segment(0, 9), segment(10, 19), segment(20, 29))
    assert (log.records, log.next_seq, log.missing, found) == (30, 30, (), [])


def test_a_gap_is_reported_once_and_lines_that_come_late_are_counted() -> None:
    log, found = rules(IncarnationLog(), segment(0, 4), segment(15, 19))
    assert (log.records, log.missing, found) == (10, ((5, 14),), ["sequence-gap"])
    log, found = rules(log, segment(7, 9))
    assert (log.records, log.missing, found) == (13, ((5, 6), (10, 14)), [])
    log, found = rules(log, segment(10, 25))
    assert (log.records, log.missing, log.next_seq, found) == (24, ((5, 6),), 26, ["duplicate-sequence"])
    assert rules(log, segment(26, 29))[1] == []


def test_a_segment_behind_a_later_one_of_its_run_is_out_of_order() -> None:
    other = ChainSegment("n", "1700000000099.2", 0, 3, CHAIN_START, "d")
    assert list(out_of_order([segment(0, 3), segment(6, 9), other])) == []
    first, late = segment(0, 3), segment(4, 5)
    assert list(out_of_order([first, segment(6, 9), late])) == [(late, "record 4 stands behind record 9")]


def test_an_altered_line_breaks_the_chain_to_the_next_segment() -> None:
    forged = ChainSegment("n", "1700000000000.1", 0, 9, CHAIN_START, "0" * 64)
    assert rules(IncarnationLog(), forged, segment(10, 19))[1] == ["chain-break"]


@given(st.lists(st.tuples(st.integers(0, 29), st.integers(0, 9)).map(lambda t: (t[0], min(29, t[0] + t[1])))))
def test_counting_agrees_with_a_set_of_numbers(ranges: list[tuple[int, int]]) -> None:
    log, seen = IncarnationLog(), set[int]()
    for first, last in ranges:
        numbers = set(range(first, last + 1))
        log, wrong = join(log, [(segment(first, last), 0)])
        assert any(fault.rule == "duplicate-sequence" for fault in wrong) == bool(numbers & seen)
        seen |= numbers
        assert log.records == len(seen)
        assert log.next_seq == max(seen) + 1
        missing = {n for low, high in log.missing for n in range(low, high + 1)}
        assert missing == set(range(log.next_seq)) - seen


@given(st.lists(st.tuples(st.integers(0, 29), st.integers(0, 9)).map(lambda t: (t[0], min(29, t[0] + t[1])))))
def test_segments_joined_at_once_are_the_same_as_one_by_one(ranges: list[tuple[int, int]]) -> None:
    segments = [segment(first, last) for first, last in sorted(ranges)]
    log, wrong = join(IncarnationLog(), [(item, 0) for item in segments])
    assert (log, [fault.rule for fault in wrong]) == rules(IncarnationLog(), *segments)


def test_every_other_line_may_be_missing() -> None:
    """The time was that of the square of the number: an hour for the lines of one batch."""
    lines = [(ChainSegment("n", "1700000000000.1", n, n, CHAIN_START, ""), 0) for n in range(0, 400_000, 2)]
    log, wrong = join(IncarnationLog(), lines)
    late = [(ChainSegment("n", "1700000000000.1", n, n, "", ""), 0) for n in range(1, 399_999, 2)]
    assert (len(log.missing), len(wrong)) == (199_999, 199_999)
    assert join(log, late)[0] == IncarnationLog(399_999, "", 399_999, ())


OTHER = Stamper("m", "1700000000000.1").stamp([StateChange(kind=Kind.BROKER, broker=n) for n in range(3)], 1)


def one_by_one(lines: list[bytes]) -> list[ChainSegment]:
    segments: list[ChainSegment] = []
    for line in lines:
        record = decode_line(line)
        assert isinstance(record, LoggedStateChange)
        longer = extend(segments[-1], record, line) if segments else None
        begun = longer or extend(None, record, line)
        assert begun is not None
        segments[len(segments) - (longer is not None) :] = [begun]
    return segments


@given(
    st.lists(st.integers(0, 27).flatmap(lambda n: st.sampled_from([LINES[n : n + 3], LINES[n : n + 1], OTHER]))),
    st.lists(st.integers(0, 90), max_size=3),
)
def test_segments_of_many_lines_are_those_of_one_line_after_the_other(runs: list[list[bytes]], cuts: list[int]) -> None:
    lines = [line for run in runs for line in run]
    segments: list[ChainSegment] = []
    for first, end in pairwise([0, *sorted(cuts), len(lines) + 90]):
        block = lines[first:end]
        records = [record for record in map(decode_line, block) if isinstance(record, LoggedStateChange)]
        extend_many(segments, records, block)
    assert segments == one_by_one(lines)
