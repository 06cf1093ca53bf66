"""What a fetcher says in its session: everything first, then what changed; everything again after an error."""

import pytest
from msgspec.structs import replace

from broker_agent.replication.fetch_states import FetchState
from cluster.model.bounds import INT32_MAX
from cluster.model.broker import LeaderEpoch, Offset
from cluster.model.errors import ErrorCode
from cluster.model.partition import TopicPartition
from cluster.requests.data import FetchPartition, FetchResponse, ForgottenPartition
from cluster.requests.fetcher_session import AskedPartition, FetcherSession, SessionRequest, next_session_epoch

A, B, C = (TopicPartition("t", number) for number in range(3))


def asked(tp: TopicPartition, offset: int = 0) -> AskedPartition[FetchState]:
    state = FetchState(None, Offset(offset), LeaderEpoch(1))
    return AskedPartition(state, FetchPartition(tp.topic, None, tp.partition, Offset(offset), 100))


def granted(session_id: int) -> FetchResponse:
    return FetchResponse(ErrorCode.NONE, session_id=session_id)


def named(request: SessionRequest) -> list[tuple[int, int]]:
    return [(item.partition, item.fetch_offset) for item in request.partitions]


def established(*partitions: TopicPartition) -> FetcherSession[FetchState]:
    session = FetcherSession[FetchState]()
    session.take_answer(session.request_all({tp: asked(tp) for tp in partitions}), granted(7))
    return session


@pytest.mark.rule("R5.12")
def test_a_session_begins_with_everything_and_goes_on_with_what_changed() -> None:
    session = FetcherSession[FetchState]()
    first = session.request_all({A: asked(A), B: asked(B)})
    assert (first.session_id, first.session_epoch, named(first)) == (0, 0, [(0, 0), (1, 0)])
    assert not session.is_established
    session.take_answer(first, granted(7))
    assert session.is_established
    second = session.request_changes({A: asked(A, 5), C: asked(C)})
    assert (second.session_id, second.session_epoch, named(second)) == (7, 1, [(0, 5), (2, 0)])
    session.take_answer(second, granted(7))
    third = session.request_changes({B: None})
    assert (third.session_epoch, named(third), third.forgotten_partitions) == (2, [], (ForgottenPartition("t", 1),))
    fourth = session.request_changes({})
    assert (fourth.session_epoch, fourth.partitions, fourth.forgotten_partitions) == (3, (), ())
    assert set(session.asked) == {A, C}


@pytest.mark.rule("R5.12", "R5.22")
def test_what_is_asked_in_the_same_way_is_named_again_only_if_its_state_was_replaced() -> None:
    session = established(A)
    same = session.asked[A]
    assert not session.differs({A: same, B: None})
    assert named(session.request_changes({A: same, B: None})) == []
    # The answer to the last request is dropped, so the leader has to answer once more.
    other_state = same._replace(state=replace(same.state))
    assert session.differs({A: other_state})
    assert named(session.request_changes({A: other_state})) == [(0, 0)]
    other_item = other_state._replace(item=replace(other_state.item, log_start_offset=Offset(3)))
    assert named(session.request_changes({A: other_item})) == [(0, 0)]


@pytest.mark.rule("R5.12")
def test_after_an_error_everything_is_named_again_and_the_old_session_is_ended() -> None:
    session = established(A, B)
    session.request_changes({})
    session.reset()
    assert (session.is_established, session.asked) == (False, {})
    again = session.request_all({A: asked(A)})
    assert (again.session_id, again.session_epoch, again.is_full) == (7, 0, True)
    session.take_answer(again, granted(8))
    assert session.request_changes({})[:2] == (8, 1)


@pytest.mark.rule("R5.12")
def test_a_leader_that_grants_no_session_is_asked_for_everything_each_time() -> None:
    session = FetcherSession[FetchState]()
    assert not session.is_refused
    for _ in range(2):
        session.take_answer(session.request_all({A: asked(A)}), granted(0))
        assert (session.is_established, session.is_refused) == (False, True)
        assert set(session.asked) == {A}
    session.take_answer(session.request_all({A: asked(A)}), granted(9))
    assert (session.is_established, session.is_refused) == (True, False)


@pytest.mark.rule("R5.12")
def test_a_session_that_the_leader_has_ended_is_ended() -> None:
    session = established(A)
    session.take_answer(session.request_changes({}), granted(0))
    assert not session.is_established
    assert session.request_all({A: asked(A)}).session_id == 0


@pytest.mark.rule("R5.12")
@pytest.mark.parametrize(("epoch", "following"), [(0, 1), (1, 2), (INT32_MAX - 1, INT32_MAX), (INT32_MAX, 1)])
def test_numbers_rise_and_begin_again_above_that_of_a_full_fetch(epoch: int, following: int) -> None:
    assert next_session_epoch(epoch) == following
