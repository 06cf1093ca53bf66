"""Whether the controllers that are left are enough, by those that are registered and those that ever ran."""

import pytest

from cluster.model.broker import BrokerId
from controller.decisions.missing_controllers import missing_controllers

SINGLE, MISSING = "single_controller", "missing_controller"


@pytest.mark.rule("D-110")
@pytest.mark.parametrize(
    ("registered", "known", "expected", "kind"),
    [
        # One that was always alone, before and after it wrote its log.
        ([901], [], 0, None),
        ([901], [901], 0, None),
        # One of two, also if the other never wrote a log.
        ([901], [901, 902], 0, SINGLE),
        ([901], [902], 0, SINGLE),
        ([901, 902], [901], 0, None),
        # Of three, two are enough: ids that are no longer used are known for ever.
        ([901, 902], [901, 902, 903], 0, None),
        ([901, 904], [901, 902, 903, 904], 0, None),
        ([904], [901, 902, 903, 904], 0, SINGLE),
        # As somebody said.
        ([901], [901, 902], 1, None),
        ([901], [901], 2, SINGLE),
        ([901, 902], [901, 902], 3, MISSING),
        ([901], [901, 902, 903], 3, SINGLE),
        ([901, 902, 903], [901], 2, None),
        # Somebody deleted the registration of the one that answers.
        ([], [901], 0, SINGLE),
        ([], [901], 2, SINGLE),
    ],
)
def test_when_controllers_are_missing(registered: list[int], known: list[int], expected: int, kind: str | None) -> None:
    found = list(missing_controllers(frozenset(map(BrokerId, registered)), frozenset(map(BrokerId, known)), expected))
    assert [f.kind for f in found] == ([] if kind is None else [kind])


@pytest.mark.rule("D-110")
@pytest.mark.parametrize(
    ("registered", "known", "expected", "detail"),
    [
        (
            [901],
            [901, 902],
            0,
            "controller 901 is alone: no other takes over when it fails; controller 902 ran before and takes no "
            "part now; start another, or set klamm.controllers.expected=1 if 1 is meant to be enough",
        ),
        (
            [901, 902],
            range(901, 911),
            3,
            "2 of 3 controllers stand for election; controllers 903, 904, 905, 906, 907 and 3 more ran before and take "
            "no part now; start another, or set klamm.controllers.expected=2 if 2 is meant to be enough",
        ),
        (
            [901],
            [901],
            2,
            "controller 901 is alone: no other takes over when it fails; start another, or set "
            "klamm.controllers.expected=1 if 1 is meant to be enough",
        ),
    ],
)
def test_the_missing_ones_are_named_with_what_to_do(
    registered: list[int], known: list[int], expected: int, detail: str
) -> None:
    (found,) = missing_controllers(frozenset(map(BrokerId, registered)), frozenset(map(BrokerId, known)), expected)
    assert found.detail == detail
