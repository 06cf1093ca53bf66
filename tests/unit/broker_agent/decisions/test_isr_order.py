"""An ISR of five and more is listed as Kafka's leader lists it."""

import pytest

from broker_agent.decisions.isr import PendingExpand, PendingShrink, proposed_isr
from broker_agent.decisions.isr_order import listed
from cluster.broker import BrokerId


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


@pytest.mark.rule("R8.13")
@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (ids(4, 2, 1), ids(4, 2, 1)),
        (ids(4, 2, 1, 5), ids(4, 2, 1, 5)),
        (ids(4, 2, 1, 5, 3), ids(5, 1, 2, 3, 4)),
        # What the Scala shell shows for Set(1, ..., 10).
        (ids(*range(1, 11)), ids(5, 10, 1, 6, 9, 2, 7, 3, 8, 4)),
    ],
)
def test_members_are_listed_as_they_came_up_to_four_and_by_their_hashes_beyond(
    members: tuple[BrokerId, ...], expected: tuple[BrokerId, ...]
) -> None:
    assert listed(members, size_before=len(members) - 1) == expected


@pytest.mark.rule("R8.13")
def test_every_member_of_a_large_isr_is_listed_once_whatever_the_order_before() -> None:
    many = ids(*range(0, 3000, 7))
    assert sorted(listed(many, size_before=0)) == list(many)
    assert listed(many[::-1], size_before=0) == listed(many, size_before=0)


@pytest.mark.rule("R8.13")
def test_a_leader_proposes_by_hashes_from_five_on_and_after_a_member_of_five_has_left() -> None:
    assert proposed_isr(PendingExpand(ids(4, 2, 1, 5), BrokerId(3))) == ids(5, 1, 2, 3, 4)
    assert proposed_isr(PendingShrink(ids(3, 1, 2, 5, 4), ids(4))) == ids(5, 1, 2, 3)
    assert proposed_isr(PendingShrink(ids(3, 1, 2, 4), ids(4))) == ids(3, 1, 2)
