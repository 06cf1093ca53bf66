"""Which transactions were aborted, and which markers have outlived theirs."""

import pytest

from broker_agent.decisions.cleaned_transactions import CleanedTransactions
from cluster.model.broker import Offset

P, Q = 7, 8


def transactions(*steps: tuple[str, int, int]) -> CleanedTransactions:
    found = CleanedTransactions()
    for kind, producer, offset in steps:
        if kind == "batch":
            found.add_batch(producer, Offset(offset))
        else:
            found.add_marker(producer, Offset(offset), is_abort=kind == "abort")
    return found


@pytest.mark.rule("R10.27")
def test_a_batch_is_aborted_if_the_next_marker_of_its_producer_says_so() -> None:
    found = transactions(
        ("batch", P, 0),
        ("batch", Q, 5),
        ("batch", P, 10),
        ("abort", P, 15),
        ("commit", Q, 16),
        ("batch", P, 20),
        ("commit", P, 25),
        ("batch", P, 30),
        ("abort", P, 35),
        ("batch", P, 40),
    )
    aborted = [offset for offset in (0, 10, 20, 30, 40) if found.was_aborted(P, Offset(offset))]
    assert aborted == [0, 10, 30]
    assert not found.was_aborted(Q, Offset(5))
    assert not found.was_aborted(9, Offset(5))
    assert not any(found.has_outlived(Offset(marker)) for marker in (15, 16, 25, 35))


@pytest.mark.rule("R10.27")
def test_a_marker_without_a_batch_before_it_has_outlived_its_transaction() -> None:
    found = transactions(("abort", P, 5), ("batch", P, 10), ("commit", P, 15), ("commit", P, 20), ("commit", Q, 21))
    assert [marker for marker in (5, 15, 20, 21) if found.has_outlived(Offset(marker))] == [5, 20, 21]
    assert not found.was_aborted(P, Offset(10))


@pytest.mark.rule("R10.27")
def test_transactions_are_decided_once_all_markers_were_seen() -> None:
    assert CleanedTransactions().are_all_decided
    found = transactions(("batch", P, 0), ("batch", Q, 1), ("commit", P, 2))
    assert not found.are_all_decided
    found.add_marker(Q, Offset(3), is_abort=False)
    assert found.are_all_decided
