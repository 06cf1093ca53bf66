"""Who may write in a controller epoch, and whom agents follow."""

import pytest

from audit.reading.node_work import Work
from audit.rules.controller_terms import WRITTEN_OUTSIDE_TERM, others_followed, written_outside_terms

NODE, RUN = "controller-1001", "1700000000000.7"
LOG = f"{NODE}/{RUN}"
OTHER = "controller-1002/1700000000000.8/4"


def work(first: int = 3, last: int = 9, node: str = NODE, epoch: int = 5) -> Work:
    return Work(node, RUN, epoch, last - first + 1, first, last, 1000 + first, 1000 + last)


@pytest.mark.parametrize(
    ("active", "resigned", "message", "record"),
    [
        ([f"{LOG}/3"], [], None, None),
        ([f"{LOG}/3"], [f"{LOG}/9"], None, None),
        ([f"{LOG}/3"], [f"{LOG}/20", "controller-1002/1700000000000.8/5"], None, None),
        ([f"{LOG}/4"], [], "before it became active by record 4", f"{LOG}/3"),
        ([f"{LOG}/3"], [f"{LOG}/7"], "after it had resigned by record 7", f"{LOG}/9"),
        ([], [], "in which nobody became active", f"{LOG}/3"),
        ([OTHER], [], "in which controller-1002 became active", f"{LOG}/3"),
        ([f"{LOG}/2"], [], f"in which {NODE} became active", f"{LOG}/3"),
    ],
)
def test_a_controller_writes_only_in_its_term(
    active: list[str], resigned: list[str], message: str | None, record: str | None
) -> None:
    found = list(written_outside_terms([work()], {5: active}, resigned, ()))
    if message is None:
        assert found == []
        return
    (finding,) = found
    assert finding.rule == WRITTEN_OUTSIDE_TERM
    assert finding.subject == f"controller-epoch 5 of {LOG}"
    assert finding.message == f"{NODE} wrote in controller epoch 5, {message}"
    assert finding.records == (record,)
    assert finding.at_ms == 1000 + int((record or "").rpartition("/")[2])


def test_what_brokers_wrote_or_what_has_no_epoch_is_of_no_term() -> None:
    assert list(written_outside_terms([work(node="broker-1"), work(epoch=-1)], {}, (), ())) == []
    assert len(list(written_outside_terms([work(epoch=0)], {}, (), ()))) == 1


def test_a_log_that_lacks_lines_shows_no_violation() -> None:
    assert list(written_outside_terms([work()], {}, (), {LOG})) == []


def test_a_controller_that_resigned_before_it_became_active_wrote_nothing_of_its_term() -> None:
    assert list(written_outside_terms([work(3, 3)], {}, [f"{LOG}/3"], ())) == []
    assert len(list(written_outside_terms([work(3, 4)], {}, [f"{LOG}/4"], ()))) == 1


def test_findings_come_in_the_order_of_controller_epochs() -> None:
    found = written_outside_terms([work(epoch=7), work(epoch=6)], {}, (), ())
    assert [finding.subject for finding in found] == [f"controller-epoch {epoch} of {LOG}" for epoch in (6, 7)]


def test_agents_follow_the_controller_that_became_active() -> None:
    active = {5: [f"{LOG}/3"], 6: [f"{LOG}/9", OTHER]}
    followed = [(6, 1003), (5, 1001), (5, 1002), (6, 1002), (7, 1009)]
    assert list(others_followed(followed, active)) == [
        (5, 1002, NODE),
        (6, 1003, "controller-1001, controller-1002"),
    ]
