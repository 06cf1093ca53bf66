"""Controller epochs and events that there were, and times without a controller."""

import pytest
from msgspec.structs import replace

from audit.reading.node_work import Work, joined_work
from audit.rules.controller_epochs import (
    CONTROLLER_EPOCHS_RISE,
    EPOCH_NEVER_BEGAN,
    EVENT_NEVER_WAS,
    EVENT_OF_ONE_NAME,
    EVENTS_RISE,
    NO_CONTROLLER,
    Followed,
    TermOfController,
    falling_epochs,
    falling_events,
    late_controllers,
    of_other_controllers,
    renamed_events,
    times_without_controller,
    unknown_requests,
)
from state_log.decision_rules import RECORD_OF_OWN_BROKER

NODE, RUN = "controller-1001", "1700000000000.7"
LOG = f"{NODE}/{RUN}"
NO_FALL = None


def work(
    events: tuple[int, int, int, int] = (2, 3, 8, 8),
    fall: tuple[int, int, int] | None = NO_FALL,
    *,
    node: str = NODE,
    epoch: int = 5,
    first_seq: int = 3,
) -> Work:
    """`events`: the first, its record, the last, the greatest."""
    return Work(node, RUN, epoch, 7, first_seq, first_seq + 6, 1003, 1009, None, None, None, *events, fall)


@pytest.mark.parametrize(
    ("followed", "unread", "found"),
    [
        (Followed(5, 1001, 8), (), None),
        (Followed(5, 1001, 9), (), (EVENT_NEVER_WAS, LOG)),
        (Followed(5, 1001, 9), (LOG,), None),
        (Followed(7, 1001, 1), (), (EPOCH_NEVER_BEGAN, "")),
        # Another controller is active in it: that is another rule's.
        (Followed(6, 1001, 1), (), None),
        # Nothing was read of this controller.
        (Followed(7, 1002, 1), (), None),
    ],
)
def test_requests_are_of_events_that_were(
    followed: Followed, unread: tuple[str, ...], found: tuple[str, str] | None
) -> None:
    parts = [work(), work(node="broker-1", epoch=-1)]
    expected = [] if found is None else [(found[0], followed, found[1])]
    assert list(unknown_requests([followed], {5, 6}, parts, unread)) == expected


def test_where_events_were_not_read_nothing_is_said_of_them() -> None:
    assert list(unknown_requests([Followed(5, 1001, 9)], {5}, [work((-1, -1, -1, -1))], ())) == []


def test_a_fall_between_events_is_found_once_for_a_term() -> None:
    (found,) = falling_events([work(fall=(6, 9, 4)), work(), work(fall=(6, 9, 4), node="broker-1")])
    assert (found.rule, found.subject, found.records) == (EVENTS_RISE, f"controller-epoch 5 of {LOG}", (f"{LOG}/6",))
    assert found.message == f"{NODE} recorded event 4 in controller epoch 5 after event 9"


@pytest.mark.parametrize(
    ("first", "last", "events"),
    [
        (work(), work((9, 10, 11, 11), first_seq=10), (2, 3, 11, 11, None)),
        (work(), work((7, 10, 11, 11), first_seq=10), (2, 3, 11, 11, (10, 8, 7))),
        (work(), work((-1, -1, -1, -1), first_seq=10), (2, 3, 8, 8, None)),
        (work((-1, -1, -1, -1)), work((7, 10, 11, 11), first_seq=10), (7, 10, 11, 11, None)),
        (work(fall=(4, 9, 8)), work((7, 10, 11, 11), (12, 14, 11), first_seq=10), (2, 3, 11, 11, (4, 9, 8))),
        # The same lines once more.
        (work(), work(), (2, 3, 8, 8, None)),
    ],
)
def test_events_of_two_parts_of_a_log_are_joined_in_whatever_order(
    first: Work, last: Work, events: tuple[object, ...]
) -> None:
    for one, other in ((first, last), (last, first)):
        found = joined_work(one, other)
        assert (
            found.first_event, found.first_event_seq, found.last_event, found.max_event, found.event_fall
        ) == events  # fmt: skip


def test_an_event_of_two_names_is_found_once_for_a_term() -> None:
    renamed = replace(work(), event_renamed=(6, "BrokerChange", ""))
    (found,) = renamed_events([renamed, work(), replace(renamed, node="broker-1")])
    assert (found.rule, found.subject) == (EVENT_OF_ONE_NAME, f"controller-epoch 5 of {LOG}")
    assert (found.message, found.records) == (f"{NODE} recorded an event as BrokerChange and as none", (f"{LOG}/6",))


def test_an_event_keeps_its_name_over_two_parts_of_a_log() -> None:
    first = replace(work(), first_name="A", last_name="B")
    same, other = (replace(work((8, 10, 9, 9), first_seq=10), first_name=name, last_name="C") for name in "BX")
    assert joined_work(same, first).event_renamed is None
    assert joined_work(other, first).event_renamed == (10, "B", "X")
    # An earlier klamm did not keep names.
    assert joined_work(other, work()).event_renamed is joined_work(work((1, 2, 8, 8)), other).event_renamed is None
    assert (joined_work(first, same).first_name, joined_work(first, same).last_name) == ("A", "C")


@pytest.mark.parametrize(
    ("active", "found"),
    [
        ({5: [f"{LOG}/3"], 6: [f"{LOG}/9", "controller-1002/1.1/0"], 7: ["controller-1002/1.1/5"]}, []),
        ({0: [f"{LOG}/3"], 1: [f"{LOG}/9"]}, [(0, 3, f"{NODE} became active in controller epoch 0")]),
        ({5: [f"{LOG}/3"], 4: [f"{LOG}/9"]}, [(4, 9, f"{NODE} became active in controller epoch 4 after 5")]),
        ({5: [f"{LOG}/3", f"{LOG}/9"]}, [(5, 9, f"{NODE} became active in controller epoch 5 after 5")]),
    ],
)
def test_the_epochs_of_a_controller_rise(active: dict[int, list[str]], found: list[tuple[int, int, str]]) -> None:
    findings = list(falling_epochs(active))
    assert {finding.rule for finding in findings} <= {CONTROLLER_EPOCHS_RISE}
    assert [(f.subject, f.records, f.message) for f in findings] == [
        (f"controller-epoch {epoch} of {LOG}", (f"{LOG}/{seq}",), message) for epoch, seq, message in found
    ]


def test_a_term_is_in_the_log_of_its_own_controller() -> None:
    own = TermOfController(5, 1001, 1000, None, f"{LOG}/3", None)
    of_kafka = TermOfController(6, 7, 1000, None, "kafka-controller-8/x/3", None)
    other = TermOfController(7, 1002, 1000, 2000, f"{LOG}/4", f"{LOG}/5")
    found = list(of_other_controllers([other, own, of_kafka]))
    assert [(f.rule, f.message, f.records) for f in found] == [
        (RECORD_OF_OWN_BROKER, f"{NODE} recorded that controller 1002 {what}", (f"{LOG}/{seq}",))
        for what, seq in (("became active", 4), ("resigned", 5))
    ]


@pytest.mark.parametrize(
    ("terms", "newest_ms", "message"),
    [
        (
            [TermOfController(5, 1001, 0, 1_000, "a", "b"), TermOfController(6, 1002, 61_000, None, "c", None)],
            99_000_000,
            None,
        ),
        (
            [TermOfController(5, 1001, 0, 1_000, "a", "b"), TermOfController(6, 1002, 61_001, None, "c", None)],
            99_000_000,
            "no controller was active for 60 s, from 1970-01-01 00:00:01.000 until another one became active: more "
            "than 60 s",
        ),
        (
            [TermOfController(5, 1001, 0, 1_000, "a", "b"), TermOfController(6, 1002, None, None, None, None)],
            99_000,
            "no controller was active for 98 s, from 1970-01-01 00:00:01.000 until the end of the logs: more than 60 s",
        ),
        # Nothing says when a controller that did not resign was gone.
        (
            [TermOfController(5, 1001, 0, None, "a", None), TermOfController(6, 1002, 99_000, None, "c", None)],
            99_000,
            None,
        ),
    ],
)
def test_after_a_resignation_another_controller_becomes_active(
    terms: list[TermOfController], newest_ms: int, message: str | None
) -> None:
    found = list(times_without_controller(terms, newest_ms, 60_000))
    assert [f.message for f in found] == ([] if message is None else [message])
    assert all((f.rule, f.subject, f.at_ms) == (NO_CONTROLLER, "controller-epoch 5", 1_000) for f in found)
    assert all(f.records == (("b", "c") if newest_ms > 99_000 else ("b",)) for f in found)


@pytest.mark.parametrize(
    ("terms", "found"),
    [
        ([TermOfController(6, 1002, 90_000, None, "c", None, silent_ms=60_000)], []),
        ([TermOfController(6, 1002, 90_000, None, "c", None, silent_ms=60_001)], [("c",)]),
        ([TermOfController(6, 1002, None, None, None, None, silent_ms=60_001)], []),
        ([TermOfController(6, 1002, 90_000, None, None, None, silent_ms=60_001)], [()]),
        # The one before was killed; or it resigned, which is judged by when it did.
        (
            [
                TermOfController(5, 1001, 0, None, "a", None),
                TermOfController(6, 1002, 90_000, None, "c", None, silent_ms=61_000),
            ],
            [("c",)],
        ),
        (
            [
                TermOfController(5, 1001, 0, 9_000, "a", "b"),
                TermOfController(6, 1002, 90_000, None, "c", None, silent_ms=61_000),
            ],
            [],
        ),
    ],
)
def test_a_controller_is_replaced_soon_after_another_saw_it_gone(
    terms: list[TermOfController], found: list[tuple[str, ...]]
) -> None:
    findings = list(late_controllers(terms, 60_000))
    assert [f.records for f in findings] == found
    assert {(f.rule, f.subject) for f in findings} <= {(NO_CONTROLLER, "controller-epoch 6 of controller 1002")}
    assert all("until it became active: more than 60 s" in f.message for f in findings)


def test_how_long_nobody_was_active_is_said_in_seconds() -> None:
    (found,) = late_controllers([TermOfController(6, 1002, 90_000, None, "c", None, silent_ms=61_000)], 60_000)
    assert (found.message, found.at_ms) == (
        "no controller was active for 61 s, from 1970-01-01 00:00:29.000, when controller 1002 saw it, until it became "
        "active: more than 60 s",
        29_000,
    )
