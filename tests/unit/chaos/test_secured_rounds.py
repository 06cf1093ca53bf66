"""Which rounds of the chaos suite run under TLS."""

import pytest

from tests.chaos.__main__ import REGISTERED, secured_and_not
from tests.chaos.faults.registry import FAULTS


@pytest.mark.parametrize(("which", "secured"), [("some", 6), ("all", 9), ("none", 0)])
def test_two_rounds_of_three_are_secured_unless_others_are_asked_for(which: str, secured: int) -> None:
    assert REGISTERED
    rounds = [(fault, 1) for fault in list(FAULTS.values())[:9]]
    under_tls, plain = secured_and_not(rounds, which)
    assert len(under_tls) == secured
    assert sorted(map(id, [*under_tls, *plain])) == sorted(map(id, rounds))
