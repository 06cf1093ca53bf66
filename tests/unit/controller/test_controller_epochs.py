"""Which controller epoch the next election takes, from what one process knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.broker import ControllerEpoch
from controller.decisions.controller_epochs import (
    DOUBTED_ABOVE,
    LAST,
    MARGINS,
    KnownEpochs,
    after_refusal,
    epoch_in,
    next_epoch,
    outranking,
)
from controller.decisions.recovery.limits import EPOCH_MAX

UNNAMED = ControllerEpoch(-1)


def e(number: int) -> ControllerEpoch:
    return ControllerEpoch(number)


@pytest.mark.rule("D-93")
@pytest.mark.parametrize(
    ("highest", "believed"),
    [(19, DOUBTED_ABOVE), (DOUBTED_ABOVE - 9, DOUBTED_ABOVE - 9 + (1 << 20)), (LAST - 5, LAST - 5 + (1 << 20))],
)
def test_an_epoch_is_believed_that_elections_after_the_highest_can_lead_to(highest: int, believed: int) -> None:
    known = KnownEpochs(e(highest))
    assert known.believes(believed)
    assert not known.believes(believed + 1)


@pytest.mark.rule("D-93")
@pytest.mark.parametrize(
    ("data", "epoch"),
    [
        (b"0", 0),
        (b"12", 12),
        (b"2147483647", 2**31 - 1),
        (b"2147483648", None),
        (b"", None),
        (b"-1", None),
        (b"x", None),
    ],
)
def test_an_epoch_is_a_number_of_31_bits(data: bytes, epoch: int | None) -> None:
    assert epoch_in(data) == epoch


@pytest.mark.rule("D-93", "EL-2", "EL-3")
@pytest.mark.parametrize(
    ("stored", "highest", "expected"),
    [
        (0, 0, 1),
        (None, 0, 1),
        (19, 0, 20),
        (19, 19, 20),
        (119, 19, 120),
        (1, 19, 19 + 50),
        (None, 19, 19 + 50),
        (LAST, 19, 19 + 50),
        (LAST + 1, 19, 19 + 50),
        (DOUBTED_ABOVE, 19, DOUBTED_ABOVE + 1),
        (DOUBTED_ABOVE + 1, DOUBTED_ABOVE + 1, DOUBTED_ABOVE + 2),
        (LAST, LAST - 5, None),
    ],
)
def test_the_next_epoch_is_above_all_that_are_known(stored: int | None, highest: int, expected: int | None) -> None:
    seen = None if stored is None else e(stored)
    known = KnownEpochs(e(highest)).read(seen, 7)
    assert next_epoch(seen, known, 50) == expected


@pytest.mark.rule("D-93", "FN-5")
@pytest.mark.parametrize(
    ("own", "states", "expected"),
    [
        (5, (), None),
        (5, (1, 4), None),
        (5, (1, 5), 5),
        (5, (9, 1), 9),
        (5, (LAST, 2), None),
        (DOUBTED_ABOVE + 9, (DOUBTED_ABOVE + 9,), DOUBTED_ABOVE + 9),
    ],
)
def test_states_of_another_controller_outrank_one_that_has_not_written_yet(
    own: int, states: tuple[int, ...], expected: int | None
) -> None:
    assert outranking(e(own), map(e, states)) == expected


@pytest.mark.rule("D-94")
def test_a_named_epoch_is_believed_if_elections_may_lead_to_it() -> None:
    known = KnownEpochs(e(5))
    named = after_refusal(known, e(5), e(30))
    assert named is not None
    assert next_epoch(e(5), named, MARGINS.start) == 30 + MARGINS.start
    assert after_refusal(known, e(5), e(5)) is None
    assert after_refusal(known, e(5), e(EPOCH_MAX + 1)) is None


@pytest.mark.rule("D-94")
def test_unnamed_epochs_are_found_in_few_growing_steps_and_the_search_ends() -> None:
    known, own, tried = KnownEpochs(e(1)), e(1), []
    while (after := after_refusal(known, own, UNNAMED)) is not None:
        wanted = next_epoch(own, after, MARGINS.start)
        assert wanted is not None
        assert wanted > own
        known, own = after.used(wanted), wanted
        tried.append(own)
    assert tried[0] < 64
    assert len(tried) == 8
    assert EPOCH_MAX <= own < EPOCH_MAX + MARGINS.stop


@pytest.mark.rule("D-94")
def test_a_doubted_epoch_is_believed_when_a_broker_refuses_one_below_it() -> None:
    known = KnownEpochs(e(19)).read(e(DOUBTED_ABOVE + 5), 3)
    assert (known.highest, known.doubted) == (19, DOUBTED_ABOVE + 5)
    after = after_refusal(known, e(20), UNNAMED)
    assert after is not None
    assert next_epoch(e(20), after, MARGINS.start) == DOUBTED_ABOVE + 5 + MARGINS.start
    # None could follow for long.
    last = after_refusal(KnownEpochs(e(19)).read(e(LAST), 3), e(20), UNNAMED)
    assert last is not None
    assert last.highest < 1000


@pytest.mark.rule("D-93")
@pytest.mark.parametrize(
    ("known", "stored", "version", "missing"),
    [
        (KnownEpochs(), 0, 0, 0),
        (KnownEpochs(e(9), version=9), 9, 9, 0),
        (KnownEpochs(e(9), version=9), 9, 0, 9 + 16),
        (KnownEpochs(e(9)), 0, 0, 9 + 16),
        (KnownEpochs(e(9)), None, 12, 0),
        (KnownEpochs(e(10**6)), 0, 0, 4096 + 16),
        (KnownEpochs(e(100)), 100, 3, 0),
    ],
)
def test_a_version_that_was_won_with_does_not_come_again(
    known: KnownEpochs, stored: int | None, version: int, missing: int
) -> None:
    assert known.missing_versions(None if stored is None else e(stored), version) == missing


@given(
    st.lists(st.none() | st.integers(0, 2**31 - 1), max_size=12),
    st.lists(st.integers(-1, 2**31 - 1), max_size=12),
)
def test_each_epoch_is_above_those_that_this_process_won(written: list[int | None], refusals: list[int]) -> None:
    known, won = KnownEpochs(), -1
    for number, content in enumerate(written):
        stored = None if content is None else e(content)
        known = known.read(stored, number)
        wanted = next_epoch(stored, known, MARGINS.start)
        if wanted is None:
            return
        assert won < wanted <= LAST
        won = wanted
        known = known.used(wanted).read(wanted, number)
        for named in refusals[number : number + 1]:
            known = after_refusal(known, wanted, e(named)) or known
