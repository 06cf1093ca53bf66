"""The digests of lines, kept in sorted runs: whatever the batches, each line is found under its number."""

from hypothesis import given
from hypothesis import strategies as st

from audit.chains.line_digests import DIGEST_BYTES, digests_of, find_digests, packed, reduce_digests
from audit.records.sorted_runs import SortedRun, joined_runs
from state_log.chain import ChainSegment
from tests.examples import examples

LOGS = [("broker-1", "1700000000000.1"), ("controller-1001", "1700000000000.2")]


def digest(log: int, seq: int) -> str:
    return f"{log:02x}{seq:014x}" + "0" * 48


def segment(log: int, first: int, count: int) -> tuple[list[ChainSegment], bytes]:
    lines = [digest(log, seq) for seq in range(first, first + count)]
    return [ChainSegment(*LOGS[log], first, first + count - 1, "", lines[-1])], packed(lines)


BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9_000), st.integers(1, 5_000)), min_size=1, max_size=3),
    min_size=1,
    max_size=6,
)


@examples(24, deep=60)
@given(BATCHES, st.lists(st.integers(0, 15_000), min_size=5, max_size=5))
def test_a_line_is_found_if_it_was_read(batches: list[list[tuple[int, int, int]]], wanted: list[int]) -> None:
    runs: list[SortedRun] = []
    read: set[tuple[int, int]] = set()
    for batch in batches:
        added = digests_of(segment(*part) for part in batch)
        kept, run = joined_runs(runs, added, reduce_digests)
        runs[kept:] = [SortedRun(run)]
        read |= {(log, seq) for log, first, count in batch for seq in range(first, first + count)}
    edges = [seq for _, first, count in batches[0] for seq in (first, first + count - 1, first + count)]
    for log in (0, 1):
        for seq in (*wanted, *edges):
            name = "/".join(LOGS[log])
            expected = {digest(log, seq)[: 2 * DIGEST_BYTES]} if (log, seq) in read else set()
            assert find_digests(runs, [(name, seq)]) == {(name, seq): expected}


def test_lines_that_continue_one_another_become_one_row() -> None:
    runs: list[SortedRun] = []
    for first in range(0, 4096, 8):
        kept, run = joined_runs(runs, digests_of([segment(0, first, 8)]), reduce_digests)
        runs[kept:] = [SortedRun(run)]
    assert sum(run.rows.num_rows for run in runs) < 40
    name = "/".join(LOGS[0])
    lines = {(name, seq): {digest(0, seq)[:16]} for seq in (0, 7, 8, 4095)}
    assert find_digests(runs, [*lines, (name, 4096), ("x", 5)]) == {**lines, (name, 4096): set(), ("x", 5): set()}


def test_two_lines_of_one_number_are_both_found() -> None:
    other = ([ChainSegment(*LOGS[0], 5, 5, "", "f" * 64)], packed(["f" * 64]))
    _, run = joined_runs([], digests_of([segment(0, 0, 10), other]), reduce_digests)
    line = ("/".join(LOGS[0]), 5)
    assert find_digests([SortedRun(run)], [line]) == {line: {digest(0, 5)[:16], "f" * 16}}
