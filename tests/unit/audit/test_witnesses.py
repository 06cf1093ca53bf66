"""What witnesses show of the ends of logs."""

from collections.abc import Callable
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from audit.chains.witnesses import (
    LOG_CUT,
    LOG_REWRITTEN,
    LOGS_MAX,
    Ends,
    Latest,
    ReadLog,
    Witnessed,
    add_witnessed,
    check_ends,
    open_ends,
    qualified,
    unconfirmed,
    with_unconfirmed,
)
from state_log.heads_file import GivenHead

NODE, FIRST, SECOND = "controller-1001", "1700000000000.7", "1700000100000.9"
LOG = f"{NODE}/{FIRST}"
BY = "broker-1/1700000000001.8/12"


def digest(seq: int) -> str:
    return f"{seq:016x}" * 4


def seen(seq: int, by: str = BY, incarnation: str = FIRST, digest_of: int | None = None, boot: str = "") -> Witnessed:
    return Witnessed(NODE, incarnation, seq, digest(seq if digest_of is None else digest_of), boot, by, 1_000)


def checked(
    *witnessed: Witnessed, logs: dict[str, ReadLog], may_lag: Callable[[Witnessed], bool] = lambda _: False
) -> Ends:
    latest: Latest = {}
    add_witnessed(latest, witnessed)

    def digests(log: str, seq: int) -> set[str]:
        read = logs[log]
        return {digest(seq)[:16]} if seq < read.next_seq and not read.lacks(seq) else set()

    return check_ends(latest, logs, digests, may_lag)


def rules(ends: Ends) -> list[str]:
    return [finding.rule for finding in ends.findings]


def test_a_log_that_has_what_was_seen_is_sound() -> None:
    assert checked(seen(0), seen(41), seen(99, "broker-2/1700000000001.8/3"), logs={LOG: ReadLog(100)}) == Ends([], [])


def test_a_log_that_ends_before_what_was_seen_was_cut() -> None:
    other = "broker-2/1700000000001.8/3"
    (finding,) = checked(seen(120), seen(110, other), seen(30, other), logs={LOG: ReadLog(100)}).findings
    assert (finding.rule, finding.subject, finding.records) == (LOG_CUT, f"log {LOG}", (BY, other))
    assert "ends with record 99" in finding.message
    assert "has seen record 120" in finding.message


def test_a_line_with_another_digest_was_rewritten_and_the_end_is_not_a_second_finding() -> None:
    beyond = seen(120, "broker-2/1700000000001.8/3")
    (finding,) = checked(seen(60, digest_of=7), beyond, logs={LOG: ReadLog(100)}).findings
    assert (finding.rule, finding.records) == (LOG_REWRITTEN, (BY,))


def test_a_broken_chain_is_one_finding() -> None:
    assert checked(seen(60, digest_of=7), logs={LOG: ReadLog(100, is_broken=True)}) == Ends([], [])


@pytest.mark.parametrize("seq", [0, 5, 9])
def test_what_is_missing_before_the_beginning_or_in_a_gap_is_reported_as_that(seq: int) -> None:
    assert checked(seen(seq), logs={LOG: ReadLog(100, ((0, 9),))}) == Ends([], [])


def test_the_log_of_a_node_or_incarnation_that_is_not_there_makes_it_incomplete() -> None:
    (of_node,) = checked(seen(41), logs={"broker-1/1700000000001.8": ReadLog(20)}).undecided
    assert of_node.what == NODE
    assert "there is no log of this node" in of_node.why
    (of_incarnation,) = checked(seen(41), logs={f"{NODE}/{SECOND}": ReadLog(20)}).undecided
    assert of_incarnation.what == LOG
    assert "retention" in of_incarnation.why


@pytest.mark.parametrize(
    ("boot", "boot_seen", "boot_after", "found"),
    [
        ("a", "", "b", False),
        ("", "a", "b", False),
        ("a", "a", "a", True),
        ("", "", "b", True),
        ("a", "a", "", True),
    ],
)
def test_an_end_may_be_lost_in_a_crash_of_the_machine(boot: str, boot_seen: str, boot_after: str, found: bool) -> None:
    logs = {LOG: ReadLog(100, boot_id=boot), f"{NODE}/{SECOND}": ReadLog(5, boot_id=boot_after)}
    ends = checked(seen(120, boot=boot_seen), logs=logs)
    assert (rules(ends), len(ends.undecided)) == (([LOG_CUT], 0) if found else ([], 1))


def test_the_boot_of_another_node_says_nothing() -> None:
    logs = {LOG: ReadLog(100, boot_id="a"), f"controller-1002/{SECOND}": ReadLog(5, boot_id="b")}
    assert rules(checked(seen(120), logs=logs)) == [LOG_CUT]


def test_a_line_that_is_no_record_may_be_the_one_that_was_seen() -> None:
    ends = checked(seen(120), logs={LOG: ReadLog(100, is_malformed=True)})
    assert (ends.findings, len(ends.undecided)) == ([], 1)


def test_a_log_that_is_being_followed_may_lag() -> None:
    logs = {LOG: ReadLog(100)}
    late = checked(seen(120), logs=logs, may_lag=lambda _: True)
    assert (late.findings, len(late.undecided)) == ([], 1)
    old = replace(seen(110, "broker-2/1700000000001.8/3"), at_ms=0)
    (finding,) = checked(seen(120), old, logs=logs, may_lag=lambda each: each.at_ms > 0).findings
    assert finding.records == (old.by,)


def test_a_given_head_counts_as_a_witness_without_a_record() -> None:
    (finding,) = checked(seen(120, ""), logs={LOG: ReadLog(100)}).findings
    assert (finding.rule, finding.records) == (LOG_CUT, ())
    assert "a head that was given has seen record 120" in finding.message


def test_a_witness_that_names_too_many_logs_is_named() -> None:
    many = [seen(5, f"broker-1/1700000000001.8/{n}", f"{1_700_000_000_000 + n}.7") for n in range(LOGS_MAX + 50)]
    ends = checked(*many, logs={each.log: ReadLog(10) for each in many})
    assert [undecided.what for undecided in ends.undecided] == ["broker-1/1700000000001.8"]


WITNESSED = st.builds(
    seen,
    st.integers(0, 5),
    st.sampled_from(["", *(f"broker-{n}/1700000000001.8/{seq}" for n in (1, 2) for seq in range(3))]),
    st.sampled_from([FIRST, SECOND]),
    st.integers(0, 5),
)


@given(st.lists(WITNESSED, max_size=4), st.lists(st.booleans(), min_size=4, max_size=4))
def test_the_order_of_arrival_does_not_matter(witnessed: list[Witnessed], split: list[bool]) -> None:
    found = []
    for order in permutations(witnessed):
        latest: Latest = {}
        add_witnessed(latest, [each for each, first in zip(order, split, strict=False) if first])
        add_witnessed(latest, [each for each, first in zip(order, split, strict=False) if not first])
        found.append(latest)
    assert all(latest == found[0] for latest in found)


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["a", "b"])), max_size=8), st.integers(1, 30))
def test_exactly_the_logs_that_lack_a_seen_line_are_cut(lines: list[tuple[int, str]], length: int) -> None:
    witnessed = [seen(seq, f"broker-1/{by}/{n}") for n, (seq, by) in enumerate(lines)]
    ends = checked(*witnessed, logs={LOG: ReadLog(length)})
    assert rules(ends) == ([LOG_CUT] if any(seq >= length for seq, _ in lines) else [])


def test_it_is_said_of_which_ends_no_head_was_given() -> None:
    logs = {LOG: 9, f"{NODE}/{SECOND}": 6, "broker-1/1700000000001.8": 4}
    head = GivenHead(NODE, SECOND, 5, digest(5))
    without = open_ends([], logs)
    assert without.last == {NODE: 5, "broker-1": 3}
    assert without.why.startswith("not checked: give --heads")
    assert "not checked of broker-1:" in open_ends([head], logs).why
    assert open_ends([head, GivenHead("broker-1", "1700000000001.8", 3, digest(3))], logs) == ({}, "")
    assert open_ends([replace(head, incarnation=FIRST)], logs).last == {NODE: 5, "broker-1": 3}


@pytest.mark.parametrize(
    ("verdict", "ends", "line"),
    [
        ("clean", {}, "clean"),
        ("findings", {"broker-1": 3}, "findings"),
        ("clean", {"broker-1": 3}, "clean up to record 3 of broker-1: what followed may have been cut"),
        (
            "clean",
            {f"broker-{n}": n for n in range(1, 7)},
            "clean up to record 1 of broker-1, record 2 of broker-2, record 3 of broker-3, record 4 of broker-4, "
            "2 more: what followed may have been cut",
        ),
    ],
)
def test_what_is_clean_is_so_up_to_lines_whose_ends_nobody_confirmed(
    verdict: str, ends: dict[str, int], line: str
) -> None:
    assert qualified(verdict, ends) == line


def test_a_log_that_ends_before_what_the_next_run_of_its_node_found_was_cut_in_whichever_boot() -> None:
    logs = {LOG: ReadLog(30, boot_id="one"), f"{NODE}/{SECOND}": ReadLog(5, boot_id="two")}
    by_own, by_other = f"{NODE}/{SECOND}/0", BY
    assert rules(checked(seen(41, by_other), logs=logs)) == []
    assert rules(checked(seen(41, by_own), logs=logs)) == [LOG_CUT]


Part = tuple[list[tuple[int, str]], list[Witnessed]]
"""What a batch has: lines of LOG by number and digest, and what was seen."""
_LINES = st.tuples(st.integers(0, 5), st.sampled_from([digest(seq) for seq in range(7)]))
_PARTS = st.lists(st.tuples(st.lists(_LINES, max_size=4), st.lists(WITNESSED, max_size=3)), max_size=4)


def found_in(parts: list[Part]) -> Ends:
    latest: Latest = {}
    read: set[tuple[int, str]] = set()
    kept: list[Witnessed] = []

    def digests(log: str, seq: int) -> set[str]:
        return {digits[:16] for number, digits in read if (log, number) == (LOG, seq)}

    for lines, seen_now in parts:
        read.update(lines)
        add_witnessed(latest, seen_now)
        kept = unconfirmed([*kept, *seen_now], digests)
    logs = {LOG: ReadLog(max((seq for seq, _ in read), default=-1) + 1)}
    return check_ends(with_unconfirmed(latest, kept, logs), logs, digests, lambda _: False)


@given(_PARTS, st.randoms(use_true_random=False))
def test_what_differs_from_a_witness_is_found_in_whatever_order_it_comes(parts: list[Part], random: Random) -> None:
    lines = [line for part in parts for line in part[0]]
    seen_all = [each for part in parts for each in part[1]]
    in_parts = [*parts]
    random.shuffle(in_parts)
    assert found_in(in_parts) == found_in([(lines, seen_all)])
